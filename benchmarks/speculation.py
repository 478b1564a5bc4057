"""How much faster answers come with speculation, in turns with the same answers without it.

    python benchmarks/speculation.py MODEL [--draft MODEL] [--by lookup] [--kind copy]
        [--first 1] [--prompts 10] [--rounds 3] [--json]

Prompts: benchmarks/speculation_prompts.json, ten that ask to edit or quote a text and ten that ask
to write freely. Every prompt is answered with and without by turns; since both give the same
tokens, the times of their decoding are compared: the least of the rounds each, so that what else
the machine does counts little. On a busy machine `--threads 1 --processor-time` tells more.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from edgellm import Model, SamplingParams, load

PROMPTS = Path(__file__).with_name("speculation_prompts.json")


@dataclass(frozen=True)
class Result:
    """One prompt. off, auto: seconds of decoding without and with speculation, whoever guesses."""

    kind: str
    number: int
    tokens: int
    drafted: int
    accepted: int
    off: float
    auto: float

    @property
    def ratio(self) -> float:
        return self.off / self.auto


def measure(model: Model, kind: str, number: int, prompt: str, args: argparse.Namespace) -> Result:
    """Answers one prompt `rounds` times each way. AssertionError when the texts differ."""
    seconds: dict[str, list[float]] = {"off": [], args.by: []}
    answers = {}
    message = {"role": "user", "content": prompt}
    model.chat([message], SamplingParams(max_tokens=0))  # the prompt is computed for both
    for _ in range(args.rounds):
        for mode in seconds:
            params = SamplingParams(
                temperature=args.temperature, seed=0, max_tokens=args.tokens, speculation=mode
            )
            begun = time.process_time()
            done = model.chat([message], params)
            spent = time.process_time() - begun
            seconds[mode].append(spent if args.processor_time else done.timings.decode)
            answers[mode] = done
    assert answers["off"].token_ids == answers[args.by].token_ids, "the texts differ"
    usage = answers[args.by].usage
    return Result(
        kind,
        number,
        usage.completion_tokens,
        usage.drafted_tokens,
        usage.accepted_tokens,
        min(seconds["off"]),
        min(seconds[args.by]),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--draft", metavar="MODEL", help="guess by this model, too")
    parser.add_argument("--kind", choices=("copy", "free"), help="only these prompts")
    parser.add_argument(
        "--by", choices=("auto", "lookup", "mtp", "draft"), default="auto", help="who guesses"
    )
    parser.add_argument("--first", type=int, default=1, metavar="N", help="prompt of each kind")
    parser.add_argument("--prompts", type=int, default=10, metavar="N", help="so many of each")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--tokens", type=int, default=200, metavar="N", help="of an answer at most")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--threads", type=int, metavar="N")
    parser.add_argument("--processor-time", action="store_true", help="instead of the clock's")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    prompts = json.loads(PROMPTS.read_text(encoding="utf-8"))
    results = []
    with load(args.model, draft=args.draft, threads=args.threads, max_num_seqs=1) as model:
        for kind in [args.kind] if args.kind else prompts:
            chosen = prompts[kind][args.first - 1 : args.first - 1 + args.prompts]
            for number, prompt in enumerate(chosen, args.first):
                result = measure(model, kind, number, prompt, args)
                results.append(result)
                if not args.json:
                    print(
                        f"{kind} {number:2}: {result.ratio:5.2f} times as fast, {result.tokens} "
                        f"tokens, {result.accepted} of {result.drafted} guesses right",
                        flush=True,
                    )
    if args.json:
        print(json.dumps([{**asdict(r), "ratio": r.ratio} for r in results], indent=1))
        return 0
    for kind in sorted({result.kind for result in results}):
        ratios = [result.ratio for result in results if result.kind == kind]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{kind}: {mean:.2f} times as fast (geometric mean), {min(ratios):.2f} at worst")
    return 0


if __name__ == "__main__":
    sys.exit(main())
