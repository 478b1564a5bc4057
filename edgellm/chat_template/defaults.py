"""Chat templates for files that bring none, and the templates known to be harmless.

A file's own template always comes first. Without one, the family is told by tokens that only its
chat format has; a vocabulary with none of them gets plain text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True)
class Family:
    """A chat format: its name, the tokens that all must be in the vocabulary, its template."""

    name: str
    markers: tuple[str, ...]
    template: str


def _turns(
    before: str, after: str, prompt: str, start: str = "", assistant: str = "assistant"
) -> str:
    """A template in which every message is `before` (with ROLE), its content, `after`."""
    role = "{{ 'ASSISTANT' if message.role == 'assistant' else message.role }}"
    role = role.replace("ASSISTANT", assistant)
    return (
        f"{start}{{% for message in messages %}}"
        f"{before.replace('ROLE', role)}{{{{ message.content }}}}{after}"
        f"{{% endfor %}}{{% if add_generation_prompt %}}{prompt}{{% endif %}}"
    )


# Formats without a system turn: the system text opens the first user turn.
_SYSTEM_FIRST = (
    "{% set ns = namespace(system='') %}{% for message in messages %}"
    "{% if message.role == 'system' %}{% set ns.system = ns.system ~ message.content ~ '\n\n' %}"
    "{% elif message.role == 'assistant' %}ASSISTANT"
    "{% else %}USER{% set ns.system = '' %}{% endif %}{% endfor %}"
)


def _system_first(start: str, user: str, assistant: str, prompt: str = "") -> str:
    """A template whose user turns may open with the system text; CONTENT is the message's."""
    user = user.replace("CONTENT", "{{ ns.system ~ message.content }}")
    assistant = assistant.replace("CONTENT", "{{ message.content }}")
    body = _SYSTEM_FIRST.replace("USER", user).replace("ASSISTANT", assistant)
    return f"{start}{body}{{% if add_generation_prompt %}}{prompt}{{% endif %}}"


_BOS = "{{ bos_token }}"

PLAIN = Family(
    "plain text",
    (),
    _turns("{{ message.role | capitalize }}: ", "\n\n", "Assistant:"),
)

# In this order: the first whose markers are all there. Sources are the model cards of each family.
FAMILIES = (
    Family(
        "phi-4",
        ("<|im_start|>", "<|im_sep|>"),
        _turns("<|im_start|>ROLE<|im_sep|>", "<|im_end|>", "<|im_start|>assistant<|im_sep|>"),
    ),
    Family(
        "chatml",
        ("<|im_start|>", "<|im_end|>"),
        _turns("<|im_start|>ROLE\n", "<|im_end|>\n", "<|im_start|>assistant\n"),
    ),
    Family(
        "llama-3",
        ("<|start_header_id|>", "<|eot_id|>"),
        _turns(
            "<|start_header_id|>ROLE<|end_header_id|>\n\n",
            "<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
            start=_BOS,
        ),
    ),
    Family(
        "llama-4",
        ("<|header_start|>", "<|eot|>"),
        _turns(
            "<|header_start|>ROLE<|header_end|>\n\n",
            "<|eot|>",
            "<|header_start|>assistant<|header_end|>\n\n",
            start=_BOS,
        ),
    ),
    Family(
        "gemma-4",
        ("<|turn>", "<turn|>"),
        _turns("<|turn>ROLE\n", "<turn|>\n", "<|turn>model\n", start=_BOS, assistant="model"),
    ),
    Family(
        "gemma",
        ("<start_of_turn>", "<end_of_turn>"),
        _system_first(
            _BOS,
            "<start_of_turn>user\nCONTENT<end_of_turn>\n",
            "<start_of_turn>model\nCONTENT<end_of_turn>\n",
            "<start_of_turn>model\n",
        ),
    ),
    Family(
        "gpt-oss",
        ("<|start|>", "<|channel|>", "<|message|>"),
        _turns(
            "<|start|>ROLE{{ '<|channel|>final' if message.role == 'assistant' }}<|message|>",
            "<|end|>",
            "<|start|>assistant",
        ),
    ),
    Family(
        "deepseek",
        ("<｜User｜>", "<｜Assistant｜>"),
        _system_first(
            _BOS,
            "<｜User｜>CONTENT",
            "<｜Assistant｜>CONTENT<｜end▁of▁sentence｜>",
            "<｜Assistant｜>",
        ),
    ),
    Family(
        "command-r",
        ("<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        _turns(
            "<|START_OF_TURN_TOKEN|><|{{ {'assistant': 'CHATBOT'}.get(message.role, message.role)"
            " | upper }}_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
            "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
            start=_BOS,
        ),
    ),
    Family(
        "granite",
        ("<|start_of_role|>", "<|end_of_role|>"),
        _turns(
            "<|start_of_role|>ROLE<|end_of_role|>",
            "<|end_of_text|>\n",
            "<|start_of_role|>assistant<|end_of_role|>",
        ),
    ),
    Family(
        "phi-3",
        ("<|user|>", "<|end|>"),
        _turns("<|ROLE|>\n", "<|end|>\n", "<|assistant|>\n"),
    ),
    Family(
        "glm-4",
        ("[gMASK]", "<|user|>"),
        _turns("<|ROLE|>\n", "", "<|assistant|>\n", start="[gMASK]<sop>"),
    ),
    Family(
        "mistral",
        ("[INST]", "[/INST]"),
        _system_first(_BOS, "[INST] CONTENT[/INST]", " CONTENT{{ eos_token }}"),
    ),
)


# What files say that name a format of llama.cpp's instead of bringing a template.
NAMED = {"rwkv-world": PLAIN}


def default_family(tokens: Iterable[str]) -> Family:
    """The family whose marker tokens are all among `tokens`; PLAIN when none is."""
    wanted = {marker for family in FAMILIES for marker in family.markers}
    found = wanted.intersection(tokens)
    return next((family for family in FAMILIES if found.issuperset(family.markers)), PLAIN)


# sha256 of the UTF-8 source of files' own templates that were read: one loop over the messages,
# text that grows with them and nothing else.
_REVIEWED = frozenset(
    [
        "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",  # SmolLM2 Instruct
        "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",  # Qwen2.5 Instruct
    ]
)


def is_known(source: str) -> bool:
    """Whether a template may be rendered in this process: one of ours, or one that was read."""
    if any(source == family.template for family in (*FAMILIES, PLAIN)):
        return True
    return sha256(source.encode("utf-8", "surrogatepass")).hexdigest() in _REVIEWED
