"""How often a model's answer under a random JSON Schema ends by itself, and that it is valid then.

    python benchmarks/schemas.py smollm2.gguf --count 1000 --log answers.jsonl

A schema is drawn from a seed; so is the answer. Answers that the log has are not asked for again.
Needs the package `jsonschema`, which judges the answers and knows nothing of how they came about.
"""

import argparse
import json
import random
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jsonschema

import edgellm

_WORDS = ("name", "age", "city", "tags", "price", "kind", "note", "date", "count", "items", "é")
_PATTERNS = (
    "^[A-Z]{2}[0-9]{3}$",
    "^(red|green|blue)$",
    "^[a-z]+(-[a-z]+){0,3}$",
    r"^\+?\d{3,12}$",
    r"^v\d+\.\d+$",
    "^#[0-9a-f]{6}$",
)
_SIDE_BY_SIDE = 8
_FORMATS = ("date", "time", "date-time", "duration", "ipv4", "ipv6", "uuid", "email", "hostname")


def schema(seed: int) -> dict[str, Any]:
    """An object of one to four properties, up to four levels deep, some with shared parts."""
    rng = random.Random(seed)
    made = _object(rng, 3)
    if rng.random() < 0.3:
        made["$defs"] = {"part": rng.choice((_value, _tree))(rng, 1)}
        made["properties"]["part"] = {"$ref": "#/$defs/part"}
        made["required"].append("part")
    return made


def _tree(rng: random.Random, depth: int) -> dict[str, Any]:
    """Contains itself."""
    inner = {"type": "array", "items": {"$ref": "#/$defs/part"}, "maxItems": 2}
    return {
        "type": "object",
        "properties": {"label": _string(rng, 0), "inner": inner},
        "required": ["label"],
        "additionalProperties": False,
    }


def _map(rng: random.Random, depth: int) -> dict[str, Any]:
    names = {"additionalProperties": _value(rng, depth - 1)}
    if rng.random() < 0.5:
        inner = _value(rng, depth - 1)
        names = {"patternProperties": {"^[a-z]{1,8}$": inner}, "additionalProperties": False}
    return {"type": "object", **names, "maxProperties": rng.randint(1, 3)}


def _tuple(rng: random.Random, depth: int) -> dict[str, Any]:
    parts = [_value(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}


def _both(rng: random.Random, depth: int) -> dict[str, Any]:
    """Two objects at once, of names of their own."""
    first, second = rng.sample(_WORDS, 2)
    parts = (
        {"type": "object", "properties": {name: _value(rng, depth - 1)}, "required": [name]}
        for name in (first, second)
    )
    return {"allOf": list(parts), "maxProperties": 2}


def _one(rng: random.Random, depth: int) -> dict[str, Any]:
    """One of two objects that a name tells apart."""
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": kind}, "value": _value(rng, depth - 1)},
                "required": ["kind", "value"],
                "additionalProperties": False,
            }
            for kind in ("first", "second")
        ]
    }


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(_WORDS, rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: _value(rng, depth) for name in names},
        "required": [name for name in names if rng.random() < 0.8],
        "additionalProperties": False,
    }


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    least = rng.randint(0, 2)
    return {
        "type": "array",
        "items": _value(rng, depth - 1),
        "minItems": least,
        "maxItems": least + rng.randint(0, 3),
    }


def _string(rng: random.Random, depth: int) -> dict[str, Any]:
    return {
        "type": "string",
        **rng.choice(
            (
                {},
                {"maxLength": rng.randint(1, 40)},
                {"minLength": 3, "maxLength": 12},
                {"pattern": rng.choice(_PATTERNS)},
                {"format": rng.choice(_FORMATS)},
                {"enum": rng.sample(_WORDS, 3)},
            )
        ),
    }


