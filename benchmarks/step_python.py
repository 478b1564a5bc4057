"""What a token costs outside of kernels: Python between two steps, through the public engine.

    python benchmarks/step_python.py MODEL.gguf [--tokens 120] [--rounds 2]

A line for each way of drawing and number of sequences, of calls that run kernels: how many steps
each computes, and medians in milliseconds: from the start of one to the start of the next, inside
one, between two, and the last divided by the steps. A caller reads the events meanwhile, as a front
end does. Guessing ahead is off: a step is a token. The prompt and the first tokens are left out.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import edgellm
from edgellm.kernels.cpu.team import Team

_SETTLED = 3  # first calls after prompts, left out
_PROMPT = "Once upon a time there was a small village at the foot of a mountain, where"
_WAYS = {
    "greedy": edgellm.SamplingParams(temperature=0, ignore_eos=True, speculation="off"),
    "default": edgellm.SamplingParams(seed=1, ignore_eos=True, speculation="off"),
}
_TESTS = (("greedy", 1), ("default", 1), ("greedy", 8), ("default", 8))


@contextmanager
def stamped() -> Iterator[list[tuple[int, int, int]]]:
    """When each call of the team began and ended, in nanoseconds, and how many steps it was."""
    stamps: list[tuple[int, int, int]] = []
    plain = Team.run

    def run(self: Team, table: int, num_ops: int, step: int, times: int = 1) -> None:
        begun = time.perf_counter_ns()
        plain(self, table, num_ops, step, times)
        stamps.append((begun, time.perf_counter_ns(), times))

    Team.run = run  # type: ignore[method-assign]
    try:
        yield stamps
    finally:
        Team.run = plain  # type: ignore[method-assign]


def measure(model: edgellm.Model, way: str, num_seqs: int, tokens: int) -> tuple[float, ...]:
    """Steps of a call, milliseconds to the next, of its kernels, of what is between, and of that
    per step; medians."""
    params = edgellm.SamplingParams(**{**_WAYS[way].given, "max_tokens": tokens})
    prompts = [f"{_PROMPT} number {number}" for number in range(num_seqs)]
    with stamped() as stamps:
        threads = [
            threading.Thread(target=lambda p=prompt: list(model.stream(p, params)))
            for prompt in prompts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    steady = stamps[num_seqs + _SETTLED : -num_seqs - 1]
    pairs = list(zip(steady, steady[1:], strict=False))
    whole = [b[0] - a[0] for a, b in pairs]
    inside = [b[1] - b[0] for b in steady]
    between = [b[0] - a[1] for a, b in pairs]
    each = [(b[0] - a[1]) / a[2] for a, b in pairs]
    milliseconds = (statistics.median(times) / 1e6 for times in (whole, inside, between, each))
    return statistics.median(times for _, _, times in steady), *milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a GGUF file, or a model of the catalogue")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    print("| drawing | sequences | steps | call ms | kernels ms | between ms | per step ms |")
    print("|---|---|---|---|---|---|---|")
    with edgellm.load(args.model, threads=args.threads, context_length=2048) as model:
        for way, num_seqs in _TESTS:
            rounds = [measure(model, way, num_seqs, args.tokens) for _ in range(args.rounds)]
            medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
            print(f"| {way} | {num_seqs} |" + "".join(f" {m:.3f} |" for m in medians), flush=True)


if __name__ == "__main__":
    main()
