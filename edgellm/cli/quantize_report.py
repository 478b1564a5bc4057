"""What `edgellm quantize` says of a plan, as a table, in short, or as JSON."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from edgellm.cli.output import byte_size, print_fields, print_table
from edgellm.quantize.plan import Plan


def _parameters(plan: Plan) -> int:
    return sum(planned.tensor.num_elements for planned in plan.tensors)


def report(plan: Plan, size: int | None, errors: Mapping[str, float]) -> dict[str, Any]:
    return {
        "type": plan.name,
        "bytes": plan.nbytes,
        "bits_per_weight": 8 * plan.nbytes / _parameters(plan),
        "file_size": size,
        "tensors": [
            {
                "name": planned.tensor.name,
                "shape": planned.tensor.shape,
                "from": planned.tensor.type_name,
                "type": planned.type,
                "bytes": planned.nbytes,
                "fallback_of": planned.fallback_of,
                "error": errors.get(planned.tensor.name),
            }
            for planned in plan.tensors
        ],
    }


def print_plan(plan: Plan, errors: Mapping[str, float]) -> None:
    print_table(
        ("TENSOR", "SHAPE", "FROM", "TYPE", "BYTES", *(("ERROR",) if errors else ())),
        [
            (
                planned.tensor.name,
                " x ".join(map(str, planned.tensor.shape)),
                planned.tensor.type_name,
                planned.type + (f" (for {planned.fallback_of})" if planned.fallback_of else ""),
                f"{planned.nbytes:,}",
                *((_error(errors.get(planned.tensor.name)),) if errors else ()),
            )
            for planned in plan.tensors
        ],
    )
    before = sum(planned.tensor.nbytes for planned in plan.tensors)
    print()
    print_fields([("before", byte_size(before)), ("after", _size(plan))])


def _error(share: float | None) -> str:
    return "" if share is None else f"{share:.3%}"


def print_result(plan: Plan, path: str, size: int | None) -> None:
    used = Counter(planned.type for planned in plan.tensors)
    types = ", ".join(f"{count} {name}" for name, count in used.most_common())
    print_fields([("file", path), ("size", byte_size(size)), ("weights", _size(plan))])
    print_fields([("tensors", types)])


def _size(plan: Plan) -> str:
    bits = 8 * plan.nbytes / max(1, _parameters(plan))
    return f"{byte_size(plan.nbytes)} ({bits:.2f} bits per weight)"
