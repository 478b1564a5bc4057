"""Models that come in by name and go again, with scripted models of known sizes."""

import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from edgellm import manager as manager_module, model_pool
from edgellm.engine_thread import EngineThread
from edgellm.errors import BackendError, DeviceLost, EdgeLLMError, ModelsBusy, RequestError
from edgellm.loaded_model import LoadedModel
from edgellm.manager import Manager
from edgellm.model_pool import ModelPool
from edgellm.model_source import Source
from edgellm.types import LoadOptions, Request, SamplingParams, TokenEvent
from tests.mock_model import MockModel, make_model, says
from tests.waiting import PATIENCE, comes_to_rest, wait_until

SIZES = {"a": 40, "b": 40, "c": 70, "d": 50, "huge": 1000, "broken": 1}


class Models:
    """A Loader of scripted models; SIZES has those that may be found. loads: name and memory."""

    def __init__(self, keep_alive: float | None = None, delay: float = 0.0) -> None:
        self.keep_alive = keep_alive
        self.delay = delay
        self.loads: list[tuple[str, int | None]] = []
        self.made: dict[str, MockModel] = {}

    def find(self, name: str) -> Source | None:
        return source(name, self.keep_alive) if name in SIZES else None

    def needed(self, source: Source) -> int:
        return SIZES[source.name]

    def load(self, source: Source, memory: int | None, note: object = None) -> LoadedModel:
        self.loads.append((source.name, memory))
        time.sleep(self.delay)
        if source.name == "broken":
            raise BackendError("cannot run")
        model = self.made[source.name] = MockModel(says("x" * 50), delay=0.01)
        return make_model(model, source.name, size=SIZES[source.name])

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.loads]


def source(name: str, keep_alive: float | None = None) -> Source:
    return Source(Path(name), name, LoadOptions(), {}, keep_alive=keep_alive)


@pytest.fixture
def thread() -> Iterator[EngineThread]:
    found = EngineThread()
    yield found
    found.close()


def make_pool(thread: EngineThread, models: Models) -> ModelPool:
    return ModelPool(thread, models, budget=100, patience=0.3)


def touch(pool: ModelPool, *names: str) -> None:
    for name in names:
        with pool.using(name):
            pass


def test_a_model_comes_in_when_it_is_named(thread: EngineThread) -> None:
    models = Models()
    pool = make_pool(thread, models)
    touch(pool, "a", "a")
    assert models.loads == [("a", 100)]
    with pytest.raises(RequestError, match="'x'"):
        touch(pool, "x")


def test_the_least_recently_used_goes_for_another(thread: EngineThread) -> None:
    models = Models()
    pool = make_pool(thread, models)
    touch(pool, "a", "b", "a")
    assert models.loads[1] == ("b", 60)  # what the first left
    touch(pool, "d")
    assert list(pool.loaded()) == ["a", "d"]
    assert models.made["b"].is_closed and not models.made["a"].is_closed
    touch(pool, "c")  # 70 of 100: both must go
    assert list(pool.loaded()) == ["c"]
    touch(pool, "b")
    assert models.names == ["a", "b", "d", "c", "b"]


def test_one_larger_than_the_budget_has_it_alone(thread: EngineThread) -> None:
    models = Models()
    pool = make_pool(thread, models)
    touch(pool, "a", "huge")  # its experts may stay on disk; that is the loader's matter
    assert (list(pool.loaded()), models.loads[-1]) == (["huge"], ("huge", 100))
    touch(pool, "a")
    assert list(pool.loaded()) == ["a"]


def test_without_a_budget_the_machine_is_one(
    thread: EngineThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_pool, "available_memory", lambda: 100)
    models = Models()
    pool = ModelPool(thread, models, patience=0.3)
    touch(pool, "a", "b", "c")
    assert models.loads == [("a", None), ("b", 60), ("c", None)]


def test_a_model_that_is_held_stays(thread: EngineThread) -> None:
    pool = make_pool(thread, Models())
    with pool.using("a"):
        with pytest.raises(ModelsBusy, match=r"^c needs .* try again"):
            touch(pool, "c")
        assert list(pool.loaded()) == ["a"]
    touch(pool, "c")
    assert list(pool.loaded()) == ["c"]


def test_who_finds_no_room_waits_for_it(thread: EngineThread) -> None:
    pool = ModelPool(thread, Models(), budget=100, patience=PATIENCE)
    waiting = threading.Thread(target=touch, args=(pool, "c"))
    with pool.using("a"):
        waiting.start()
        time.sleep(0.05)
        touch(pool, "a")  # what is here can be used meanwhile
        assert waiting.is_alive()
    waiting.join(PATIENCE)
    assert list(pool.loaded()) == ["c"]


