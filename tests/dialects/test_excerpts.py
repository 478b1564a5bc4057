"""What writes calls in the families' own templates, cut out: it is read, and what is held to."""

import pytest

from edgellm.chat_template import ChatTemplate
from edgellm.dialects import dialect_of
from tests.dialects.reading import calls, content, given_tools, read
from tests.dialects.test_grammar import allows
from tests.dialects.test_templates import ARGUMENTS, ASKED, called

EXCERPTS = {
    "seed": """
{%- for tool_call in message.tool_calls %}
{%- if tool_call.function is defined %}{% set tool_call = tool_call.function %}{% endif %}
{{ "\\n" + '<seed:tool_call>' + "\\n<function=" + tool_call.name + ">\\n" }}
{%- for arg_name, arg_value in tool_call.arguments | items %}
{{ "<parameter=" + arg_name + ">" }}
{%- set arg_value = arg_value if arg_value is string else arg_value | string %}
{{- arg_value+"</parameter>\\n" }}
{%- endfor %}
{{- "</function>\\n" + '</seed:tool_call>' }}
{%- endfor %}""",
    "minimax": """
{{- '\\n' ~ '<minimax:tool_call>' ~ '\\n' }}
{%- for tool_call in message.tool_calls -%}
{%- set tool_call = tool_call.function %}
{{- '<invoke name="' + tool_call.name + '">\\n' }}
{%- for k, v in tool_call.arguments|items %}
{{- '<parameter name="' + k + '">' }}
{{- v | tojson | string if v is not string else v }}
{{- '</parameter>' }}
{% endfor %}
{{- '</invoke>' ~ '\\n' }}
{%- endfor -%}
{{- '</minimax:tool_call>' }}""",
    "dsml": """
{%- set dsml_token = "｜DSML｜" -%}
{{ "\\n\\n" }}<{{ dsml_token }}function_calls>
{%- for tool_call in message.tool_calls -%}
{{ "\\n" }}<{{ dsml_token }}invoke name="{{ tool_call.function.name }}">{{ "\\n" }}
{%- for key, value in tool_call.function.arguments.items() -%}
{%- if not loop.first -%}{{ "\\n" }}{%- endif -%}
<{{ dsml_token }}parameter name="{{ key }}" string="{{ 'true' if value is string else 'false' }}">
{{- value if value is string else (value | tojson) }}</{{ dsml_token }}parameter>
{%- endfor -%}{{ "\\n" }}</{{ dsml_token }}invoke>
{%- endfor -%}
{{ "\\n" }}</{{ dsml_token }}function_calls>""",
    "nemotron": """
{{- '<TOOLCALL>[' -}}
{%- for call in message.tool_calls -%}
{%- set fn = call.function if call.function is defined else call -%}
{{- '{"name": "' + fn.name + '", "arguments": ' -}}
{{- fn.arguments | tojson -}}
{{- '}' + (', ' if not loop.last else '') -}}
{%- endfor -%}
{{- ']</TOOLCALL>' -}}""",
    "tool calls": """
Return all function calls as a list of json objects within <tool_call></tool_call> XML tags.
{{- '\\n<tool_calls>[' -}}
{%- for tool_call in message["tool_calls"] -%}
{{- '{"name": "' + tool_call['function']['name'] + '", "arguments": ' -}}
{{- tool_call['function']['arguments']|tojson + '}' -}}
{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
{%- endfor -%}
{{- ']</tool_calls>' -}}""",
    "command": """
<|START_ACTION|>[
    {% for tc in message.tool_calls %}
    {"tool_call_id": "0", "tool_name": "{{ tc['function']['name'] }}", "parameters": {{
    tc['function']['arguments']|tojson }}}{% if not loop.last %},{% endif %}

    {% endfor %}
]<|END_ACTION|>""",
    "phi": """
{%- for tool_call in message.tool_calls -%}
{{- '<|tool_call|>' + (tool_call['function'] | tojson) + '<|/tool_call|>' -}}
{%- endfor -%}""",
    "lfm": """
{%- set ns = namespace(tool_calls=[]) -%}
{%- for tool_call in message.tool_calls -%}
{%- set args = namespace(strings=[]) -%}
{%- for name, value in tool_call["function"]["arguments"].items() -%}
{%- set written = "'" + value + "'" if value is string else value | string -%}
{%- set args.strings = args.strings + [name + "=" + written] -%}
{%- endfor -%}
{%- set call = tool_call["function"]["name"] + "(" + (args.strings | join(", ")) + ")" -%}
{%- set ns.tool_calls = ns.tool_calls + [call] -%}
{%- endfor -%}
{{- "<|tool_call_start|>[" + (ns.tool_calls | join(", ")) + "]<|tool_call_end|>" -}}""",
    "granite": """
{{- '<|tool_call|>[' }}
{%- for tool_call in message.tool_calls %}
    {%- if tool_call.function is defined %}
        {%- set tc = tool_call.function %}
    {%- else %}
        {%- set tc = tool_call %}
    {%- endif %}
    {{- '{"name": "' + tc.name + '", "arguments": ' }}
    {%- if tc.arguments is string %}
        {{- tc.arguments }}
    {%- else %}
        {{- tc.arguments | tojson }}
    {%- endif %}
    {{- '}' }}
    {%- if not loop.last %}, {% endif %}
{%- endfor %}
{{- ']' }}""",
    "apertus": """
{%- set tool_calls_token = '<|tools_prefix|>' -%}
{%- set end_tool_calls_token = '<|tools_suffix|>' -%}
{{ tool_calls_token + '[' }}
{%- for tool_call in message.tool_calls -%}
    {%- if tool_call.type == 'function' -%}
        {%- set function = tool_call.function -%}
        {{- '{"' + function.name + '": ' + function.arguments + '}' }}
        {%- if not loop.last -%}
            {{- ", " }}
        {%- endif -%}
    {%- endif -%}
{%- endfor -%}
{{ ']' + end_tool_calls_token }}""",
    "fire function": """
{%- set tool = namespace(calls=[]) -%}
{%- for call in message['tool_calls'] -%}
  {%- set tool.calls = tool.calls + ['{"name": "' + call['function']['name'] + '", "arguments": ' +
    call['function']['arguments'] + '}'] -%}
{%- endfor -%}
{{- ' functools[' + tool.calls | join(', ') + ']' -}}""",
    "functionary": """
{%- if message['content'] -%}
    {{ '>>>all\n' + message['content'] }}
{%- endif -%}
{%- if 'tool_calls' in message and message['tool_calls'] -%}
    {%- for tool_call in message['tool_calls'] -%}
        {{ '>>>' + tool_call['function']['name'] + '\n' + tool_call['function']['arguments'] }}
    {%- endfor -%}
{%- endif -%}""",
    "olmo": """
{{- '<function_calls>' -}}
{%- for tool_call in message['tool_calls'] %}
{%- set args = tool_call['function']['arguments'] -%}
{%- set ns = namespace(arguments_list=[]) -%}
{%- for key, value in args.items() -%}
{%- set ns.arguments_list = ns.arguments_list + [key ~ '=' ~ (value | tojson)] -%}
{%- endfor -%}
{%- set arguments = ns.arguments_list | join(', ') -%}
{{- tool_call['function']['name'] + '(' + arguments + ')' -}}
{%- if not loop.last -%}{{ '\n' }}{%- endif -%}
{%- endfor %}
{{- '</function_calls>' -}}""",
    "gigachat": """
{%- set add_tokens = namespace(
    role_sep="<|role_sep|>\\n",
    message_sep="<|message_sep|>\\n\\n"
) -%}
{%- macro render_role_message(message) -%}
    {{- message['role'] + add_tokens.role_sep + message['content'] + add_tokens.message_sep -}}
{%- endmacro -%}
{%- set call = message.tool_calls[0].function -%}
{%- set arguments = call['arguments'] -%}
{%- if arguments is not string -%}
    {%- set arguments = arguments| tojson(ensure_ascii=False) -%}
{%- endif -%}
{{- (message.content or '') + add_tokens.message_sep -}}
{{- render_role_message(
    {
        'role': 'function call',
        'content': '{"name": "' ~ call['name'] ~ '", "arguments": ' ~ arguments ~ '}'
    }
) -}}""",
}
TWICE = [("get_weather", ARGUMENTS)] * 2
IN_PROMPT = {"functionary": ">>>"}  # what ends a prompt, and begins what the template writes
ENDS = {"gigachat": "<|message_sep|>"}  # what ends an answer after its calls


