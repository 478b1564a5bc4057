"""Which tokens mean something, and which of them are put around a text."""

from collections.abc import Mapping

from edgellm.convert.keys import Keys
from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.convert.tokenizers.tokens import Tokens

# Roles as tokenizer_config.json calls them, and as GGUF does ("seperator" is its spelling).
_ROLES = {
    "bos": "bos",
    "eos": "eos",
    "pad": "padding",
    "unk": "unknown",
    "sep": "seperator",
    "cls": "cls",
    "mask": "mask",
}
_PROCESSORS = ("TemplateProcessing", "RobertaProcessing", "BertProcessing")
_BEYOND = ("eot", "eom")  # keys for more tokens that end a generation


def special_keys(source: TokenizerFolder, tokens: Tokens, size: int) -> Keys:
    """Ids by role: from the tokenizer's settings, else its own file's, else the model's."""
    ids = tokens.ids(size)
    found = {role: i for role in _ROLES if (i := _id(source, role, ids, size)) is not None}
    first, last = _around(source, ids)
    adds = dict(tokens.adds)
    if _has_template(source):
        adds = {"bos": first is not None, "eos": last is not None}
        if first is not None:
            found["bos"] = first
        if last is not None and (found.get("eos") is None or first is not None):
            found["eos"] = last
        adds["sep"] = False  # the last of a text is told as its end
    if tokens.model == "bert":  # the kind adds both by itself
        adds = {}
    keys: Keys = {f"tokenizer.ggml.{_ROLES[role]}_token_id": i for role, i in found.items()}
    for role in ("bos", "eos"):
        told = source.settings.get(f"add_{role}_token")
        if isinstance(told, bool):
            adds[role] = told
    for role, added in adds.items():
        keys[f"tokenizer.ggml.add_{role}_token"] = added and role in found
    return keys | _ends(source, found.get("eos"), size)


def _id(source: TokenizerFolder, role: str, ids: Mapping[str, int], size: int) -> int | None:
    token = source.settings.get(f"{role}_token")
    text = token.get("content") if isinstance(token, dict) else token
    if isinstance(text, str) and text in ids:
        return ids[text]
    if source.pieces is not None and role in source.pieces.ids:
        return source.pieces.ids[role]
    given = source.model_config.get(f"{role}_token_id")
    given = given[0] if isinstance(given, list) and given else given
    return given if type(given) is int and 0 <= given < size else None


def _has_template(source: TokenizerFolder) -> bool:
    steps = source.steps("post_processor")
    return any(step.get("type") in _PROCESSORS for step in steps)


def _around(source: TokenizerFolder, ids: Mapping[str, int]) -> tuple[int | None, int | None]:
    """The special tokens that the post-processor puts before a text and after it."""
    for step in source.steps("post_processor"):
        single = step.get("single")
        if step.get("type") == "TemplateProcessing" and isinstance(single, list) and single:
            names = [
                part["SpecialToken"].get("id")
                if isinstance(part, dict) and isinstance(part.get("SpecialToken"), dict)
                else None
                for part in single
            ]
            ends = (names[0], names[-1] if len(names) > 1 else None)
            before, after = (ids.get(name) if name else None for name in ends)
            return before, after
        if step.get("type") in ("RobertaProcessing", "BertProcessing"):
            both = (step.get("cls"), step.get("sep"))
            found = [one[0] if isinstance(one, list) and one else None for one in both]
            return ids.get(str(found[0])), ids.get(str(found[1]))
    return None, None


def _ends(source: TokenizerFolder, eos: int | None, size: int) -> Keys:
    """What generation_config.json has end a generation beside the end of a text."""
    given = source.generation.get("eos_token_id")
    listed = given if isinstance(given, list) else [given]
    others = [i for i in listed if type(i) is int and 0 <= i < size and i != eos]
    return {f"tokenizer.ggml.{name}_token_id": i for name, i in zip(_BEYOND, others, strict=False)}
