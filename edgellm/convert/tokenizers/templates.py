"""Chat templates and what a folder advises on sampling."""

from pathlib import Path

from edgellm.convert.checkpoint import read_optional_json
from edgellm.convert.keys import Keys
from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.errors import GGUFError

_KEY = "tokenizer.chat_template"
_MOST = 1 << 31  # of what a setting of samplers may be
# generation_config.json's names, and GGUF's.
_SAMPLING = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}


def template_keys(source: TokenizerFolder) -> Keys:
    """The default template, and others by their names: a file of its own counts most."""
    named = _named(source.settings.get("chat_template"))
    legacy = read_optional_json(source.folder / "chat_template.json").get("chat_template")
    named |= _named(legacy)
    path = source.folder / "chat_template.jinja"
    if path.exists():
        named["default"] = _text(path)
    for extra in sorted((source.folder / "additional_chat_templates").glob("*.jinja")):
        named[extra.stem] = _text(extra)
    keys: Keys = {}
    if "default" in named:
        keys[_KEY] = named.pop("default")
    if named:
        keys["tokenizer.chat_templates"] = sorted(named)
        keys |= {f"{_KEY}.{name}": text for name, text in sorted(named.items())}
    return keys


def _named(template: object) -> dict[str, str]:
    if isinstance(template, str):
        return {"default": template}
    found = {}
    for one in template if isinstance(template, list) else ():
        name, text = (
            (one.get("name"), one.get("template")) if isinstance(one, dict) else (None, None)
        )
        if isinstance(name, str) and isinstance(text, str):
            found[name] = text
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GGUFError(f"{path}: cannot be read as text: {error}") from None


def sampling_keys(source: TokenizerFolder) -> Keys:
    """`general.sampling.*`, from generation_config.json, where the model is to be sampled."""
    if source.generation.get("do_sample") is False:
        return {}
    keys: Keys = {}
    for name, key in _SAMPLING.items():
        value = source.generation.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if abs(value) < _MOST:  # nor what is no number
            keys[f"general.sampling.{key}"] = int(value) if name == "top_k" else float(value)
    return keys
