"""How much an answer that is being read slows down while somebody pastes a long text.

    python benchmarks/paste.py MODEL.gguf [--tokens 4000] [--rounds 5] [--steps FILE]

Prints a line for each round: the mean and the longest time between two tokens of the first session
while the second one's prompt is computed; the mean between the same tokens of a first session
alone, just afterwards, and how many times as long the first is; the same held against what plain
decodes took during the paste, well behind each chunk of it, so that a machine whose speed changed
in between does not count; the second one's time to its first token; and of the steps that computed
the prompt how many there were, and the largest share by which one took longer than was foreseen.
The last lines are the medians and the worst of the rounds. --steps writes each step as a line of
JSON: rows of decodes, prompt tokens, tokens before those, milliseconds, those foreseen, and those
that decodes had saved for prefill when it was over.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path

from edgellm.backends import Backends
from edgellm.consumer import OnlyTakes, Rows
from edgellm.engine import Engine
from edgellm.gguf_loader import open_gguf
from edgellm.models import read_config
from edgellm.ready import make_ready
from edgellm.sequence import Sequence
from edgellm.step_cost import StepCost, Work
from edgellm.types import LoadOptions, SamplingParams

_SETTLED = 10  # steps behind a chunk of the prompt


@dataclass(frozen=True)
class Step:
    """What a step computed and took, in milliseconds."""

    decode_rows: int
    prefill_tokens: int
    depth: float
    ms: float
    foreseen_ms: float
    saved_ms: float


class Recorder(StepCost):
    """Notes each step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []

    def observe(self, work: Work, seconds: float) -> None:
        rows, tokens = work.decode_rows, work.prefill_tokens
        foreseen = self.decode_seconds(rows) + tokens * self._token_seconds(work.depth)
        super().observe(work, seconds)
        took, saved = 1e3 * seconds, 1e3 * self._saved
        self.steps.append(Step(rows, tokens, work.depth, took, 1e3 * foreseen, saved))


class Session(OnlyTakes):
    """Takes the most likely token for ever; notes when each came."""

    request_id = "paste"

    def __init__(self, prompt: list[int]) -> None:
        self.sequence = Sequence(list(prompt), len(prompt), SamplingParams())
        self.times: list[float] = []

    def begin(self) -> None:
        pass

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        self.times.append(time.perf_counter())
        self.sequence.token_ids.append(int(rows[-1].argmax()))
        return False

    def abort(self) -> None:
        pass

    def fail(self, error: Exception) -> None:
        raise error


def gaps(times: list[float]) -> list[float]:
    """Milliseconds between one and the next."""
    return [1e3 * (b - a) for a, b in zip(times, times[1:], strict=False)]


def settled(steps: Seq[Step]) -> list[float]:
    """Milliseconds of decodes that no chunk of a prompt came shortly before."""
    found, since = [], 0
    for step in steps:
        since = 0 if step.prefill_tokens else since + 1
        if since > _SETTLED:
            found.append(step.ms)
    return found


def measure(
    engine: Engine, recorder: Recorder, vocab_size: int, num_tokens: int, alone: int
) -> dict[str, float]:
    """One round on an idle engine."""
    draw = random.Random(0)
    prompt, pasted = (draw.choices(range(vocab_size), k=k) for k in (64, num_tokens))
    reader, paster = Session(prompt), Session(pasted)
    engine.clear_cache()
    read(engine, reader, alone)
    begin, before, first = time.perf_counter(), len(reader.times), len(recorder.steps)
    engine.add(paster)
    while not paster.times:
        engine.step()
    steps = recorder.steps[first:]
    engine.abort("paste")
    again = Session(prompt)
    engine.clear_cache()
    read(engine, again, len(reader.times))
    engine.abort("paste")
    busy, quiet = gaps(reader.times[before - 1 :]), gaps(again.times[before - 1 :])
    beside, chunks = statistics.fmean(busy), [step for step in steps if step.prefill_tokens]
    return {
        "alone_ms": statistics.fmean(quiet),
        "beside_ms": beside,
        "slowdown": beside / statistics.fmean(quiet),
        "slowdown_within": beside / statistics.fmean(settled(steps) or quiet),
        "longest_ms": max(busy),
        "tokens": len(busy),
        "chunks": len(chunks),
        "most_unforeseen": max(step.ms / step.foreseen_ms - 1 for step in chunks[1:]),
        "first_token_s": paster.times[0] - begin,
    }


def read(engine: Engine, reader: Session, count: int) -> None:
    """Lets a session have `count` tokens."""
    engine.add(reader)
    while len(reader.times) < count:
        engine.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--alone", type=int, default=100, help="tokens of the quiet time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=Path, help="a file for what each step was made of")
    args = parser.parse_args()
    backends, recorder = Backends(print), Recorder()
    with open_gguf(args.model) as file:
        options = LoadOptions(context_length=args.tokens + 2048, max_num_seqs=2)
        ready = make_ready(file, read_config(file), options, backends)
        ready.engine._scheduler.cost = recorder
        size = ready.program.vocab_size
        rounds = []
        for _ in range(args.rounds):
            rounds.append(measure(ready.engine, recorder, size, args.tokens, args.alone))
            show("round", rounds[-1])
        ready.engine.close()
    backends.close()
    names = list(rounds[0])
    show("median", {n: statistics.median(found[n] for found in rounds) for n in names})
    show("worst", {n: max(found[n] for found in rounds) for n in names})
    if args.steps is not None:
        args.steps.write_text("".join(f"{json.dumps(asdict(s))}\n" for s in recorder.steps))


def show(title: str, numbers: dict[str, float]) -> None:
    print(title, *(f"{name} {value:.4g}" for name, value in numbers.items()), sep="  ", flush=True)


if __name__ == "__main__":
    main()
