"""Sessions on disk: restored ones are hits with the bits of a fresh run, others are refused."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm import session_file, sessions
from edgellm.errors import NoSession, RequestError, SessionError
from edgellm.llm import Model
from edgellm.manager import Manager
from edgellm.sessions import fingerprint
from edgellm.types import Completion, LoadOptions, SamplingParams
from tests.models.tiny import VOCAB, write_tiny
from tests.test_prefix_cache import BASE, NAMES

PARAMS = SamplingParams(temperature=0, max_tokens=4, logprobs=5, ignore_eos=True)
PROMPT = BASE[:50]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sessions are; the compiled kernels stay where they are."""
    monkeypatch.setattr(sessions, "sessions_dir", lambda: tmp_path)
    return tmp_path


def tokenizer(keys: dict[str, Any], tensors: object) -> None:
    """A vocabulary of words, so that the model can be loaded whole."""
    keys["tokenizer.ggml.model"] = "llama"
    keys["tokenizer.ggml.tokens"] = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(VOCAB - 3))]
    keys["tokenizer.ggml.scores"] = [0.0] * VOCAB
    keys["tokenizer.ggml.token_type"] = [2, 3, 3, *[1] * (VOCAB - 3)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: write_tiny(folder, name, tokenizer) for name in NAMES}


def load(path: Path, **options: Any) -> Model:
    manager = Manager()
    return Model(manager, manager.load(path, LoadOptions(context_length=120, threads=1, **options)))


@pytest.fixture
def model(files: dict[str, Path]) -> Iterator[Model]:
    with load(files["llama"]) as loaded:
        yield loaded


def saved(model: Model, name: str = "a") -> Completion:
    done = model.complete(PROMPT, PARAMS)
    model.save_session(name, [*PROMPT, *done.token_ids], [{"role": "user", "content": "hi"}])
    return done


@pytest.mark.parametrize(
    ("name", "kv"),
    [
        *((name, "f16") for name in NAMES),
        ("gemma3", "f16/f32"),
        ("llama", "q8_0"),
        ("llama", "q8_0/q4_0"),
    ],
)
def test_a_restored_session_is_a_hit_with_the_same_bits(
    files: dict[str, Path], name: str, kv: str
) -> None:
    with load(files[name], kv_cache_type=kv) as first:
        done = saved(first)
        turn = [*PROMPT, *done.token_ids, 5, 6]
        expected = first.complete(turn, PARAMS)
    with load(files[name], kv_cache_type=kv) as second:
        session = second.restore_session("a")
        assert session.token_ids == (*PROMPT, *done.token_ids)
        assert session.num_cached == len(session.token_ids) - 1  # the last was never computed
        assert session.messages == ({"role": "user", "content": "hi"},)
        again = second.complete(turn, PARAMS)
        assert again.usage.cached_tokens == session.num_cached
        assert again.logprobs == expected.logprobs
        second.restore_session("a")  # what is there already is no harm
        assert second.complete(turn, PARAMS).logprobs == expected.logprobs


def test_sessions_are_listed_and_deleted(model: Model, folder: Path) -> None:
    saved(model, "b.1")
    saved(model, "a")
    (folder / "damaged.session").write_bytes(b"something else")
    first, second = model.sessions()
    assert (first.name, second.name) == ("a", "b.1")
    assert (first.model, first.num_tokens) == (model.info.name, len(PROMPT) + 4)
    assert first.num_bytes > 1000 and abs(first.saved - time.time()) < 1000
    model.delete_session("a")
    with pytest.raises(NoSession):
        model.delete_session("a")
    assert model.sessions() == (second,)
    with pytest.raises(NoSession, match="'a'"):
        model.restore_session("a")


@pytest.mark.parametrize("name", ["", "../a", "a/b", ".a", "x" * 101, "a\n"])
def test_a_name_is_no_path(model: Model, name: str) -> None:
    with pytest.raises(RequestError, match="no name of a session"):
        model.save_session(name, PROMPT)


def test_another_model_or_setting_is_refused(files: dict[str, Path], model: Model) -> None:
    saved(model)
    with load(files["gemma3"]) as other, pytest.raises(SessionError, match="another model"):
        other.restore_session("a")
    with load(files["llama"], kv_cache_type="f32") as other:
        before = other._loaded.engine.stats()
        with pytest.raises(SessionError, match="another kv_cache_type"):
            other.restore_session("a")
        assert other._loaded.engine.stats() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 99),
        ("key", None),
        ("key", {}),
        ("token_ids", None),
        ("token_ids", [-1] * 54),
        ("token_ids", [VOCAB] * 54),
        ("token_ids", [1.5] * 54),
        ("num_cached", -1),
        ("num_cached", 55),
        ("num_cached", None),
        ("messages", 5),
        ("messages", ["text"]),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(
    model: Model, folder: Path, field: str, value: Any
) -> None:
    saved(model)
    path = folder / "a.session"
    header, data = session_file.read(path)
    session_file.write(path, json.loads(json.dumps(header)) | {field: value}, [bytes(data)])
    before = model._loaded.engine.stats()
    with pytest.raises(SessionError):
        model.restore_session("a")
    assert model._loaded.engine.stats() == before


def test_data_of_another_length_is_refused(model: Model, folder: Path) -> None:
    saved(model)
    path = folder / "a.session"
    header, data = session_file.read(path)
    session_file.write(path, header, [bytes(data), b"x"])
    with pytest.raises(SessionError, match="does not hold"):
        model.restore_session("a")
    model._loaded.engine.check_integrity()


def test_without_room_a_session_is_refused(files: dict[str, Path], model: Model) -> None:
    saved(model)
    with load(files["llama"], max_num_seqs=1) as other:
        tables = other._loaded.engine._scheduler.tables
        pins = []
        while pin := tables.pins.make_room([1]):
            pins.append(pin)
        with pytest.raises(SessionError, match="no room"):
            other.restore_session("a")
        for pin in pins:
            tables.pins.unpin(pin)
        assert other.restore_session("a").num_cached


def test_a_session_that_is_deleted_meanwhile_is_left_out(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(model)
    read = session_file.read_header

    def then_gone(path: Path) -> dict[str, Any]:
        header = read(path)
        path.unlink()
        return header

    monkeypatch.setattr(session_file, "read_header", then_gone)
    assert sessions.saved_sessions() == ()


def test_model_files_are_told_apart_by_size_ends_and_pieces_between(tmp_path: Path) -> None:
    path, data = tmp_path / "model.gguf", bytes(2_000_000)
    other = {"one byte more": data + b"\0"}
    for at in (0, 980_000, len(data) - 1):
        other[f"another byte {at}"] = data[:at] + b"x" + data[at + 1 :]
    found = {}
    for what, content in {"itself": data, "a copy": bytes(data), **other}.items():
        path.write_bytes(content)
        found[what] = fingerprint([path])
    assert found.pop("a copy") == found["itself"]
    assert len(set(found.values())) == len(found)
