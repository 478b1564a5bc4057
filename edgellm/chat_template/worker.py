"""Renders templates in a process that can be killed. Knows nothing of messages or models.

The child (piped_process.py) imports only jinja2 and the sandbox, caps its memory, and answers one
JSON line per JSON line on its pipes. A template that runs beyond the limit is killed with it; the
next render starts a new child.
"""

import json
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping
from typing import IO, Any

from edgellm.chat_template.failure import TemplateFailure
from edgellm.piped_process import end, start

RENDER_SECONDS = 5.0
START_SECONDS = 30.0
MEMORY = 512 << 20  # bytes of address space; the interpreter with jinja2 takes about 60 MiB

_CHILD = (
    "from edgellm.chat_template.worker import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


class Worker:
    """A child process, started by the first render. Threads take turns."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._cleanup: weakref.finalize[..., Worker] | None = None

    def render(self, source: str, variables: Mapping[str, Any]) -> str:
        """The prompt that `source` makes of `variables`, plain JSON data. Raises TemplateFailure.

        Blocks for at most the time limit (and the start of the child): call it from a thread,
        never on an event loop.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            answer = self._exchange(_encode([source, variables]), RENDER_SECONDS)
        if answer is None:
            raise TemplateFailure(
                f"the chat template was stopped: it ran for more than {RENDER_SECONDS:g} seconds"
            )
        if not answer:
            raise TemplateFailure(
                "the chat template was stopped: its process died, most likely for want of memory"
            )
        kind, text = json.loads(answer.decode("utf-8", "surrogatepass"))
        if kind == "failure":
            raise TemplateFailure(text)
        assert isinstance(text, str)
        return text

    def close(self) -> None:
        """End the child. The next render starts another."""
        if self._cleanup is not None:
            self._cleanup()
        self._process = None

    def _start(self) -> None:
        self.close()
        try:
            self._process = start(_CHILD)
        except OSError as error:
            raise TemplateFailure(
                f"no process can be started for the chat template: {error}"
            ) from None
        self._cleanup = weakref.finalize(self, end, self._process)
        if not self._exchange(b"", START_SECONDS):
            raise TemplateFailure("the process that renders chat templates does not start")

    def _exchange(self, line: bytes, seconds: float) -> bytes | None:
        """Send a line, read a line. None when the time ran out, empty when the child died."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def kill() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:  # the child is gone
            answer = b""
        except BaseException:  # Ctrl-C: its answer would be taken for the next one's
            self.close()
            raise
        finally:
            timer.cancel()
        if not answer.endswith(b"\n"):
            self.close()
            return None if late.is_set() else b""
        return answer


def _encode(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """The child: say that it is ready, then answer until the parent closes the pipe."""
    from edgellm.chat_template.sandbox import Renderer  # jinja2, which the parent need not load

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    _limit_memory()
    renderer = Renderer()
    answers.write(b"\n")
    answers.flush()
    for line in requests:
        source, variables = json.loads(line.decode("utf-8", "surrogatepass"))
        _die_after(2 * RENDER_SECONDS)
        try:
            answer = _encode(["prompt", renderer.render(source, variables)])
        except TemplateFailure as failure:
            answer = _encode(["failure", str(failure)])
        _die_after(0)
        answers.write(answer)
        answers.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    for kind, limit in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def _die_after(seconds: float) -> None:
    """Have the system end this process, should no parent be left to do it. 0 takes it back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
