"""An answer that grows while other things happen."""

from textual.app import App

from edgellm.tui.widgets.answer import Answer
from tests.tui.piloted import asynchronous

ITEMS = "".join(f"- item {number}\n" for number in range(25))


@asynchronous
async def test_text_that_comes_while_it_is_taken_off_the_screen() -> None:
    """As when another chat is opened: the text is no longer shown, and nothing goes wrong."""
    code, many = "\n\n```py\nx\n", f"{'word ' * 400}\n\nand"
    async with App[None]().run_test() as pilot:
        for before, more in (("", code), ("one\n\ntwo", many), (ITEMS, ITEMS)):
            answer = Answer()
            await pilot.app.mount(answer)
            if before:
                await answer.append(before)
            removed = answer.remove()
            await answer.append(more)
            await answer.update(more)
            await removed
            await answer.append(more)
            assert answer.source == more + more
