"""`edgellm lsp` as an editor sees it: a process that speaks the protocol on standard streams."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcRequestCancelled
from pygls.lsp.client import LanguageClient

from edgellm import cli
from edgellm.manager import Manager
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import running
from tests.waiting import PATIENCE

URI = "file:///tmp/module.py"
TEXT = "def add(a, b):\n    ret"
END = lsp.Position(1, 7)
AUTOMATIC = lsp.InlineCompletionContext(lsp.InlineCompletionTriggerKind.Automatic)


LSP = f"""
import sys
from edgellm import cli
from edgellm.lsp import suggest
suggest._WRITE_SECONDS = {PATIENCE}  # answers are whole on slow machines, too
sys.exit(cli.main())
"""


class Editor(LanguageClient):
    """A client that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__("editor", "1")
        self.told: list[str] = []
        self.capabilities = lsp.ServerCapabilities()
        self.feature(lsp.WINDOW_SHOW_MESSAGE)(lambda params: self.told.append(params.message))
        self.feature(lsp.WINDOW_LOG_MESSAGE)(lambda params: self.told.append(params.message))

    async def is_told(self, text: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while not any(text in one for one in self.told):
            assert time.monotonic() < deadline, self.told
            await asyncio.sleep(0.01)
        return next(one for one in self.told if text in one)

    async def inline(self, position: lsp.Position = END) -> list[str]:
        params = lsp.InlineCompletionParams(AUTOMATIC, lsp.TextDocumentIdentifier(URI), position)
        found = await self.text_document_inline_completion_async(params)
        assert isinstance(found, lsp.InlineCompletionList)
        return [str(item.insert_text) for item in found.items]


@asynccontextmanager
async def editing(*arguments: str, text: str = TEXT) -> AsyncIterator[Editor]:
    """An editor with one open document, whose server must end by itself and without a word."""
    editor = Editor()
    await editor.start_io(sys.executable, "-c", LSP, "lsp", "--delay", "0", *arguments)
    try:
        params = lsp.InitializeParams(lsp.ClientCapabilities(), process_id=None, root_uri=None)
        editor.capabilities = (await editor.initialize_async(params)).capabilities
        editor.initialized(lsp.InitializedParams())
        document = lsp.TextDocumentItem(URI, lsp.LanguageKind.Python, 1, text)
        editor.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
        yield editor
        await editor.shutdown_async(None)
        editor.exit(None)
        process = editor._server
        assert process is not None and process.stderr is not None
        said = await asyncio.wait_for(process.stderr.read(), PATIENCE)
        assert b"Traceback" not in said, said.decode()
        await asyncio.wait_for(process.wait(), PATIENCE)
    finally:
        if editor._server is not None and editor._server.returncode is None:
            editor._server.kill()
        await editor.stop()


def run(
    manager: Manager, folder: Path, body: Callable[[Editor], Awaitable[None]], text: str = TEXT
) -> None:
    async def main(socket: str) -> None:
        async with editing("--server", socket, text=text) as editor:
            await editor.is_told("answers")
            await asyncio.wait_for(body(editor), PATIENCE)

    with running(manager, folder) as server:
        asyncio.run(main(server.unix))


def large(model: MockModel) -> Manager:
    return make_manager(model, context_length=1024, num_blocks=1024, token_budget=256)


def test_suggestions(tmp_path: Path) -> None:
    async def body(editor: Editor) -> None:
        capabilities = editor.capabilities
        assert capabilities.inline_completion_provider and capabilities.completion_provider
        assert await editor.inline() == ["urn a + b\n    # done"]
        params = lsp.CompletionParams(lsp.TextDocumentIdentifier(URI), END)
        found = await editor.text_document_completion_async(params)
        assert isinstance(found, lsp.CompletionList) and found.is_incomplete
        (item,) = found.items
        assert item.label == item.filter_text == "return a + b"
        start = lsp.Position(1, 4)
        new_text = "return a + b\n    # done"
        assert item.text_edit == lsp.TextEdit(lsp.Range(start, END), new_text)
        assert await editor.inline(lsp.Position(0, 0)) == ["    return a + b"]

    run(large(MockModel(says("    return a + b\n    # done\nprint"))), tmp_path, body)


def test_the_prompt_has_what_was_typed_and_the_other_documents(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def logits(tokens: list[int], num_prompt_tokens: int) -> object:
        seen.append(bytes(token for token in tokens if token < 256))
        return says("ux")(tokens, num_prompt_tokens)

    async def body(editor: Editor) -> None:
        other = lsp.TextDocumentItem("file:///b%20c.py", lsp.LanguageKind.Python, 1, "B = 1\n")
        editor.text_document_did_open(lsp.DidOpenTextDocumentParams(other))
        change = lsp.TextDocumentContentChangePartial(lsp.Range(END, END), "ü𝄞u")
        document = lsp.VersionedTextDocumentIdentifier(2, URI)
        editor.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        assert await editor.inline(lsp.Position(1, 7 + 4)) == ["x"]
        prompt = seen[-2]
        assert b"\x03def add(a, b):\n    ret" in prompt.replace("ü𝄞".encode(), b"")
        assert b"\x04myproject\n\x05b c.py\nB = 1\n\x05filename\n\x01" in prompt

    run(large(MockModel(logits)), tmp_path, body)  # type: ignore[arg-type]


def test_a_cancelled_request_frees_the_model(tmp_path: Path) -> None:
    manager = large(MockModel(says("x" * 60), delay=0.3))

    async def body(editor: Editor) -> None:
        params = lsp.InlineCompletionParams(AUTOMATIC, lsp.TextDocumentIdentifier(URI), END)
        asked = editor.protocol.send_request_async(
            lsp.TEXT_DOCUMENT_INLINE_COMPLETION, params, msg_id="mine"
        )
        task = asyncio.ensure_future(asked)
        while not manager.stats()["mock"].running:
            await asyncio.sleep(0.001)
        editor.cancel_request(lsp.CancelParams("mine"))
        with pytest.raises(JsonRpcRequestCancelled):
            await task
        while manager.stats()["mock"].running:
            await asyncio.sleep(0.001)
        assert manager.stats()["mock"].tokens_generated < 60

    run(manager, tmp_path, body)


def test_a_server_may_come_later_and_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with editing("--server", str(tmp_path / "edgellm.sock")) as editor:
            assert "edgellm serve" in await editor.is_told("no server answers")
            assert await editor.inline() == []
            with running(large(MockModel(says("    return"))), tmp_path):
                while not (found := await editor.inline()):
                    await asyncio.sleep(0.01)
                assert found == ["urn"]
            assert await editor.inline() == []
            assert len(editor.told) == 2, "the same error is told once"

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_without_a_server_and_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELLM_SOCKET", str(tmp_path / "none.sock"))
    (tmp_path / "bad.gguf").write_bytes(b"no model")

    async def main() -> None:
        async with editing("--model", str(tmp_path / "bad.gguf")) as editor:
            assert "GGUF" in await editor.is_told("bad.gguf")

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.delitem(sys.modules, "edgellm.lsp.server", raising=False)
    assert cli.main(["lsp"]) == 1
    assert "edgellm[lsp]" in capsys.readouterr().err


@pytest.mark.weights
def test_a_real_model(
    tmp_path: Path, real_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qwen2.5-Coder-0.5B in a child process."""
    if "qwen05b" not in real_models:
        pytest.skip("no Qwen2.5-Coder-0.5B in EDGELLM_TEST_MODELS")
    monkeypatch.setenv("EDGELLM_SOCKET", str(tmp_path / "none.sock"))

    async def main() -> None:
        model = str(real_models["qwen05b"])
        text = "def add(a, b):\n    return \n\nprint(add(1, 2))\n"
        async with editing("--model", model, "--context", "1024", text=text) as editor:
            await editor.is_told("answers")
            assert await editor.inline(lsp.Position(1, 11)) == ["a + b"]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
