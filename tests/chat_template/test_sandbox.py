"""What a template may use, and what it may not do."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from edgellm.chat_template import sandbox
from edgellm.chat_template.failure import TemplateFailure
from edgellm.chat_template.sandbox import Renderer

LONG = "1000000000"
DOUBLING = "{% set ns = namespace(s='ab', l=[1], n=2) %}{% for i in range(60) %}BODY{% endfor %}"


def render(source: str, **variables: Any) -> str:
    return Renderer().render(source, variables)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"),
        ("{% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "2"),
        ("a{% generation %}b{{ 1 + 1 }}{% endgeneration %}c", "ab2c"),
        ("{% set ns = namespace(n=0) %}{% for x in 'abc' %}{% set ns.n = loop.index %}"
         "{% endfor %}{{ ns.n }}", "3"),
        ("{{ [{'r': 'u'}, {'r': 'a'}] | selectattr('r', 'equalto', 'a') | list | length }}", "1"),
        ("{{ [{'r': 'u'}, {'r': 'a'}] | rejectattr('r', 'equalto', 'a') | list | tojson }}",
         '[{"r": "u"}]'),
        ("  {% if true %}\n  yes\n  {% endif %}\nend", "  yes\nend"),
        ("{{ 'a' ~ 1 ~ none }}", "a1None"),
        ("{{ 'x'.replace('x', 'y', count=1) if false else 'x'.replace('x', 'y') }}", "y"),
        ("{% for m in ['a b'] %}{{ m.split(' ')[1].replace('b', 'c') }}{% endfor %}", "c"),
        ("{{ '%s has %d' % ('it', 3) }} {{ '{} {:>3}'.format('a', 1) }}", "it has 3 a   1"),
        ("{{ '%.2f' % 1.5 }} {{ '20260101 %s' % 'x' }}", "1.50 20260101 x"),
        ("{% macro f(x, y='d') %}{{ x }}{{ y }}{% endmacro %}{{ f('a') }}{{ f(y='c') }}", "adc"),
        ("{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}", "a2b1"),
        ("{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is sequence else x }}{% endfor %}",
         "123"),
        ("{{ ['b', 'a'] | map('upper') | join(', ') }}", "B, A"),
        ("{% for x in 'ab' %}{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}", "2,2"),
        ("{{ missing }}{{ missing is defined }}{{ 'a' in {'a': 1} }}", "FalseTrue"),
        ("{{ strftime_now('%Y') | int > 2000 }}", "True"),
        ("{{ range(3) | list }} {{ range(5, 0, -2) | list | length }}", "[0, 1, 2] 3"),
    ],
)  # fmt: skip
def test_what_real_templates_use(source: str, expected: str) -> None:
    assert render(source) == expected


def test_tojson_is_hugging_faces() -> None:
    value = {"b": "<é>", "a": [1]}
    assert render("{{ v | tojson }}", v=value) == '{"b": "<é>", "a": [1]}'
    assert render("{{ v | tojson(ensure_ascii=true) }}", v=value) == '{"b": "<\\u00e9>", "a": [1]}'
    assert render("{{ v | tojson(indent=2) }}", v=value) == json.dumps(
        value, indent=2, ensure_ascii=False
    )
    compact = "{{ v | tojson(separators=(',', ':'), sort_keys=true) }}"
    assert render(compact, v=value) == '{"a":[1],"b":"<é>"}'


@pytest.mark.parametrize(
    "source",
    [
        f"{{{{ 'a' * {LONG} }}}}",
        f"{{{{ {LONG} * 'a' }}}}",
        f"{{{{ [1] * {LONG} }}}}",
        f"{{{{ '%{LONG}d' % 1 }}}}",
        f"{{{{ '%*d' % ({LONG}, 1) }}}}",
        f"{{{{ '%.{LONG}f' % 1 }}}}",
        f"{{{{ '%({'x'})0{LONG}d' % {{'x': 1}} }}}}",
        f"{{{{ '%{LONG}d' | format(1) }}}}",
        f"{{{{ '{{:{LONG}}}'.format(1) }}}}",
        f"{{{{ '{{:{{}}}}'.format(1, {LONG}) }}}}",
        f"{{{{ '{{x:{LONG}}}'.format_map({{'x': 1}}) }}}}",
        f"{{{{ 'a'.ljust({LONG}) }}}}",
        f"{{{{ 'a'.zfill(width={LONG}) }}}}",
        f"{{{{ '\\t'.expandtabs({LONG}) }}}}",
        f"{{{{ 'a'.encode().center({LONG}) }}}}",
        f"{{{{ (5).to_bytes({LONG}, 'big') }}}}",
        f"{{{{ 'a' | center({LONG}) }}}}",
        f"{{{{ 'a' | indent({LONG}, true) }}}}",
        f"{{{{ 'a' | indent(width={LONG}, first=true) }}}}",
        f"{{{{ [1] | batch({LONG}, 'x') | list }}}}",
        f"{{{{ [1] | slice({LONG}) | list }}}}",
        f"{{{{ [[1]] | tojson(indent={LONG}) }}}}",
        f"{{{{ 2 ** {LONG} }}}}",
        f"{{{{ range({LONG}) }}}}",
        "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
        "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
        "{{ ('a' * 1000000) | wordwrap(1, true, 'b' * 1000000) }}",
        "{{ 'a' * 1000000 ~ 'b' * 8000000 }}",
        "{{ ('a' * 7000000) + ('b' * 7000000) }}",
        "{{ ('b' * 1000000).join(range(99999) | map('string')) }}",
        "{{ range(99999) | join('b' * 1000000) }}",
        "{{ ['a' * 1000000] * 1000 }}",
        "{{ (['a' * 1000000] * 1000) | string }}",
        "{{ 'aa'.translate({97: 'b' * 7000000}) }}",
        "{% for i in range(9999) %}{{ 'a' * 1000 }}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        DOUBLING.replace("BODY", "{% set ns.s = ns.s ~ ns.s %}"),
        DOUBLING.replace("BODY", "{% set ns.s = ns.s + ns.s %}"),
        DOUBLING.replace("BODY", "{% set ns.s = ns.s.replace('a', 'aa') %}"),
        DOUBLING.replace("BODY", "{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}"),
        DOUBLING.replace("BODY", "{% set ns.l = ns.l + ns.l %}"),
        DOUBLING.replace("BODY", "{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l }}",
        DOUBLING.replace("BODY", "{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l | tojson }}",
        DOUBLING.replace("BODY", "{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l ~ '' }}",
        DOUBLING.replace("BODY", "{% set ns.l = [ns.l, ns.l] %}") + "{{ '%s' % ns.l }}",
        DOUBLING.replace("BODY", "{% set ns.l = namespace(a=ns.l, b=ns.l) %}") + "{{ ns.l }}",
        DOUBLING.replace("BODY", "{% set ns.n = ns.n * ns.n %}"),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    ],
)  # fmt: skip
def test_growth_is_stopped(source: str) -> None:
    with pytest.raises(TemplateFailure, match="was stopped"):
        render(source, messages=[])


def test_loops_are_counted_per_render(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_STEPS", 100)
    renderer = Renderer()
    loop = "{% for x in v %}{% endfor %}"
    for _ in range(3):
        assert renderer.render(loop, {"v": [0] * 90}) == ""
    recursive = "{% for x in v recursive %}{{ loop([1, 2]) if loop.depth < 40 }}{% endfor %}"
    calls = "{% macro f(n) %}{{ f(n - 1) ~ f(n - 1) if n }}{% endmacro %}{{ f(40) }}"
    for source in (loop, recursive, calls):
        with pytest.raises(TemplateFailure, match="more than 100 loop passes"):
            renderer.render(source, {"v": [0] * 101})


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{% include 'x' %}",
        "{% import 'x' as x %}",
        "{{ messages[0].role }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ lipsum() }}",
    ],
)
def test_what_is_refused_is_a_template_failure(source: str) -> None:
    with pytest.raises(TemplateFailure, match="failed"):
        render(source, messages=[])


def test_the_templates_own_message_is_passed_on() -> None:
    with pytest.raises(TemplateFailure, match="says: roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_a_syntax_error_names_the_line() -> None:
    with pytest.raises(TemplateFailure, match="line 2"):
        render("a\n{% if %}")


@given(st.text(alphabet="{}%-# \n'\"()[]|.~+*<>=0123456789abfiorsetnlmq", max_size=60))
def test_any_source_renders_or_fails_cleanly(source: str) -> None:
    try:
        assert len(render(source, messages=[{"role": "user", "content": "x"}])) < 10_000
    except TemplateFailure:
        pass


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: (
    st.lists(inner) | st.dictionaries(st.text(), inner)
), max_leaves=20))  # fmt: skip
def test_tojson_reads_back(value: Any) -> None:
    assert json.loads(render("{{ v | tojson }}", v=value)) == value
    assert json.loads(render("{{ v | tojson(indent=3) }}", v=value)) == value
