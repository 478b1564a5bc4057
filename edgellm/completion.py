"""Puts the events of a request together into its finished answers. Knows no engine."""

from collections.abc import Iterable
from dataclasses import replace

from edgellm.types import Completion, TokenEvent


def collect(events: Iterable[TokenEvent]) -> Completion:
    """Answer 0, with the others in it. ValueError when one of them is not finished."""
    by_index: dict[int, list[TokenEvent]] = {}
    for event in events:
        by_index.setdefault(event.index, []).append(event)
    first, *others = (_completion(by_index[index]) for index in sorted(by_index))
    return replace(first, others=tuple(others))


def _completion(events: list[TokenEvent]) -> Completion:
    last = events[-1]
    if last.finish_reason is None or last.usage is None or last.timings is None:
        raise ValueError("the answer is not finished")
    logprobs = None
    if last.logprobs is not None:
        logprobs = tuple(entry for event in events for entry in event.logprobs or ())
    return Completion(
        text="".join(event.text for event in events),
        token_ids=tuple(token for event in events for token in event.token_ids),
        finish_reason=last.finish_reason,
        logprobs=logprobs,
        usage=last.usage,
        timings=last.timings,
    )
