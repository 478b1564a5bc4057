"""Which template a file gets, and the prompts it makes."""

import json
from pathlib import Path
from typing import Any

import pytest

from edgellm.chat_template import ChatTemplate, load_chat_template
from edgellm.chat_template.defaults import FAMILIES, PLAIN, default_family, is_known
from edgellm.errors import GGUFError, RequestError
from edgellm.gguf_loader import open_gguf
from tests.gguf_writer import write_gguf

CHAT = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "U"},
    {"role": "assistant", "content": "A"},
    {"role": "user", "content": "V"},
]
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}


def load(path: Path, metadata: dict[str, Any]) -> ChatTemplate:
    write_gguf(path, {"general.architecture": "llama", **metadata}, [])
    with open_gguf(path) as file:
        return load_chat_template(file, "<s>", "</s>")


@pytest.mark.parametrize(
    ("golden", "model"),
    [
        ("smollm2-135m-instruct-q4_1", "smollm2"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m", "qwen05b"),
    ],
)
def test_golden_prompts(
    golden: str, model: str, oracle: Path, smollm2: Path, real_models: dict[str, Path]
) -> None:
    path = {"smollm2": smollm2, **real_models}.get(model)
    if path is None:
        pytest.skip(f"{model}.gguf is not in EDGELLM_TEST_MODELS")
    with open_gguf(path) as file:
        template = load_chat_template(file, "", "")
    assert template.origin == "the model file"
    assert is_known(template.source)
    cases = json.loads((oracle / "models" / f"{golden}.json").read_text("utf-8"))["chat"]
    assert cases
    for case in cases:
        assert template.render(case["messages"]) == case["prompt"]


def test_the_files_template_comes_first(tmp_path: Path) -> None:
    source = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    template = load(tmp_path / "m.gguf", {"tokenizer.chat_template": source})
    assert not template.is_default
    assert template.render(CHAT) == "<s>S</s>U</s>A</s>V</s>"
    template.close()


def test_variants_are_used_when_called_for(tmp_path: Path) -> None:
    template = load(
        tmp_path / "m.gguf",
        {
            "tokenizer.chat_template": "plain",
            "tokenizer.chat_templates": ["tool_use", "rag", "absent"],
            "tokenizer.chat_template.tool_use": "tools {{ tools[0].function.name }}",
            "tokenizer.chat_template.rag": "rag {{ documents[0].title }}",
        },
    )
    assert template.render(CHAT) == "plain"
    assert template.render(CHAT, tools=[]) == "plain"
    assert template.render(CHAT, tools=[TOOL]) == "tools now"
    assert template.render(CHAT, documents=[{"title": "T"}]) == "rag T"
    template.close()


def test_a_default_variant_is_the_template(tmp_path: Path) -> None:
    metadata = {
        "tokenizer.chat_templates": ["default"],
        "tokenizer.chat_template.default": "the default",
    }
    template = load(tmp_path / "m.gguf", metadata)
    assert (template.source, template.variants) == ("the default", {})


def test_a_template_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match=r"tokenizer\.chat_template"):
        load(tmp_path / "m.gguf", {"tokenizer.chat_template": 5})


def test_without_a_template_the_family_is_told_by_its_tokens(tmp_path: Path) -> None:
    tokens = ["a", "<start_of_turn>", "<end_of_turn>"]
    template = load(tmp_path / "m.gguf", {"tokenizer.ggml.tokens": tokens})
    assert template.is_default
    assert template.origin == "the default for gemma"
    assert template.render(CHAT) == (
        "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
        "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n"
    )


def test_a_name_is_no_template(tmp_path: Path) -> None:
    keys = {"tokenizer.chat_template": "rwkv-world", "tokenizer.ggml.tokens": ["<|im_start|>"]}
    template = load(tmp_path / "m.gguf", keys)
    assert template.is_default
    assert template.render(CHAT[:2]) == "System: S\n\nUser: U\n\nAssistant:"


