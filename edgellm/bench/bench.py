"""A model opened for timing, and the report of a test in the keys of llama-bench."""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgellm.backend_kinds import Note
from edgellm.backends import Backends
from edgellm.bench.timing import CHUNK, Samples, Workload, measure
from edgellm.bench.work import Work, work
from edgellm.config import cache_dir
from edgellm.errors import BackendError, RequestError
from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.kernels.cpu.plain_read import PlainRead
from edgellm.kernels.kv import BLOCK_SIZE, cache_type
from edgellm.machine import cpu_name
from edgellm.memory import peak_memory
from edgellm.models import read_config
from edgellm.ready import Ready, make_ready
from edgellm.summary import summarize
from edgellm.types import LoadOptions
from edgellm.version import __version__

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Bench:
    """One model, ready to be timed. read: the roofline, where it was asked for."""

    file: GGUFFile
    ready: Ready
    work: Work
    threads: int
    read: PlainRead | None

    def run(self, test: Workload, repetitions: int) -> Row:
        """Times one test and reports it. Errors are those of timing.measure.

        llama-bench's keys and meanings: avg_ts and the like are tokens per second of all
        sequences together, model_size and all other sizes are bytes. Beside them: n_seqs;
        weight_bytes, what one decoded token reads of the model; read_gbs (GB/s) and share_of_read,
        how fast that is read by nothing but loads and how much of this speed decoding reaches,
        None unless measured; gmacs, 10^9 multiply-adds of products per second; peak_memory, the
        most this process has held so far, None where the system does not say.
        """
        is_decode = test.n_gen > 0
        read = self.read if is_decode else None
        start = datetime.now(UTC)
        samples = measure(self.ready.engine, self.ready.program.vocab_size, test, repetitions, read)
        return {
            "build_commit": __version__,
            "cpu_info": cpu_name() or "unknown",
            "gpu_info": self.ready.where if self.ready.backend == "opencl" else "",
            "backends": self.ready.backend,
            **self._model(),
            "n_batch": CHUNK,
            "n_ubatch": CHUNK,
            "n_threads": self.threads,
            **_cache_types(self.ready),
            **asdict(test),
            "test_time": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **_times(samples.steps_ns, test.num_tokens),
            **self._rates(test, samples),
            "peak_memory": peak_memory(),
        }

    def _model(self) -> Row:
        summary = summarize(self.file)
        main_type = summary.tensor_types[0].type if summary.tensor_types else "?"
        return {
            "model_filename": summary.path,
            "model_type": f"{summary.architecture} {_short(summary.parameters)} {main_type}",
            "model_size": summary.memory.weights,
            "model_n_params": summary.parameters,
        }

    def _rates(self, test: Workload, samples: Samples) -> Row:
        steps, average = test.num_steps, statistics.fmean(samples.steps_ns)
        macs = test.num_tokens * self.work.macs_per_token
        macs += steps * test.n_seqs * self.work.macs_per_output
        shares = [
            read * steps / took
            for read, took in zip(samples.read_ns, samples.steps_ns, strict=False)
        ]
        return {
            "weight_bytes": self.work.num_bytes,
            "weight_gbs": self.work.num_bytes * steps / average,
            "read_gbs": self.work.num_bytes / statistics.median(samples.read_ns)
            if shares
            else None,
            "share_of_read": statistics.median(shares) if shares else None,
            "gmacs": macs / average,
        }


@contextmanager
def opened(
    path: Path, options: LoadOptions, tests: Sequence[Workload], roofline: bool, note: Note
) -> Iterator[Bench]:
    """A model with room for each of `tests`; errors are those of loading it.

    options: those that are left open; the context and the sequences follow from the tests.
    roofline: also time a plain read of what a decoded token touches, on the cpu backend only.
    note: is told what users should know.
    """
    wanted = replace(
        options,
        # One block more than needed lets all sequences in at once.
        context_length=max(test.length for test in tests) + BLOCK_SIZE,
        max_num_seqs=max(test.n_seqs for test in tests),
    )
    with ExitStack() as stack:
        file = stack.enter_context(open_gguf(path))
        backends = Backends(note)
        stack.callback(backends.close)
        ready = make_ready(file, read_config(file), wanted, backends)
        stack.callback(ready.engine.close)
        _check_room(ready)
        effort, read = work(ready.program), None
        if roofline:
            if ready.backend != "cpu":
                raise RequestError(
                    f"a plain read is measured on the cpu backend, not on {ready.backend}",
                    "roofline",
                )
            read = PlainRead(effort.weights, cache_dir(), options.threads)
            stack.callback(read.close)
        yield Bench(file, ready, effort, usable_threads(options.threads), read)


def _check_room(ready: Ready) -> None:
    """BackendError unless all sequences fit into the cache at once, each with a whole context."""
    limits = ready.limits
    for group, free in enumerate(ready.engine.stats().blocks_free):
        if free < limits.max_num_seqs * limits.blocks(group, limits.context_length):
            raise BackendError(
                f"memory does not hold {limits.max_num_seqs} sequences of {limits.context_length} "
                "tokens: ask for fewer or shorter ones"
            )


def _times(samples_ns: tuple[int, ...], num_tokens: int) -> Row:
    rates = [num_tokens * 1e9 / took for took in samples_ns]
    return {
        "avg_ns": round(statistics.fmean(samples_ns)),
        "stddev_ns": round(_deviation(samples_ns)),
        "avg_ts": statistics.fmean(rates),
        "stddev_ts": _deviation(rates),
        "samples_ns": list(samples_ns),
        "samples_ts": rates,
    }


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _cache_types(ready: Ready) -> dict[str, str | None]:
    """None where no layer has a cache."""
    if not ready.program.kv_layers:
        return {"type_k": None, "type_v": None}
    layer = ready.program.kv_layers[0]
    return {
        "type_k": cache_type(ready.kv.keys[0], layer.head_dim).name,
        "type_v": cache_type(ready.kv.values[0], layer.value_dim).name,
    }


def _short(count: int) -> str:
    return f"{count / 1e9:.2f}B" if count >= 1e9 else f"{count / 1e6:.2f}M"
