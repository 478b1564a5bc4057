"""The models of this process that are loaded, within one memory budget. Any thread may call in.

A model comes in when it is named, and goes when it has not been used for its keep-alive time, or
when another one needs its memory: the least recently used goes first, and none that has work. One
that has gone comes back by its name. Knows nothing of requests, catalogues and text.
"""

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from edgellm.backend_kinds import Note
from edgellm.engine_thread import EngineThread
from edgellm.errors import EdgeLLMError, ModelsBusy, NoModel, RequestError
from edgellm.loaded_model import LoadedModel
from edgellm.memory import available_memory
from edgellm.model_source import Source

PATIENCE = 60.0  # seconds that a model waits for the memory of those with work
_LONGEST = 3600.0  # seconds of a timer
_GLANCE = 0.25  # seconds between looks at a model that is to go and has work


class Loader(Protocol):
    """Makes models, of at most `memory` bytes where that is told; it should be those `needed`.

    find: what a model that was not loaded before is loaded from when it is named, if anything.
    """

    def find(self, name: str) -> Source | None: ...

    def load(self, source: Source, memory: int | None, note: Note | None = None) -> LoadedModel: ...

    def needed(self, source: Source) -> int: ...


@dataclass(eq=False)
class _Resident:
    """A model in memory. users: callers that hold it. holds: how often it was held. used: when it
    was held last."""

    model: LoadedModel
    keep_alive: float | None = None
    num_bytes: int = 0
    users: int = 0
    holds: int = 0
    used: float = 0.0

    @property
    def last_used(self) -> float:
        return max(self.used, self.model.engine.last_worked)

    @property
    def expires(self) -> float | None:
        return None if self.keep_alive is None else self.last_used + self.keep_alive


