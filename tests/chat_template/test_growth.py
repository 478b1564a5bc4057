"""A bound must never lie below the size of the real result."""

from typing import Any

from hypothesis import given, strategies as st

from edgellm.chat_template.growth import FILTERS, METHODS, formatted, product, weigh

TEXT = st.text(alphabet="ab \t\n", max_size=20)
SMALL = st.integers(-3, 40)


@given(TEXT, TEXT, TEXT, SMALL)
def test_methods(text: str, old: str, new: str, width: int) -> None:
    for name in ("center", "ljust", "rjust", "zfill", "expandtabs"):
        assert METHODS[name](text, width) >= len(getattr(text, name)(width))
        data = text.encode()
        assert METHODS[name](data, width) >= len(getattr(data, name)(width))
    assert METHODS["replace"](text, old, new) >= len(text.replace(old, new))
    table = {97: old, 98: new, 32: None}
    assert METHODS["translate"](text, table) >= len(text.translate(table))
    assert METHODS["join"](text, [old, new, old]) + weigh([old, new, old], 10**6) >= len(
        text.join([old, new, old])
    )


@given(TEXT, SMALL)
def test_filters(text: str, width: int) -> None:
    from jinja2.filters import do_center, do_indent

    assert FILTERS["center"](text, width) >= len(do_center(text, width))
    assert FILTERS["indent"](text, width, True, True) >= len(do_indent(text, width, True, True))


@given(st.integers(0, 50), st.integers(0, 50), st.text(max_size=30), st.integers(0, 999))
def test_formatted(width: int, precision: int, text: str, number: int) -> None:
    named = {"a": number, "b": text}
    pattern = f"%%|%-{width}s|%+{width}d"
    assert formatted(pattern, (text, number), 10**6) >= len(pattern % (text, number))
    pattern = f"%(a)0{width}d|%(b){width}.{precision}s"
    assert formatted(pattern, named, 10**6) >= len(pattern % named)
    braces = f"{{0:>{width}}}{{1:0{width}d}}{{{{}}}}{{0!s:{width}.{precision}}}"
    assert formatted(braces, ((text, number), {}), 10**6) >= len(braces.format(text, number))


@given(st.text(max_size=10) | st.lists(st.none(), max_size=10), st.integers(0, 100))
def test_product(value: Any, times: int) -> None:
    assert product(value, times) == product(times, value) == len(value * times)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(0, 9999) | st.text(alphabet="ab", max_size=9),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet="ab"), inner),
        max_leaves=30,
    )
)
def test_weight_covers_the_text(value: Any) -> None:
    assert weigh(value, 10**9) >= len(str(value))


def test_weighing_stops_at_the_limit() -> None:
    value: list[Any] = []
    for _ in range(200):
        value = [value, value]
    assert 10_000 < weigh(value, 10_000) < 20_000
