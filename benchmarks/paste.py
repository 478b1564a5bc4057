"""How much an answer that is being read slows down while somebody pastes a long text.

    python benchmarks/paste.py MODEL.gguf [--tokens 4000]

Prints the mean and the longest time between two tokens of the first session while the second one's
prompt is computed, the mean between the same tokens of a first session alone, and the second one's
time to its first token.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence as Seq
from pathlib import Path

from edgellm.backends import Backends
from edgellm.engine import Engine
from edgellm.generation import Rows
from edgellm.gguf_loader import open_gguf
from edgellm.models import read_config
from edgellm.ready import make_ready
from edgellm.sequence import Sequence
from edgellm.types import LoadOptions, SamplingParams


class Session:
    """Takes the most likely token for ever; notes when each came."""

    request_id = "paste"

    def __init__(self, prompt: list[int]) -> None:
        self.sequence = Sequence(0, prompt, len(prompt), SamplingParams())
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


def measure(engine: Engine, vocab_size: int, num_tokens: int, alone: int) -> dict[str, float]:
    """One round on an idle engine."""
    draw = random.Random(0)
    prompt, pasted = (draw.choices(range(vocab_size), k=k) for k in (64, num_tokens))
    reader, paster = Session(prompt), Session(pasted)
    engine.clear_cache()
    read(engine, reader, alone)
    begin, before = time.perf_counter(), len(reader.times)
    engine.add(paster)
    while not paster.times:
        engine.step()
    engine.abort("paste")
    again = Session(prompt)
    engine.clear_cache()
    read(engine, again, len(reader.times))
    engine.abort("paste")
    busy, quiet = gaps(reader.times[before - 1 :]), gaps(again.times[before - 1 :])
    return {
        "alone_ms": statistics.fmean(quiet),
        "beside_ms": statistics.fmean(busy),
        "slowdown": statistics.fmean(busy) / statistics.fmean(quiet),
        "longest_ms": max(busy),
        "steps": len(busy),
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
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    backends = Backends(print)
    with open_gguf(args.model) as file:
        options = LoadOptions(context_length=args.tokens + 2048, max_num_seqs=2)
        ready = make_ready(file, read_config(file), options, backends)
        for _ in range(args.rounds):
            found = measure(ready.engine, ready.program.vocab_size, args.tokens, args.alone)
            print("  ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)
        ready.engine.close()
    backends.close()


if __name__ == "__main__":
    main()