def _number(rng: random.Random, depth: int) -> dict[str, Any]:
    low = rng.randint(-100, 100)
    return {
        "type": rng.choice(("integer", "number")),
        **rng.choice(
            (
                {},
                {"minimum": low, "maximum": low + rng.randint(1, 1000)},
                {"exclusiveMinimum": low, "maximum": low + 50},
                {"minimum": 0, "maximum": 600, "multipleOf": rng.choice((2, 5))},
                {"exclusiveMinimum": 0, "exclusiveMaximum": 1.5},
                {"minimum": -0.25, "maximum": 1},
            )
        ),
    }


def _plain(rng: random.Random, depth: int) -> dict[str, Any]:
    return rng.choice(
        (
            {"type": "boolean"},
            {"type": "null"},
            {"const": rng.choice((1, "x", None, [1, 2], {"a": True}))},
            {"enum": [1, "two", None]},
        )
    )


def _either(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"anyOf": [_value(rng, depth - 1), _value(rng, depth - 1)]}


def _value(rng: random.Random, depth: int) -> dict[str, Any]:
    leaves = (_string, _string, _string, _number, _number, _plain)
    nested = (_object, _object, _array, _array, _either, _tuple, _map, _both, _one)
    return rng.choice(leaves + (nested if depth > 0 else ()))(rng, depth - 1)


@dataclass(frozen=True)
class Run:
    """One answer. is_valid: of this schema, asked of those that ended by themselves alone."""

    seed: int
    text: str
    finish_reason: str
    is_valid: bool
    tokens: int


def run(model: edgellm.Model, seed: int, **params: Any) -> Run:
    """One answer. params: of SamplingParams, beside the schema and the seed."""
    wanted = schema(seed)
    prompt = f"Answer with JSON of this schema:\n{json.dumps(wanted, ensure_ascii=False)}"
    params = {"json_schema": wanted, "seed": seed, **params}
    done = model.chat([{"role": "user", "content": prompt}], edgellm.SamplingParams(**params))
    valid = done.finish_reason == "stop" and _is_valid(done.text, wanted)
    return Run(seed, done.text, done.finish_reason, valid, len(done.token_ids))


def runs(model: edgellm.Model, seeds: Iterable[int], **params: Any) -> Iterator[Run]:
    """An answer for each seed, several computed side by side."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        yield from pool.map(lambda seed: run(model, seed, **params), seeds)


def _is_valid(text: str, wanted: dict[str, Any]) -> bool:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    try:
        jsonschema.Draft202012Validator(wanted, format_checker=checker).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="valid answers under random JSON Schemas")
    parser.add_argument("model")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--log", type=Path, help="a file of answers, which grows")
    args = parser.parse_args()
    params = {"max_tokens": args.max_tokens, "temperature": args.temperature}
    known = {} if args.log is None else _read(args.log)
    wanted = range(args.first, args.first + args.count)
    began = time.monotonic()
    with edgellm.load(args.model, max_num_seqs=_SIDE_BY_SIDE) as model:
        for one in runs(model, [seed for seed in wanted if seed not in known], **params):
            known[one.seed] = one
            if not one.is_valid:
                print(f"seed {one.seed}: {one.finish_reason}: {one.text[:200]!r}", flush=True)
            if args.log is not None:
                with args.log.open("a") as log:
                    log.write(f"{json.dumps(asdict(one))}\n")
    done = [known[seed] for seed in wanted]
    ended = [one for one in done if one.finish_reason == "stop"]
    print(
        f"{len(done)} answers, {len(ended)} ended by themselves, "
        f"{sum(one.is_valid for one in ended)} of these valid; "
        f"{sum(one.tokens for one in done)} tokens in {time.monotonic() - began:.0f} s"
    )


def _read(log: Path) -> dict[int, Run]:
    with suppress(FileNotFoundError):
        found = (Run(**json.loads(line)) for line in log.read_text().splitlines())
        return {one.seed: one for one in found}
    return {}


if __name__ == "__main__":
    main()
