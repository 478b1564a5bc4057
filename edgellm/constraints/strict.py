"""What llguidance would hold loosely or not at all, made strict or refused.

Changes schemas in place so that all that still matches is valid. Knows nothing of tokens, nor of
which keywords exist.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from edgellm.errors import RequestError

# Forms held more exactly: no 29 February but in leap years, no 60th second, few digits of a second.
_MONTHS = (
    "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8])"
)
_LEAP_YEARS = "[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00"
_DATE = f"(?:[0-9]{{4}}-(?:{_MONTHS})|(?:{_LEAP_YEARS})-02-29)"
_TIME = (
    r"(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:\.[0-9]{1,9})?"
    "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_FORMATS = {"date": f"^{_DATE}$", "time": f"^{_TIME}$", "date-time": f"^{_DATE}[tT]{_TIME}$"}

# Lower and upper bounds: the keyword, the one that leaves the bound itself out, the direction in.
_SIDES = (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1))
_EXACT = 2**53  # whole numbers up to here are floats
_LIMITS = (2**63 - 1, -(2**63))  # these are held exactly too
_INSIDE = 1e-6  # how far inside a bound that is left out the others begin
_MOST_INSIDE = 2**30  # bounds that this is large enough for

_MOST_MULTIPLE = 10**6  # of multipleOf, without its decimal point
_MOST_COMMON = (
    2**16 - 1
)  # least common multiple of those that may meet; its square must fit 32 bits
_COMBINING = ("allOf", "anyOf", "oneOf", "$ref", "multipleOf")

Schemas = Iterable[tuple[str, dict[str, Any]]]  # places in the whole, and what stands there


def make_strict(schemas: Schemas) -> None:
    """Changes all schemas of one document. RequestError naming what cannot be held."""
    schemas = list(schemas)
    for where, schema in schemas:
        _check_bounds(where, schema)
        _check_min_properties(where, schema)
        _hold_format(schema)
    _hold_exclusive_bounds([schema for _, schema in schemas])
    _check_multiples(schemas)


def _refused(where: str, what: str) -> RequestError:
    return RequestError(f"json_schema: {what} at {where or '/'} is not supported", "json_schema")


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _check_bounds(where: str, schema: Mapping[str, Any]) -> None:
    """Bounds are made floats: whole numbers that are none would be others."""
    for plain, exclusive, _ in _SIDES:
        for key in (plain, exclusive):
            value = _number(schema.get(key))
            is_limit = key == plain and value in _LIMITS
            if value is not None and abs(value) > _EXACT and not is_limit:
                raise _refused(where, f"{key} {value}, beyond 2^53,")


def _check_min_properties(where: str, schema: Mapping[str, Any]) -> None:
    """Names that are not listed may come twice, and count once."""
    least, required = _number(schema.get("minProperties")), schema.get("required")
    sure = len(set(map(str, required))) if isinstance(required, list) else 0
    if least is not None and least > sure + 1:
        raise _refused(where, f"minProperties {least} with {sure} required names")


def _hold_format(schema: dict[str, Any]) -> None:
    form, others = schema.get("format"), schema.get("allOf", [])
    if isinstance(form, str) and form in _FORMATS and isinstance(others, list):
        schema["allOf"] = [*others, {"pattern": _FORMATS[form]}]


def _hold_exclusive_bounds(schemas: list[dict[str, Any]]) -> None:
    """Moves a whole bound that is left out inwards, where another lies within one of it.

    llguidance would let the bound itself in. Which bounds meet is not looked into.
    """
    for (plain, exclusive, sign), (other, other_exclusive, _) in (_SIDES, _SIDES[::-1]):
        bounds = [_number(s.get(key)) for s in schemas for key in (other, other_exclusive)]
        ends = sorted(sign * bound for bound in bounds if bound is not None)
        for schema in schemas:
            is_flag = schema.get(exclusive) is True  # draft 4
            bound = _number(schema.get(plain if is_flag else exclusive))
            if bound is None or not 0 <= sign * bound < _MOST_INSIDE or bound % 1:
                continue
            after = bisect_right(ends, sign * bound)
            if after < len(ends) and ends[after] < sign * bound + 1:
                inside = sign * (sign * bound + _INSIDE)
                if not is_flag:
                    first = _number(schema.get(plain))
                    inside = inside if first is None else sign * max(sign * first, sign * inside)
                schema[plain] = inside


def _check_multiples(schemas: list[tuple[str, dict[str, Any]]]) -> None:
    """llguidance reckons in 32 bits, and says nothing when they are too few."""
    found = [(w, value) for w, s in schemas if (value := _number(s.get("multipleOf"))) is not None]
    multiples = [Fraction(Decimal(str(value))) for _, value in found]
    for (where, value), multiple in zip(found, multiples, strict=True):
        if not 0 < multiple * _decimals(multiple) <= _MOST_MULTIPLE >= _decimals(multiple):
            raise _refused(where, f"multipleOf {value}")
    if len(found) < 2 or not any(_combines(s) for _, s in schemas):
        return
    scale, common = max(map(_decimals, multiples)), 1
    for (where, value), multiple in zip(found, multiples, strict=True):
        common = math.lcm(common, int(multiple * scale))
        if common > _MOST_COMMON:
            raise _refused(where, f"multipleOf {value} beside others")


def _decimals(value: Fraction) -> int:
    """The power of ten that makes it whole."""
    return int(next(10**n for n in range(400) if (value * 10**n).denominator == 1))


def _combines(schema: Mapping[str, Any]) -> bool:
    """Whether more than one schema holds for the same value."""
    parts = [schema[key] for key in _COMBINING if key in schema]
    return len(parts) > 1 or any(isinstance(part, list) and len(part) > 1 for part in parts)