def test_without_known_tokens_it_is_plain_text(tmp_path: Path) -> None:
    template = load(tmp_path / "m.gguf", {})
    assert template.origin == "the default for plain text"
    assert template.render(CHAT) == "System: S\n\nUser: U\n\nAssistant: A\n\nUser: V\n\nAssistant:"


@pytest.mark.parametrize("family", [*FAMILIES, PLAIN], ids=lambda family: family.name)
def test_every_default(family: Any) -> None:
    assert default_family(["a", *family.markers, "b"]) is family
    assert is_known(family.template)
    template = ChatTemplate(family.template, family.name, bos_text="<s>", eos_text="</s>")
    prompt, open_ended = template.render(CHAT, add_generation_prompt=False), template.render(CHAT)
    assert open_ended.startswith(prompt)
    for text in ("S", "U", "A", "V", *family.markers):
        assert text in open_ended
    assert "{" not in open_ended and "ROLE" not in open_ended and "CONTENT" not in open_ended


def test_errors_are_request_errors() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(RequestError, match="roles must alternate") as caught:
        template.render(CHAT)
    assert caught.value.field == "messages"
    with pytest.raises(RequestError, match="JSON"):
        template.render(CHAT, when=object())
    template.close()


def test_a_template_may_not_be_endless() -> None:
    with pytest.raises(RequestError, match="1,000,001 characters"):
        ChatTemplate("x" * 1_000_001).render(CHAT)


def test_variables_reach_the_template() -> None:
    template = ChatTemplate(
        "{{ date_string }}{{ enable_thinking }}{{ tools is none }}{{ add_generation_prompt }}"
    )
    assert template.render(CHAT, date_string="today ", enable_thinking=True) == "today TrueTrueTrue"
    template.close()


def test_tools_stay_undefined_for_templates_that_ask_only_that() -> None:
    template = ChatTemplate("{% if tools is defined %}{% for t in tools %}t{% endfor %}{% endif %}")
    assert template.render(CHAT) == ""
    assert template.render(CHAT, tools=[TOOL]) == "t"
    template.close()


def test_known_templates_start_no_process() -> None:
    template = ChatTemplate(PLAIN.template)
    template.render(CHAT)
    assert template._worker is None
    stranger = ChatTemplate(PLAIN.template + " ")
    stranger.render(CHAT)
    assert stranger._worker is not None
    stranger.close()


