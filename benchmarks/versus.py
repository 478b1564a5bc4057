"""edgellm against ik_llama.cpp and llama.cpp on the same model files, in turns.

    python versus.py MODEL... --ik ik/bin/python [--llama llama-bench] [-p 512] [-n 64] [-d 0]
                     [-t 2] [--rounds 3] [--save results/NAME.json]

Each round runs every program once on every model; the table holds medians and the ratio to the
better peer. ik_llama.cpp is run in four settings and its best rate of each test counts.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from edgellm.machine import cpu_name

Rates = dict[str, float]  # tokens/s by test, "prefill" and "decode"


def edgellm(model: Path, a: argparse.Namespace) -> Rates:
    command = [sys.executable, "-m", "edgellm", "bench", str(model), "-r", "1", "-o", "json"]
    return _llama_bench_rows(command + _sizes(a))


def llama_cpp(model: Path, a: argparse.Namespace) -> Rates:
    command = [a.llama, "-m", str(model), "-r", "1", "-o", "json"]
    return _llama_bench_rows(command + _sizes(a))


def ik_llama_cpp(model: Path, a: argparse.Namespace) -> Rates:
    worker = Path(__file__).with_name("ik_worker.py")
    best: Rates = {}
    for setting in itertools.product("01", repeat=2):
        sizes = [str(n) for n in (a.prompt, a.generated, a.depth, a.threads)]
        done = _run([a.ik, str(worker), str(model), *sizes, *setting])
        if done.returncode:  # some settings abort on some models
            continue
        rates = json.loads(done.stdout.splitlines()[-1])
        best |= {k: max(v, best.get(k, 0.0)) for k, v in rates.items() if v is not None}
    return best


def _sizes(a: argparse.Namespace) -> list[str]:
    sizes = {"-p": a.prompt, "-n": a.generated, "-d": a.depth, "-t": a.threads}
    return [word for flag, value in sizes.items() for word in (flag, str(value))]


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _llama_bench_rows(command: list[str]) -> Rates:
    done = _run(command)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    rows = json.loads(done.stdout[done.stdout.index("[") :])
    return {"prefill" if row["n_prompt"] else "decode": float(row["avg_ts"]) for row in rows}


def _table(medians: dict[str, dict[str, Rates]]) -> str:
    programs = list(next(iter(medians.values())))
    lines = [
        "| model | test | " + " | ".join(programs) + " | ratio |",
        "|---|---|" + "---:|" * (len(programs) + 1),
    ]
    for model, by_program in medians.items():
        for test in by_program["edgellm"]:
            rates = [by_program[p].get(test) for p in programs]
            peers = [r for r in rates[1:] if r is not None]
            cells = ["-" if r is None else f"{r:.4g}" for r in rates]
            ratio = f"{rates[0] / max(peers):.2f}" if rates[0] and peers else "-"
            lines.append(f"| {model} | {test} | " + " | ".join(cells) + f" | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ik", help="the Python that has ik_llama.cpp's wheel")
    parser.add_argument("--llama", help="llama.cpp's llama-bench")
    parser.add_argument("-p", dest="prompt", type=int, default=512)
    parser.add_argument("-n", dest="generated", type=int, default=64)
    parser.add_argument("-d", dest="depth", type=int, default=0)
    parser.add_argument("-t", dest="threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path, help="write all rates there as JSON")
    a = parser.parse_args()
    programs: dict[str, Callable[[Path, argparse.Namespace], Rates]] = {"edgellm": edgellm}
    programs |= {"ik_llama.cpp": ik_llama_cpp} if a.ik else {}
    programs |= {"llama.cpp": llama_cpp} if a.llama else {}
    seen: dict[str, dict[str, dict[str, list[float]]]] = {
        model.stem: {name: defaultdict(list) for name in programs} for model in a.models
    }
    for _ in range(a.rounds):
        for model in a.models:
            for name, measure in programs.items():
                for test, rate in measure(model, a).items():
                    seen[model.stem][name][test].append(rate)
    medians = {
        model: {
            name: {test: statistics.median(rates) for test, rates in tests.items()}
            for name, tests in by_program.items()
        }
        for model, by_program in seen.items()
    }
    print(_table(medians))
    if a.save:
        machine = {"processor": cpu_name(), "threads": a.threads, "rounds": a.rounds}
        a.save.write_text(json.dumps({"machine": machine, "tokens_per_second": seen}, indent=1))


if __name__ == "__main__":
    main()
