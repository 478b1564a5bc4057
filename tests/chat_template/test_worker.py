"""The worker process: it answers, it is killed when late, it is capped, it starts again."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from edgellm.chat_template import worker as worker_module
from edgellm.chat_template.failure import TemplateFailure
from edgellm.chat_template.worker import Worker
from tests.waiting import PATIENCE

# Slow by nature: each pass sorts a list that the caps allow.
SLOW = (
    "{% set numbers = range(90000) | list %}{% for i in range(1000000) %}"
    "{% if numbers | sort(reverse=i % 2 == 0) %}{% endif %}{% endfor %}"
)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def test_it_renders_any_text(worker: Worker) -> None:
    text = 'ünï🙂 \ud800 \x00\u2028 \\ "quoted"\nline'
    assert worker.render("<{{ text }}>", {"text": text}) == f"<{text}>"
    assert worker.render("{{ n + 1 }}", {"n": 1}) == "2"


def test_failures_come_back(worker: Worker) -> None:
    with pytest.raises(TemplateFailure, match="says: no"):
        worker.render("{{ raise_exception('no') }}", {})
    assert worker.render("ok", {}) == "ok"


def test_a_late_render_is_killed_and_the_next_one_works(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.render("warm", {})
    monkeypatch.setattr(worker_module, "RENDER_SECONDS", 0.5)
    child = worker._process
    assert child is not None
    start = time.monotonic()
    with pytest.raises(TemplateFailure, match=r"more than 0\.5 seconds"):
        worker.render(SLOW, {})
    assert time.monotonic() - start < PATIENCE
    assert child.returncode is not None
    monkeypatch.setattr(worker_module, "RENDER_SECONDS", PATIENCE)
    assert worker.render("again", {}) == "again"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to RLIMIT_AS")
def test_memory_is_capped(worker: Worker) -> None:
    hoard = (
        "{% set ns = namespace(kept=[]) %}{% for i in range(2000) %}"
        "{% set ns.kept = ns.kept + ['%d' % i ~ 'a' * 7000000] %}{% endfor %}"
    )
    with pytest.raises(TemplateFailure, match="memory"):
        worker.render(hoard, {})
    assert worker.render("again", {}) == "again"


def test_threads_take_turns(worker: Worker) -> None:
    answers: dict[int, str] = {}

    def ask(i: int) -> None:
        answers[i] = worker.render("{{ i }}", {"i": i})

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {i: str(i) for i in range(8)}


def test_a_child_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_CHILD", "raise SystemExit(3)")
    with pytest.raises(TemplateFailure, match="does not start"):
        Worker().render("x", {})
    monkeypatch.setattr(sys, "executable", os.path.join(os.sep, "nowhere", "python"))
    with pytest.raises(TemplateFailure, match="no process can be started"):
        Worker().render("x", {})


def test_a_child_that_ends_before_it_is_asked_is_reported(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.render("warm", {})
    child = worker._process
    assert child is not None
    child.kill()
    child.wait()
    monkeypatch.setattr(child, "poll", lambda: None)  # as if it had ended a moment later
    with pytest.raises(TemplateFailure, match="died"):
        worker.render("lost", {})
    assert worker.render("again", {}) == "again"


def test_an_interrupted_render_leaves_no_answer_behind(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.render("warm", {})
    child = worker._process
    assert child is not None and child.stdin is not None

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(child.stdin, "flush", interrupt)
    with pytest.raises(KeyboardInterrupt):
        worker.render("first", {})
    assert worker.render("second", {}) == "second"


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C cannot be sent to one process")
def test_the_child_leaves_ctrl_c_to_the_parent(worker: Worker) -> None:
    worker.render("warm", {})
    child = worker._process
    assert child is not None
    child.send_signal(signal.SIGINT)
    assert worker.render("still here", {}) == "still here"
    assert worker._process is child


def test_the_child_ends_with_its_owner() -> None:
    worker = Worker()
    worker.render("x", {})
    child = worker._process
    assert child is not None
    del worker
    assert child.returncode is not None


def test_the_child_loads_only_jinja2_and_the_sandbox() -> None:
    code = (
        "import edgellm.chat_template.worker, edgellm.chat_template.sandbox, sys;"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"numpy", "numba", "gguf", "regex", "textual", "rich"}
    assert "edgellm.gguf_loader" not in done.stdout.split()


def test_nothing_of_the_environment_reaches_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", os.devnull)
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    worker = Worker()
    assert worker.render("x", {}) == "x"
    worker.close()
