"""The items of a response's output: whole, and as they begin, grow and end in a stream."""

from typing import Any

from edgellm.dialects import CallPart, Part
from edgellm.server.answers import new_id


def message(item_id: str, status: str, content: list[Any]) -> dict[str, Any]:
    """What the model says."""
    return {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": status,
        "content": content,
    }


def text_part(text: str) -> dict[str, Any]:
    """The text of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def reasoning(item_id: str, text: str) -> dict[str, Any]:
    """What the model thinks before it says anything."""
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": item_id, "summary": [], "content": content}


def function_call(item_id: str, status: str, part: CallPart, call_id: str) -> dict[str, Any]:
    """A call of a function; its arguments are those of the part."""
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": call_id,
        "name": part.name,
        "arguments": part.arguments,
        "status": status,
    }


class Items:
    """The items of a response's output as they begin, grow and end. done: those that ended."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []
        self._open: object = None  # what the open item holds: an index of a call, or a kind
        self._id = ""
        self._text = ""
        self._call = CallPart(0, "")

    def events(self, part: Part) -> list[dict[str, Any]]:
        """What a part means to the stream."""
        found: list[dict[str, Any]] = []
        holds = part.index if isinstance(part, CallPart) else part.kind
        if holds != self._open:
            found += self._close("completed")
            found += self._begin(holds, part)
        text = part.arguments if isinstance(part, CallPart) else part.text
        self._text += text
        kind = {"content": "output_text", "reasoning": "reasoning_text"}.get(
            str(holds), "function_call_arguments"
        )
        found.append(self._event(f"response.{kind}.delta", delta=text))
        return found

    def end(self, status: str) -> list[dict[str, Any]]:
        """The end of the last item, after an empty message if there was none."""
        begun = self._begin("content", None) if not self.done and self._open is None else []
        return [*begun, *self._close(status)]

    def _begin(self, holds: object, part: Part | None) -> list[dict[str, Any]]:
        self._open, self._text = holds, ""
        if isinstance(part, CallPart):
            self._id = new_id("fc_")
            self._call = CallPart(part.index, "", part.id or new_id("call_"), part.name)
            item = function_call(self._id, "in_progress", self._call, self._call.id or "")
            return [self._added(item)]
        self._id = new_id("msg_" if holds == "content" else "rs_")
        if holds == "reasoning":
            return [self._added({**reasoning(self._id, ""), "content": []})]
        added = self._added(message(self._id, "in_progress", []))
        part_added = self._event("response.content_part.added", part=text_part(""))
        return [added, part_added]

    def _close(self, status: str) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        if self._open == "content":
            item = message(self._id, status, [text_part(self._text)])
            found = [
                self._event("response.output_text.done", text=self._text),
                self._event("response.content_part.done", part=text_part(self._text)),
            ]
        elif self._open == "reasoning":
            item = reasoning(self._id, self._text)
            found = [self._event("response.reasoning_text.done", text=self._text)]
        else:
            part = CallPart(self._call.index, self._text, self._call.id, self._call.name)
            item = function_call(self._id, status, part, part.id or "")
            name, arguments = self._call.name, self._text
            kind = "response.function_call_arguments.done"
            found = [self._event(kind, name=name, arguments=arguments)]
        found.append(
            {
                "type": "response.output_item.done",
                "output_index": len(self.done),
                "item": item,
            }
        )
        self.done.append(item)
        self._open = None
        return found

    def _added(self, item: dict[str, Any]) -> dict[str, Any]:
        index = len(self.done)
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def _event(self, kind: str, **values: Any) -> dict[str, Any]:
        place = {"item_id": self._id, "output_index": len(self.done), "content_index": 0}
        if kind.startswith("response.function_call"):
            del place["content_index"]
        if kind.startswith("response.output_text"):
            values["logprobs"] = []
        return {"type": kind, **place, **values}