def written(excerpt: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two calls as a template writes them that has the excerpt."""
    monkeypatch.setattr("edgellm.chat_template.template.is_known", lambda source: True)
    source = f"{{%- for message in messages if message.tool_calls %}}{excerpt}{{%- endfor %}}"
    template = ChatTemplate(source, bos_text="<s>", eos_text="</s>")
    message = called("")
    two = {**message, "tool_calls": message["tool_calls"] * 2}
    found = template.render([*ASKED, two])
    template.close()
    return found


@pytest.mark.parametrize("name", EXCERPTS)
def test_what_the_family_writes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    excerpt = EXCERPTS[name]
    dialect = dialect_of(excerpt)
    assert dialect.name == name
    answer = written(excerpt, monkeypatch)
    written_calls = TWICE[:1] if name == "gigachat" else TWICE  # which calls one at a time
    for pieces in ([answer], [*answer]):
        parts = read(excerpt, pieces, given_tools(), tail="")
        assert calls(parts) == written_calls
        assert not any(mark in content(parts) for mark in dialect.marks)
    start = answer.index(dialect.marks[0]) if dialect.marks else len(IN_PROMPT.get(name, ""))
    if name != "lfm":  # whose template has other quotes than its models
        held = answer[start:].rstrip().removesuffix(ENDS.get(name, ""))
        assert allows(excerpt, held.rstrip(), given_tools("required"), tail="")


@pytest.mark.parametrize(
    ("excerpt", "name"),
    [
        ("'List of tools: <|tool_list_start|>['", "lfm"),
        ("'<|start_of_role|>available_tools<|end_of_role|>'", "granite"),
        ("'<|start_of_role|>tools<|end_of_role|>'", "granite"),
        ("in the format of [func_name1(params_name1=params_value1", "python list"),
        ("{{ '>>>all\\n' + message['content'] }}", "functionary"),
        ("<tool_call> available_tools<|end_of_role|>", "hermes"),
    ],
)
def test_what_tells_a_family(excerpt: str, name: str) -> None:
    assert dialect_of(excerpt).name == name


def test_json_that_lfm_was_told_to_write() -> None:
    said = '<|tool_call_start|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]'
    parts = read("<|tool_list_start|>", f"{said}<|tool_call_end|>", given_tools())
    assert calls(parts) == [("get_weather", {"city": "Paris"})]


def test_words_of_json_in_python() -> None:
    said = (
        '<|tool_call_start|>[note(text="a", at={"line": 1.5, "last": true}, tags=null)]'
        "<|tool_call_end|>"
    )
    parts = read("<|tool_call_start|>", said, given_tools())
    assert calls(parts) == [
        ("note", {"text": "a", "at": {"line": 1.5, "last": True}, "tags": None})
    ]
