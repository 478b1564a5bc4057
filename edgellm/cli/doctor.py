"""`edgellm doctor`: what this machine offers and what is set up.

Every check stands alone: one that fails says so and the others go on.
"""

import argparse
from dataclasses import asdict

from edgellm.cli.output import byte_size, print_fields, print_json
from edgellm.machine import Folder, Machine, examine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="report as one JSON object")


def run(args: argparse.Namespace) -> int:
    machine = examine()
    if args.json:
        print_json(asdict(machine))
    else:
        print_fields(_fields(machine))
    return 0


def _fields(machine: Machine) -> list[tuple[str, str]]:
    cpu, memory = machine.cpu, machine.memory
    quota = "no quota" if cpu.quota is None else f"cgroup quota of {cpu.quota:g} cores"
    processors = f"{cpu.allowed} of {cpu.logical} processors allowed"
    limit = "no cgroup limit" if memory.limit is None else f"cgroup limit {byte_size(memory.limit)}"
    return [
        ("cpu", f"{cpu.model} ({cpu.machine}, {cpu.llvm})"),
        ("features", " ".join(cpu.features) or "unknown"),
        ("kernels", f"{cpu.isa} (EDGELLM_ISA may be {', '.join(cpu.isas)})"),
        ("threads", f"{cpu.usable}: {cpu.cores} fast cores, {processors}, {quota}"),
        (
            "memory",
            f"{byte_size(memory.available)} of {byte_size(memory.total)} available, {limit}",
        ),
        *[("opencl", line) for line in machine.opencl],
        *[(folder.purpose, _folder(folder)) for folder in machine.folders],
        ("pip", "there (for pypi: sources)" if machine.pip else "missing: no pypi: sources"),
        ("versions", ", ".join(f"{name} {version}" for name, version in machine.versions.items())),
    ]


def _folder(folder: Folder) -> str:
    state = "writable" if folder.writable else "NOT WRITABLE"
    return (
        f"{folder.path} ({byte_size(folder.size)}, {state}, {byte_size(folder.free)} free on disk)"
    )