def test_many_callers_load_once(thread: EngineThread) -> None:
    models = Models(delay=0.1)
    pool = make_pool(thread, models)
    callers = [threading.Thread(target=touch, args=(pool, "a")) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert models.names == ["a"]


def test_a_model_that_cannot_run_leaves_nothing(thread: EngineThread) -> None:
    pool = make_pool(thread, Models())
    for attempt in (lambda: touch(pool, "broken"), lambda: pool.load(source("broken"))):
        with pytest.raises(BackendError):
            attempt()
    assert (pool.loaded(), pool.served()) == ({}, [])


def test_loading_by_name_is_once_until_it_is_unloaded(thread: EngineThread) -> None:
    pool = make_pool(thread, Models())
    own = Source(Path("own"), "a", LoadOptions(threads=1), {})
    pool.load(own)
    with pytest.raises(RequestError, match="loaded already"):
        pool.load(own)
    touch(pool, "c")
    assert (list(pool.loaded()), pool.served()) == (["c"], ["a"])
    touch(pool, "a")  # it comes back
    pool.unload("a")
    assert (pool.loaded(), pool.served()) == ({}, [])
    with pytest.raises(RequestError, match="'a'"):
        pool.unload("a")


@pytest.mark.parametrize("keep_alive", [float("nan"), "5", [1]])
def test_a_time_that_is_none_is_refused(thread: EngineThread, keep_alive: object) -> None:
    pool = make_pool(thread, Models())
    with pytest.raises(RequestError, match="keep_alive"), pool.using("a", keep_alive):  # type: ignore[arg-type]
        pass


def test_it_goes_when_it_was_not_used_for_its_time(thread: EngineThread) -> None:
    models = Models(keep_alive=0.3)
    pool = make_pool(thread, models)
    begun = time.monotonic()
    touch(pool, "a")
    wait_until(lambda: not pool.loaded() and models.made["a"].is_closed)
    assert time.monotonic() - begun >= 0.3
    with pool.using("a", keep_alive=-1):
        pass
    with pool.using("b", keep_alive=0):
        pool.expire()
        assert "b" in pool.loaded()
    wait_until(lambda: "b" not in pool.loaded())
    assert "a" in pool.loaded()


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    """One whose models are scripted, with room for 100 bytes."""
    monkeypatch.setattr(manager_module, "ModelLoader", lambda *_: Models())
    found = Manager(memory=100)
    yield found
    found.close()


def ask(manager: Manager, **fields: object) -> "queue.SimpleQueue[TokenEvent | Exception]":
    outbox: queue.SimpleQueue[TokenEvent | Exception] = queue.SimpleQueue()
    params = SamplingParams(temperature=0)
    manager.submit(Request("hi", params, **fields), outbox.put)  # type: ignore[arg-type]
    return outbox


def text_of(outbox: "queue.SimpleQueue[TokenEvent | Exception]") -> str:
    text = ""
    while True:
        event = outbox.get(timeout=PATIENCE)
        assert isinstance(event, TokenEvent), event
        text += event.text
        if event.finish_reason:
            return text


def test_requests_never_lose_their_model(manager: Manager) -> None:
    first = ask(manager, model="a", keep_alive=0)
    second = ask(manager, model="c")  # waits for the first one's end
    assert text_of(first) == text_of(second) == "x" * 50
    assert [info.name for info in manager.models()] == ["c"]


def test_a_model_whose_device_is_lost_comes_back(manager: Manager) -> None:
    assert text_of(ask(manager, model="a")) == "x" * 50
    models = manager._loader
    assert isinstance(models, Models)
    lost = models.made["a"]
    lost.error = DeviceLost("gone")
    assert isinstance(ask(manager, model="a").get(timeout=PATIENCE), DeviceLost)
    assert text_of(ask(manager, model="a")) == "x" * 50
    assert models.names == ["a", "a"] and lost.is_closed


def test_the_time_of_a_request_counts_from_its_end(manager: Manager) -> None:
    loaded: list[bool] = []
    ended = threading.Event()

    def emit(event: TokenEvent | Exception) -> None:
        assert isinstance(event, TokenEvent), event
        if event.finish_reason:
            ended.set()
        else:
            loaded.append(manager.loaded("a") is not None)

    request = Request("hi", SamplingParams(temperature=0), model="a:latest", keep_alive=0)
    manager.submit(request, emit)
    assert ended.wait(PATIENCE) and loaded == [True] * 50
    wait_until(lambda: manager.loaded("a") is None)


def test_a_name_may_be_a_stored_one_and_never_a_path(manager: Manager, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    for name in (str(file), "model.gguf", "x", "../a"):
        assert manager.use(name) is None
    assert manager.use() is None
    info = manager.use("A:latest")
    assert info is not None and info.name == "a"
    only = manager.use()
    assert only is not None and only.name == "a"


def test_a_model_that_is_used_from_its_engine_goes_all_the_same(thread: EngineThread) -> None:
    pool = make_pool(thread, Models(keep_alive=0))
    touch(pool, "a")
    for _ in range(200):  # the engine's thread wants the books while they ask it for its work
        thread.post(lambda: touch(pool, "b"))
        pool.expire()
    thread.ask(lambda: None)
    wait_until(lambda: not pool.loaded())


def test_what_has_no_thread_to_run_in_is_closed(thread: EngineThread) -> None:
    models = Models()
    pool = make_pool(thread, models)
    thread.close()
    with pytest.raises(EdgeLLMError):
        touch(pool, "a")
    assert models.made["a"].is_closed and not pool.loaded()


def test_an_idle_engine_takes_no_processor_time_and_lets_the_process_end(
    manager: Manager,
) -> None:
    text_of(ask(manager, model="a"))
    text_of(ask(manager, model="b", keep_alive=1000))
    threads = threading.enumerate()
    assert all(t.daemon for t in threads if t is not threading.main_thread())
    comes_to_rest(t for t in threads if t.name == "edgellm-engine" or isinstance(t, Timer))
