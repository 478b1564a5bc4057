"""Processes that compile kernels: what they make, and what becomes of those that end."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgellm.kernels.cpu import compilers, objects
from edgellm.kernels.cpu.compilers import FEWEST, side_by_side
from edgellm.kernels.cpu.objects import KernelKey, Library, compiled_here

SMALL: list[KernelKey] = [
    (name,) for name in ("add", "multiply", "best", "select_outputs", "rope_table", "quantize")
]


def test_they_make_what_this_process_makes() -> None:
    made = dict(side_by_side(SMALL, 2))
    assert made.keys() == set(SMALL)
    for key in SMALL[:2]:
        assert made[key] == compiled_here(key)


def test_a_kernel_that_cannot_be_made_does_not_end_them() -> None:
    made = dict(side_by_side([("no such kernel",), *SMALL[:2]], 1))
    assert made[("no such kernel",)] is None
    assert all(made[key] for key in SMALL[:2])


@pytest.mark.parametrize(
    "child",
    ["import os; os._exit(1)", "print('x' * 99)", None],
    ids=["ends", "babbles", "no start"],
)
def test_without_them_this_process_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: str | None
) -> None:
    monkeypatch.setattr(objects, "usable_threads", lambda: 2)
    if child is None:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    else:
        monkeypatch.setattr(compilers, "_CHILD", child)
    library = Library(tmp_path)
    library.load(SMALL)
    assert all(library.address(key) for key in SMALL)


def test_what_they_made_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "usable_threads", lambda: 2)
    assert len(SMALL) // FEWEST == 2

    def refuse(key: KernelKey) -> bytes:
        raise AssertionError(f"{key} was compiled here")

    monkeypatch.setattr(objects, "compiled_here", refuse)
    Library(tmp_path).load(SMALL)
    Library(tmp_path).load(SMALL)  # all of them from the folder


@pytest.mark.skipif(not hasattr(os, "waitpid"), reason="processes are waited for by number here")
def test_an_interrupt_ends_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    real = subprocess.Popen

    def start(*args: Any, **kwargs: Any) -> Any:
        started.append(real(*args, **kwargs))
        return started[-1]

    def interrupt(key: KernelKey, number: int, total: int) -> None:
        if number == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(objects, "usable_threads", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        Library(tmp_path, interrupt).load(SMALL)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
