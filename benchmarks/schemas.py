"""How often a model's answer under a random JSON Schema ends by itself, and that it is valid then.

    python benchmarks/schemas.py smollm2.gguf --count 1000

A schema is drawn from a seed; so is the answer. Needs the package `jsonschema`, which judges the
answers and knows nothing of how they came about.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jsonschema

import edgellm

_WORDS = ("name", "age", "city", "tags", "price", "kind", "note", "date", "count", "items", "é")
_PATTERNS = ("^[A-Z]{2}[0-9]{3}$", "^(red|green|blue)$", "^[a-z]+(-[a-z]+){0,3}$")
_SIDE_BY_SIDE = 8
_FORMATS = ("date", "time", "date-time", "ipv4", "uuid", "email")


def schema(seed: int) -> dict[str, Any]:
    """An object of one to four properties, up to three levels deep."""
    rng = random.Random(seed)
    made = _object(rng, 2)
    if rng.random() < 0.2:
        made["$defs"] = {"part": _value(rng, 0)}
        made["properties"]["part"] = {"$ref": "#/$defs/part"}
        made["required"].append("part")
    return made


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
    leaves = (_string, _string, _number, _plain)
    return rng.choice(leaves + ((_object, _array, _either) if depth > 0 else ()))(rng, depth - 1)


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


def runs(model: edgellm.Model, seeds: range, **params: Any) -> Iterator[Run]:
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
    args = parser.parse_args()
    params = {"max_tokens": args.max_tokens, "temperature": args.temperature}
    began, done = time.monotonic(), []
    with edgellm.load(args.model, max_num_seqs=_SIDE_BY_SIDE) as model:
        for one in runs(model, range(args.first, args.first + args.count), **params):
            done.append(one)
            if not one.is_valid:
                print(f"seed {one.seed}: {one.finish_reason}: {one.text[:200]!r}", flush=True)
    ended = [one for one in done if one.finish_reason == "stop"]
    print(
        f"{len(done)} answers, {len(ended)} ended by themselves, "
        f"{sum(one.is_valid for one in ended)} of these valid; "
        f"{sum(one.tokens for one in done)} tokens in {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
