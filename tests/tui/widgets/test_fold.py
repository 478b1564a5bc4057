"""Long answers: what is out of sight is folded, comes back when scrolled to, and looks the same."""

from pathlib import Path

from textual.pilot import Pilot

from edgellm.tui.widgets.answer import Answer
from edgellm.tui.widgets.fold import Fold
from edgellm.tui.widgets.markdown_part import CodeChunk, MarkdownPart
from tests.tui.piloted import app_of, asynchronous, chatting, say, until

BLOCKS = "A paragraph with a [link][there] in it.\n\n```py\nx = 1\n```\n\n- one\n- two\n\n"
LIST = "".join(f"{number}. item {number}\n" for number in range(1, 62))
LONG = "Words and words. " * 25 + "\n\n"
TEXT = BLOCKS * 3 + LONG * 14 + LIST + "\n[there]: https://example.com\n"


def answer_of(pilot: Pilot[None]) -> Answer:
    return app_of(pilot).transcript.views[-1].query_one(Answer)


def numbers(answer: Answer) -> list[str]:
    marks = [str(mark.render()).strip() for mark in answer.query("MarkdownBullet")]
    return [mark for mark in marks if mark[0].isdigit()]


@asynchronous
async def test_a_long_answer_is_folded_and_unfolded(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        await say(pilot, "hi")
        answer, transcript = answer_of(pilot), app_of(pilot).transcript
        await answer.update("")
        for at in range(0, len(TEXT), 700):
            await answer.append(TEXT[at : at + 700])
        await pilot.pause()
        assert answer.source == TEXT
        parts = list(answer.query(MarkdownPart))
        assert max(len(part.source) for part in parts) < 3000
        assert numbers(answer) == [f"{number}." for number in range(1, 62)]
        assert len(list(answer.query(CodeChunk))) == 3
        folds = [fold for fold in answer.children if isinstance(fold, Fold)]
        await until(pilot, lambda: any(fold.is_hidden for fold in folds))
        height = answer.size.height
        for end in (transcript.scroll_home, transcript.scroll_end):
            end(animate=False)
            seen = folds[0] if end == transcript.scroll_home else folds[-1]
            await until(pilot, lambda seen=seen: seen.region.overlaps(transcript.region))
            await until(pilot, lambda seen=seen: not seen.is_hidden)
            await until(pilot, lambda: any(fold.is_hidden for fold in folds))
            assert answer.size.height == height
        await pilot.resize_terminal(70, 24)
        await pilot.pause(0.1)
        await until(pilot, lambda: any(fold.is_hidden for fold in folds))
        for fold in folds:
            fold.unfold()
        before = answer.size.height
        await pilot.pause(0.1)
        assert answer.size.height == before


@asynchronous
async def test_stored_answers_know_links_of_all_parts(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        await say(pilot, "hi")
        answer = answer_of(pilot)
        await answer.update(TEXT)
        await pilot.pause()
        assert len(list(answer.query(MarkdownPart))) > 2
        assert numbers(answer) == [f"{number}." for number in range(1, 62)]
        paragraph = answer.query("MarkdownParagraph").first()
        assert "a link in it" in str(paragraph.render())
