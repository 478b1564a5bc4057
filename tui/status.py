"""What the status bar says of a conversation. Knows no screen."""

from dataclasses import replace

from edgellm.tui.chat import Chat, model_name
from edgellm.tui.session import Session
from edgellm.tui.widgets.status_bar import Status


def status_of(chat: Chat, session: Session, memory: int | None) -> Status:
    """Of the answer that is being written, or of the last one. memory: bytes of the engine."""
    name = chat.conversation.model
    status = Status(
        model=model_name(name),
        activity=session.activity,
        failure="" if session.known(name) else session.failure,
        context=session.context_length(name) or 0,
        memory=memory,
        others=len(session.busy() - {chat.id}),
    )
    generation = session.generation(chat)
    if generation is not None:
        return replace(status, used=generation.num_tokens, rate=generation.rate)
    answer = chat.last("assistant")
    if answer is None:
        return status
    return replace(
        status,
        used=answer.prompt_tokens + len(answer.token_ids),
        rate=answer.tokens_per_second,
        first_token=answer.first_token,
        acceptance=session.acceptance.get(answer.id),
    )
