"""How a text becomes the chunks that measures score: llama.cpp's way, so that figures compare.

The text is cut into chunks of the context's length; what is left at the end is not used. The
second half of each chunk is scored, so that every token has half a context before it. Knows
nothing of models.
"""

from edgellm.errors import RequestError


def cut(
    ids: list[int], bos: int | None, context: int, max_chunks: int | None = None
) -> list[list[int]]:
    """The chunks of the text's token ids, each `context` long.

    bos: takes the place of each chunk's first token; None where the model wants none.
    RequestError when the text does not fill one chunk.
    """
    if context < 4:
        raise RequestError(f"a context of {context} tokens: at least 4 are needed", "context")
    if max_chunks is not None and max_chunks < 1:
        raise RequestError(f"{max_chunks} chunks: at least 1 is needed", "chunks")
    count = len(ids) // context
    if not count:
        raise RequestError(
            f"the text has {len(ids)} tokens and one chunk takes {context}: "
            "give a longer text or a smaller context",
            "context",
        )
    count = min(count, max_chunks or count)
    chunks = [ids[i * context : (i + 1) * context] for i in range(count)]
    if bos is not None:
        for chunk in chunks:
            chunk[0] = bos
    return chunks


def scored_from(chunk: list[int]) -> int:
    """The first position whose next token is scored; the last one is that before the end."""
    return len(chunk) // 2
