"""Tables: columns in line over all parts of a long one, narrow screens, sides, streaming."""

from hypothesis import given, strategies as st
from textual.app import App, ComposeResult

from edgellm.tui.themes import THEMES
from edgellm.tui.widgets.answer import Answer
from edgellm.tui.widgets.table import Table, fitted
from tests.tui.piloted import asynchronous

HEAD = "| name | share |\n|:---|---:|\n"
SHORT = HEAD + "| *one* | 1 |\n| 東京 | 1234 |\n"
LONG = (
    HEAD + "".join(f"| row {number} | {number} |\n" for number in range(200)) + "| wide row | 1 |\n"
)


class Alone(App[None]):
    """An answer and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(THEMES[0])
        self.theme = THEMES[0].name
        self.answer = Answer()

    def compose(self) -> ComposeResult:
        yield self.answer

    @property
    def lines(self) -> list[str]:
        """What the tables show, without blanks at the ends of lines."""
        shown = (str(table.render()) for table in self.query(Table))
        return [line.rstrip() for text in shown for line in text.splitlines()]


@asynchronous
async def test_a_table_whole_and_in_pieces() -> None:
    async with Alone().run_test(size=(40, 10)) as pilot:
        app = pilot.app
        assert isinstance(app, Alone)
        await app.answer.update(SHORT)
        await pilot.pause()
        whole = app.lines
        rule = "─" * 15
        assert whole == [" name   share", rule, " one        1", " 東京    1234"]
        await app.answer.update("")
        for character in SHORT:
            await app.answer.append(character)
        await pilot.pause()
        assert app.lines == whole
        assert app.query_one(Table).size.height == len(whole)


@asynchronous
async def test_the_parts_of_a_long_table_are_in_line() -> None:
    async with Alone().run_test(size=(40, 10)) as pilot:
        app = pilot.app
        assert isinstance(app, Alone)
        for at in range(0, len(LONG), 100):
            await app.answer.append(LONG[at : at + 100])
        await app.answer.append("\nthen\n")
        await pilot.pause()
        assert len(app.query(Table)) > 2
        rows = [line.split() for line in app.lines]
        assert rows[2:-1] == [["row", str(number), str(number)] for number in range(200)]
        assert {len(line) for line in app.lines if "─" not in line} == {len(" wide row   share")}


@asynchronous
async def test_a_wide_table_is_wrapped() -> None:
    async with Alone().run_test(size=(30, 10)) as pilot:
        app = pilot.app
        assert isinstance(app, Alone)
        await app.answer.update(f"| a | b |\n|---|---|\n| x | {'word ' * 10} |\n")
        await pilot.pause()
        words = "word word word word"
        assert app.lines[2:] == [f" x   {words}", f"     {words}", "     word word"]
        assert app.query_one(Table).size.height == len(app.lines)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=8), st.integers(-10, 200))
def test_columns_fit_where_they_can(widths: list[int], room: int) -> None:
    found = fitted(widths, room)
    assert len(found) == len(widths)
    assert all(width <= most for width, most in zip(found, widths, strict=True))
    if sum(widths) <= room:
        assert found == widths
    else:
        assert sum(found) <= max(room, 3 * len(widths))
