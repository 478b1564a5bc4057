"""llama.cpp's slots: names for what answers have read and written, so that it can be saved.

The engine has no slots: sequences come and go and share what they have in common. Here a slot has
the tokens of the last answer that named it, or 0 where none is named. They are saved among all
sessions, by name: no path of a request reaches the file system.
"""

import time
from collections.abc import Mapping
from typing import Any

from edgellm.errors import RequestError
from edgellm.server import fields as f
from edgellm.server.failures import Refusal
from edgellm.server.routes import Call, Reply, Route
from edgellm.server.service import Said
from edgellm.types import ModelInfo


def slot_of(fields: Mapping[str, Any], info: ModelInfo) -> int:
    """The slot that a request names."""
    return _checked(f.read(fields, "id_slot", int, -1), info)


async def slots(call: Call) -> Reply:
    """As many as answers may be computed at once."""
    info = await call.service.model(call.query.get("model"))
    stats = (await call.service.client.stats()).get(info.name)
    running = 0 if stats is None else stats.running  # the model may just have left
    if call.query.get("fail_on_no_slot") and running >= info.max_num_seqs:
        raise Refusal(503, "unavailable_error", "no slot available", 1)
    return [
        {
            "id": i,
            "n_ctx": info.context_length,
            "speculative": False,
            "is_processing": i < running,
        }
        for i in range(info.max_num_seqs)
    ]


async def act(call: Call) -> Reply:
    """Saves, restores or erases what a slot has."""
    info = await call.service.model(call.query.get("model") or f.read(call.fields, "model", str))
    text = call.path["slot"]
    slot = _checked(int(text) if text.isdecimal() and len(text) < 10 else info.max_num_seqs, info)
    action = _ACTIONS.get(call.query.get("action", ""))
    if action is None:
        raise RequestError(f"action is one of {', '.join(_ACTIONS)}", "action")
    return {"id_slot": slot, **await action(call, info, slot)}


async def _save(call: Call, info: ModelInfo, slot: int) -> dict[str, Any]:
    name, begun = _name(call), time.monotonic()
    ids = await _ids(call, info, slot)
    if not ids:
        raise RequestError(f"slot {slot} has read nothing yet: there is nothing to save", "id_slot")
    saved = await call.service.client.save_session(name, ids, model=info.name)
    return {
        "filename": name,
        "n_saved": saved.num_tokens,
        "n_written": saved.num_bytes,
        "timings": {"save_ms": _milliseconds_since(begun)},
    }


async def _restore(call: Call, info: ModelInfo, slot: int) -> dict[str, Any]:
    name, begun = _name(call), time.monotonic()
    session = await call.service.client.restore_session(name, info.name)
    call.service.said[info.name, slot] = Said(session.token_ids)
    return {
        "filename": name,
        "n_restored": session.num_cached,
        "timings": {"restore_ms": _milliseconds_since(begun)},
    }


async def _erase(call: Call, info: ModelInfo, slot: int) -> dict[str, Any]:
    """Forgets the name; the cache lets go of what nobody uses by itself."""
    num_tokens = len(await _ids(call, info, slot))
    call.service.said.pop((info.name, slot), None)
    return {"n_erased": num_tokens}


async def _ids(call: Call, info: ModelInfo, slot: int) -> list[int]:
    """The tokens that a slot has; none before its first answer."""
    said = call.service.said.get((info.name, slot))
    if said is None:
        return []
    prompt = said.prompt
    if isinstance(prompt, str):
        prompt = tuple(await call.service.client.tokenize(prompt, model=info.name))
    return [*prompt, *said.written]


_ACTIONS = {"save": _save, "restore": _restore, "erase": _erase}


def _name(call: Call) -> str:
    name = f.read(call.fields, "filename", str)
    if not name:
        raise RequestError("filename is missing: the name of a session is expected", "filename")
    return name


def _checked(slot: int, info: ModelInfo) -> int:
    if slot >= info.max_num_seqs:
        raise RequestError(f"there is no such slot; there are {info.max_num_seqs}", "id_slot")
    return max(0, slot)


def _milliseconds_since(begun: float) -> float:
    return 1000 * (time.monotonic() - begun)


ROUTES = (
    Route("GET", "/slots", slots),
    Route("POST", "/slots/{slot}", act, takes=("filename",)),
)