# The constructs by which widely used families differ, each in a few lines.
FAMILY_CONSTRUCTS = {
    "llama-3: date, trimmed content, tools in the first user turn": (
        "{{- bos_token }}{%- if not date_string is defined %}{%- if strftime_now is defined %}"
        "{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}{%- endif %}"
        "{%- if messages[0]['role'] == 'system' %}{%- set sys = messages[0]['content']|trim %}"
        "{%- set messages = messages[1:] %}{%- else %}{%- set sys = '' %}{%- endif %}"
        "{{- '[sys]' + sys + '|' + (date_string|length > 5)|string }}"
        "{%- for m in messages %}{{- '[' + m['role'] + ']' + m['content'] | trim }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '[assistant]' }}{%- endif %}",
        "<s>[sys]S|True[user]U[assistant]A[user]V[assistant]",
    ),
    "mistral: filtered turns that must alternate": (
        "{%- set loop_messages = messages[1:] %}{%- set ns = namespace(index=0) %}"
        "{%- set users = loop_messages | selectattr('role', 'equalto', 'user') | list %}"
        "{%- for m in loop_messages %}{%- if not (m.role == 'tool' or m.get('tool_calls')) %}"
        "{%- if (m['role'] == 'user') != (ns.index % 2 == 0) %}"
        "{{- raise_exception('must alternate') }}{%- endif %}"
        "{%- set ns.index = ns.index + 1 %}{%- endif %}{%- endfor %}"
        "{%- for m in loop_messages %}{%- if m.role == 'user' %}"
        "{%- if m == users[-1] %}{{- '[SYS]' + messages[0].content }}{%- endif %}"
        "{{- '[INST]' + m.content + '[/INST]' }}{%- else %}{{- ' ' + m.content + eos_token }}"
        "{%- endif %}{%- endfor %}",
        "[INST]U[/INST] A</s>[SYS]S[INST]V[/INST]",
    ),
    "gemma: system text in the first user turn": (
        "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}"
        "{%- set first = messages[0]['content'] + '\n\n' -%}{%- set rest = messages[1:] -%}"
        "{%- endif -%}{%- for m in rest -%}"
        "{%- set role = 'model' if m['role'] == 'assistant' else m['role'] -%}"
        "{{ '<' + role + '>' + (first if loop.first else '') }}"
        "{%- if m['content'] is string -%}{{ m['content'] | trim }}"
        "{%- elif m['content'] is iterable -%}{%- for p in m['content'] -%}{{ p['text'] }}"
        "{%- endfor -%}{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<model>' }}{%- endif -%}",
        "<s><user>S\n\nU<model>A<user>V<model>",
    ),
    "deepseek: state in a namespace, text split": (
        "{% set ns = namespace(system='', is_last_user=false) %}"
        "{%- for m in messages %}{%- if m['role'] == 'system' %}"
        "{%- set ns.system = ns.system + m['content'] %}{%- endif %}{%- endfor %}"
        "{{ bos_token }}{{ ns.system }}{%- for m in messages %}{%- if m['role'] == 'user' %}"
        "{%- set ns.is_last_user = true %}{{ '<U>' + m['content'] }}{%- endif %}"
        "{%- if m['role'] == 'assistant' and m['content'] is not none %}"
        "{%- set content = m['content'] %}{%- if '</think>' in content %}"
        "{%- set content = content.split('</think>')[-1] %}{%- endif %}"
        "{%- set ns.is_last_user = false %}{{ '<A>' + content + eos_token }}{%- endif %}"
        "{%- endfor %}{% if add_generation_prompt and ns.is_last_user %}{{ '<A>' }}{% endif %}",
        "<s>S<U>U<A>A</s><U>V<A>",
    ),
    "gpt-oss: macros that call themselves": (
        "{%- macro kind(spec, required, nullable=false) -%}{%- if spec.type == 'array' -%}"
        "{{- kind(spec['items'], required) + '[]' }}{%- elif spec.type is string -%}"
        "{{- spec.type }}{%- endif -%}{%- endmacro -%}"
        "{%- set inner = {'type': 'array', 'items': {'type': 'number'}} -%}"
        "{{- kind({'type': 'array', 'items': inner}, []) }}"
        "{%- for m in messages -%}{%- if 'thinking' in m %}t{% endif -%}{{- '|' + m.role }}"
        "{%- if loop.last and not add_generation_prompt %}!{% endif %}{%- endfor -%}",
        "number[][]|system|user|assistant|user",
    ),
    "phi: the role in the marker": (
        "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}"
        "{{ eos_token }}{% endif %}",
        "<|system|>S<|end|><|user|>U<|end|><|assistant|>A<|end|><|user|>V<|end|><|assistant|>",
    ),
    "qwen-3: walking backwards": (
        "{%- set ns = namespace(found=true, last=messages|length - 1) %}"
        "{%- for m in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}"
        "{%- if ns.found and m.role == 'user' and not m.content.startswith('<tool_response>') %}"
        "{%- set ns.found = false %}{%- set ns.last = index %}{%- endif %}{%- endfor %}"
        "{{ ns.last }}{%- if enable_thinking is defined and enable_thinking is false %}x"
        "{%- endif %}{{ '<think>a</think>b'.split('</think>')[-1].lstrip('\n') }}",
        "3b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILY_CONSTRUCTS)
def test_constructs_of_the_families(name: str) -> None:
    source, expected = FAMILY_CONSTRUCTS[name]
    template = ChatTemplate(source, bos_text="<s>", eos_text="</s>")
    assert template.render(CHAT) == expected
    template.close()
