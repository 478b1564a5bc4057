"""The Language Server Protocol's side: documents in, suggestions out. Knows nothing of models.

https://microsoft.github.io/language-server-protocol (3.18: inline completion)
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from edgellm.client.naming import Served
from edgellm.errors import ConnectionFailed, EdgeLLMError
from edgellm.holes import SourceFile
from edgellm.lsp.cursor import hole_at, indent_at, is_inside_line, without_word, word_before
from edgellm.lsp.suggest import Suggester, Wanted
from edgellm.version import __version__

Find = Callable[[], Awaitable[Served]]


@dataclass
class _Engine:
    """What answers, found when the editor is ready; while it is not, there are no suggestions."""

    find: Find
    delay: float
    server: LanguageServer
    found: Served | None = None
    _suggester: Suggester | None = None
    _finding: asyncio.Task[None] | None = None
    _said: set[str] = field(default_factory=set)

    def start(self) -> None:
        if self._finding is None:
            self._finding = asyncio.ensure_future(self._look())

    async def suggest(self, document: str, wanted: Wanted, at_once: bool) -> str:
        """Empty when there is nothing to suggest, or nobody to ask: the editor is told why."""
        if self._suggester is None:
            self.start()
            return ""
        try:
            return await self._suggester.suggest(document, wanted, at_once)
        except EdgeLLMError as error:
            self._tell(error)
            return ""

    async def _look(self) -> None:
        try:
            self.found = await self.find()
            suggester = Suggester(self.found.client, self.found.model, self.delay)
            await suggester.warm()
            self._suggester = suggester
            self.server.window_log_message(
                lsp.LogMessageParams(lsp.MessageType.Info, f"edgellm: {self.found.model} answers")
            )
        except ConnectionFailed as error:
            self._finding = None  # a server may be started later
            self._tell(error)
        except (EdgeLLMError, OSError) as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Shows an error, each once: a keystroke that fails like the one before says nothing."""
        if str(error) not in self._said:
            self._said.add(str(error))
            self.server.window_show_message(
                lsp.ShowMessageParams(lsp.MessageType.Error, f"edgellm: {error}")
            )


def serve(find: Find, delay: float, stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Speaks to the editor until it says exit or goes away. delay: seconds, of debouncing."""
    server = LanguageServer("edgellm", __version__)
    engine = _Engine(find, delay, server)

    @server.feature(lsp.INITIALIZED)
    def ready(_: lsp.InitializedParams) -> None:
        engine.start()

    @server.feature(lsp.TEXT_DOCUMENT_INLINE_COMPLETION, lsp.InlineCompletionOptions())
    async def inline_completion(params: lsp.InlineCompletionParams) -> lsp.InlineCompletionList:
        is_asked_for = params.context.trigger_kind == lsp.InlineCompletionTriggerKind.Invoked
        _, text = await _suggestion(server, engine, params, is_asked_for)
        here = lsp.Range(params.position, params.position)
        return lsp.InlineCompletionList([lsp.InlineCompletionItem(text, range=here)] * bool(text))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION)
    async def completion(params: lsp.CompletionParams) -> lsp.CompletionList:
        word, text = await _suggestion(server, engine, params, False)
        return lsp.CompletionList(True, [_item(params.position, word, text)] * bool(text))

    try:
        server.start_io(stdin, stdout)
    finally:
        if engine.found is not None:
            asyncio.run(engine.found.client.close())


async def _suggestion(
    server: LanguageServer,
    engine: _Engine,
    params: lsp.InlineCompletionParams | lsp.CompletionParams,
    at_once: bool,
) -> tuple[str, str]:
    """The word before the cursor, and what to insert after it."""
    uri = params.text_document.uri
    document = server.workspace.get_text_document(uri)
    text, offset = document.source, document.offset_at_position(params.position)
    open_documents = server.workspace.text_documents.items()
    others = [_file(other) for name, other in open_documents if name != uri]
    one_line = is_inside_line(text, offset)
    hole, typed = without_word(hole_at(text, offset, others))
    wanted = Wanted(hole, typed, indent_at(text, offset), one_line)
    return word_before(text, offset), await engine.suggest(uri, wanted, at_once)


def _file(document: TextDocument) -> SourceFile:
    return SourceFile(PurePosixPath(unquote(urlsplit(document.uri).path)).name, document.source)


def _item(position: lsp.Position, word: str, text: str) -> lsp.CompletionItem:
    """An entry of a list, which editors filter by the word that is being written."""
    first_line = word + text.partition("\n")[0]
    start = lsp.Position(position.line, position.character - len(word.encode("utf-16-le")) // 2)
    return lsp.CompletionItem(
        label=first_line,
        kind=lsp.CompletionItemKind.Text,
        detail="edgellm",
        filter_text=first_line,
        text_edit=lsp.TextEdit(lsp.Range(start, position), word + text),
    )
