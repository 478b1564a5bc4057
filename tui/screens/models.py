"""Chooses a model, and pulls it first when it is not here. Also the screen of the first start."""

import asyncio
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.events import Key
from textual.widgets import Input, OptionList, ProgressBar, Static
from textual.widgets.option_list import Option

from edgellm.errors import EdgeLLMError
from edgellm.tui.doors import Library, Offer
from edgellm.tui.screens.dialog import Dialog
from edgellm.tui.widgets.status_bar import size

_HINT = "Enter takes it · type to search · Esc closes"
_FIRST_HINT = "Enter fetches it · type to search · Esc closes"
_TYPED_HINT = "Enter takes a file's path, or fetches hf:owner/repo/file.gguf or https://..."
_PULLING_HINT = "Esc stops the download"


class _Stopped(Exception):
    """The user has stopped a download."""


class ModelScreen(Dialog[str]):
    """The name of the model chosen, which is stored by then, or the path of the user's own file.

    first: this is the first start and no model is here yet; the first of the library is offered.
    """

    def __init__(self, library: Library, current: str | None, first: bool = False) -> None:
        super().__init__("Choose a model", _FIRST_HINT if first else _HINT)
        self._library = library
        self._current = current
        self._first = first
        self._offers: tuple[Offer, ...] = ()
        self._stop: asyncio.Event | None = None  # set: the download is to end

    def compose_body(self) -> ComposeResult:
        if self._first:
            yield Static(
                "Welcome. A chat needs a model; it is fetched once and then runs on this machine "
                "alone. The first one is small and good for a start.",
                classes="welcome",
            )
        yield Input(placeholder="Search models", compact=True)
        yield OptionList(compact=True)
        yield ProgressBar(show_eta=True)
        yield Static(classes="stage", markup=False)

    def on_mount(self) -> None:
        self.query_one(ProgressBar).display = False
        self._list_offers()

    @work
    async def _list_offers(self) -> None:
        try:
            self._offers = await asyncio.to_thread(self._library.offers)
        except EdgeLLMError as error:
            self._say(str(error), failed=True)
        self._show("")

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        event.stop()
        self._show(event.value.strip().lower())

    def _show(self, query: str) -> None:
        offers = [o for o in self._offers if query in f"{o.name} {o.description}".lower()]
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options(Option(_line(offer), id=offer.name) for offer in offers)
        names = [offer.name for offer in offers]
        listed.highlighted = names.index(self._current) if self._current in names else 0
        self._say("" if offers or not query else _TYPED_HINT)

    @on(Input.Submitted)
    def _take_marked(self, event: Input.Submitted) -> None:
        event.stop()
        typed, listed = event.value.strip(), self.query_one(OptionList)
        if listed.option_count or not typed:
            listed.action_select()
        elif Path(typed).expanduser().is_file():
            self.dismiss(typed)
        elif self._stop is None:
            self._pull(typed)

    def on_key(self, event: Key) -> None:
        """The list is walked through while the search is typed."""
        if not self.query_one(Input).has_focus:
            return
        listed = self.query_one(OptionList)
        if event.key == "up":
            listed.action_cursor_up()
        elif event.key == "down":
            listed.action_cursor_down()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        offer = next(offer for offer in self._offers if offer.name == event.option_id)
        if self._stop is not None:
            return  # a download is to end first
        if offer.path is not None:
            self.dismiss(offer.name)
        else:
            self._pull(offer.name, offer.size)

    @work
    async def _pull(self, name: str, num_bytes: int | None = None) -> None:
        loop = asyncio.get_running_loop()
        stop = self._stop = asyncio.Event()
        bar = self.query_one(ProgressBar)
        bar.display, bar.total, bar.progress = True, num_bytes, 0
        self._say(f"asking for {name}")
        self.show_hint(_PULLING_HINT)

        def show(stage: str, done: int, total: int | None) -> None:
            bar.update(total=total, progress=done)
            share = f"{size(done)} of {size(total)}" if total else size(done)
            self._say(f"{stage}: {share}")

        def advance(stage: str, done: int, total: int | None) -> None:
            if stop.is_set():
                raise _Stopped
            loop.call_soon_threadsafe(show, stage, done, total)

        def note(text: str) -> None:
            loop.call_soon_threadsafe(self._say, text)

        try:
            fetched = await asyncio.to_thread(self._library.pull, name, advance, note)
        except _Stopped:
            self._say("stopped; what has come is kept, and the next try goes on from there")
        except EdgeLLMError as error:
            self._say(str(error), failed=True)
        else:
            self.dismiss(fetched)
        finally:
            bar.display, self._stop = False, None
            self.show_hint(_HINT)

    def _say(self, text: str, failed: bool = False) -> None:
        stage = self.query_one(".stage", Static)
        stage.update(text)
        stage.display = bool(text)
        stage.set_class(failed, "error")

    def action_close(self) -> None:
        """Stops a download; without one, closes."""
        if self._stop is not None:
            self._stop.set()
        else:
            self.dismiss(None)


def _line(offer: Offer) -> Content:
    mark = "●" if offer.path else " "
    bytes_ = size(offer.size) if offer.size else ""
    return Content.assemble(
        (f"{mark} ", "$accent"),
        f"{offer.name:<20} ",
        (f"{bytes_:>7}  ", "$muted"),
        (offer.description, "$muted"),
    )