class ModelPool:
    """Loads and unloads; the engines of its models take turns in `thread`.

    budget: bytes for the weights and caches of all models together; None: what the machine has to
    spare when the first comes in. patience: seconds that a model which does not fit beside those
    with work waits for them.
    """

    def __init__(
        self,
        thread: EngineThread,
        loader: Loader,
        budget: int | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._thread = thread
        self._loader = loader
        self._given = budget
        self._patience = patience
        self._residents: dict[str, _Resident] = {}
        self._served: dict[str, Source] = {}
        self._books = threading.RLock()  # never held while a model is loaded or closed
        self._entrance = threading.Lock()  # one model comes in at a time
        self._timer: threading.Timer | None = None
        self._wakes = 0.0  # when the timer does

    def loaded(self) -> dict[str, LoadedModel]:
        """The models that are in memory now."""
        return {name: resident.model for name, resident in dict(self._residents).items()}

    def expiries(self) -> dict[str, float]:
        """When models will go that nobody uses until then, in seconds since 1970."""
        now = time.time() - time.monotonic()
        residents = dict(self._residents).items()
        return {name: now + r.expires for name, r in residents if r.expires is not None}

    def served(self) -> list[str]:
        """Names that were loaded on purpose, their models in memory or not."""
        return list(self._served)

    def load(self, source: Source, note: Note | None = None) -> LoadedModel:
        """Brings in a model that comes back by its name from now on. RequestError when it is here.

        note: is told what users should know. The errors of `using` are its own, too.
        """
        with self._entrance:
            if source.name in self._residents:
                raise RequestError(f"a model named {source.name!r} is loaded already", "model")
            resident = self._bring_in(source, note=note)
            self._served[source.name] = source
        return resident.model

    def add(self, model: LoadedModel) -> None:
        """Takes in a model that is made already and never goes by itself."""
        self._thread.attach(model.engine)
        self._residents[model.info.name] = _Resident(model, users=1)

    @contextmanager
    def using(self, name: str, keep_alive: float | None = None) -> Iterator[LoadedModel]:
        """Holds a model, which comes in if it must.

        keep_alive: changes the model's; negative is for ever. RequestError for an unknown name,
        ModelsBusy when there is no room for it, and the errors of load_model.
        """
        if keep_alive is not None and not (
            isinstance(keep_alive, int | float) and keep_alive == keep_alive
        ):
            raise RequestError(f"keep_alive is {keep_alive!r}: seconds are expected", "keep_alive")
        resident = self._take(name)
        try:
            yield resident.model
        finally:
            with self._books:
                resident.users -= 1
                resident.used = time.monotonic()
                if keep_alive is not None:
                    resident.keep_alive = None if keep_alive < 0 else keep_alive
            self._set_timer()

    def unload(self, name: str) -> None:
        """Ends what a model does and closes it; it does not come back by its name."""
        with self._books:
            resident = self._residents.pop(name, None)
            source = self._served.pop(name, None)
        if resident is not None:
            self._close(resident)
        elif source is None:
            raise NoModel(f"no model {name!r} is loaded")

    def expire(self) -> None:
        """Closes the models that nobody has used for their time."""
        now = time.monotonic()
        for name, resident in dict(self._residents).items():
            if resident.expires is not None and resident.expires <= now:
                self._retire(name, resident)

    def close(self) -> None:
        """Closes all models; the thread must have ended. May be called again."""
        with self._books:
            self._served.clear()
            residents, self._residents = self._residents, {}
            if self._timer is not None:
                self._timer.cancel()
        for resident in residents.values():
            resident.model.close()

    def _take(self, name: str) -> _Resident:
        if resident := self._hold(name):
            return resident
        with self._entrance:
            if resident := self._hold(name):  # it came in meanwhile
                return resident
            known = self._known(name)
            if known is None:
                raise NoModel(f"no model {name!r} is loaded")
            with self._books:
                lost = self._residents.pop(name, None)
            if lost is not None:
                self._close(lost)
            return self._bring_in(known, users=1)

    def _known(self, name: str) -> Source | None:
        return self._served.get(name) or self._loader.find(name)

    def _hold(self, name: str) -> _Resident | None:
        with self._books:
            resident = self._residents.get(name)
            if resident is not None and resident.model.engine.is_lost and self._known(name):
                return None  # another one takes its place
            if resident is not None:
                resident.users += 1
                resident.holds += 1
            return resident

    def _bring_in(self, source: Source, users: int = 0, note: Note | None = None) -> _Resident:
        memory = self._make_room(source)
        model = self._loader.load(source, memory, note)
        try:
            self._thread.attach(model.engine)
        except BaseException:  # no thread will
            model.engine.close()
            model.close()
            raise
        taken = min(model.num_bytes, self._budget)  # experts may stay on disk
        resident = _Resident(model, source.keep_alive, taken, users, used=time.monotonic())
        with self._books:
            self._residents[source.name] = resident
        self._set_timer()
        return resident

    def _make_room(self, source: Source) -> int | None:
        """Bytes that a model may take, after others have gone for it; None: nobody says."""
        budget = self._budget  # before anything is loaded
        if not self._residents:
            return self._given
        needed = min(self._loader.needed(source), budget)
        last = time.monotonic() + self._patience
        while (left := self._left()) < needed:
            if self._retire_oldest():
                continue
            if time.monotonic() >= last:
                raise ModelsBusy(
                    f"{source.name} needs {needed / 2**30:.2f} GiB of memory and "
                    f"{max(0, left) / 2**30:.2f} GiB are free beside the models that are at work: "
                    "try again later, or give more memory"
                )
            time.sleep(min(_GLANCE, self._patience))
        return left if self._residents else self._given

    @cached_property
    def _budget(self) -> int:
        return available_memory() if self._given is None else self._given

    def _left(self) -> int:
        taken = sum(resident.num_bytes for resident in dict(self._residents).values())
        return self._budget - taken

    def _retire_oldest(self) -> bool:
        """Closes the model that was used longest ago of those without work, if there is one."""
        by_age = sorted(dict(self._residents).items(), key=lambda item: item[1].last_used)
        return any(self._retire(name, resident) for name, resident in by_age)

    def _retire(self, name: str, resident: _Resident) -> bool:
        """Closes a model unless somebody holds it or it has work.

        Work is posted by those who hold the model, so the thread knows of it when it is asked; the
        thread may itself wait for the books, so they are not held meanwhile.
        """
        with self._books:
            holds = resident.holds
            if resident.users:
                return False
        if self._thread.ask(lambda: resident.model.engine.has_work):
            return False
        with self._books:
            if self._residents.get(name) is not resident or resident.holds != holds:
                return False
            del self._residents[name]
        self._close(resident)
        return True

    def _close(self, resident: _Resident) -> None:
        self._thread.detach(resident.model.engine)
        resident.model.close()

    def _set_timer(self) -> None:
        """Wakes somebody when the next model is to go."""
        ends = [r.expires for r in dict(self._residents).values() if r.expires is not None]
        if not ends:
            return
        now = time.monotonic()
        wakes = now + min(max(_GLANCE, min(ends) - now), _LONGEST)
        with self._books:
            if self._timer is not None and self._timer.is_alive():
                if self._wakes <= wakes:
                    return
                self._timer.cancel()
            self._timer = threading.Timer(wakes - now, _wake, [weakref.ref(self)])
            self._timer.daemon = True
            self._wakes = wakes
            self._timer.start()

    def _wake(self) -> None:
        self._timer = None
        with suppress(EdgeLLMError):  # the thread may have ended
            self.expire()
            self._set_timer()


def _wake(pool: "weakref.ref[ModelPool]") -> None:
    """The timer holds no pool alive that everybody else has left."""
    found = pool()
    if found is not None:
        found._wake()
