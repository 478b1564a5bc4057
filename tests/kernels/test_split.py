"""A program may be cut anywhere: no value is missing on either side."""

import pytest

from edgellm.kernels.split import cached_layers, split
from tests.kernels.cpu.programs import decoder

PROGRAM = decoder(2)


@pytest.mark.parametrize("at", range(1, len(PROGRAM.calls)))
def test_every_value_is_made_once_and_crosses_where_it_must(at: int) -> None:
    first, second = split(PROGRAM, at)
    assert first.outputs == second.inputs
    assert first.calls == PROGRAM.calls[:at]
    assert cached_layers(first) | cached_layers(second) == cached_layers(PROGRAM) == {0, 1}
    made = set(second.inputs.values())
    for call in second.calls:
        assert made.issuperset(call.inputs)
        made.add(call.output)
    assert made.issuperset(PROGRAM.outputs.values())


def test_a_table_that_all_layers_read_does_not_cross() -> None:
    """Only the row of each token crosses between layers: what is added to."""
    add = [i for i, call in enumerate(PROGRAM.calls) if call.op == "add"][1]
    first, second = split(PROGRAM, add + 1)
    (crossing,) = second.inputs.values()
    assert crossing == PROGRAM.calls[add].output
    assert second.calls[0].op == "rope_table"
    assert list(first.outputs) == [f"value {crossing.index}"]


def test_the_parts_use_their_own_layers_alone() -> None:
    starts = [i for i, call in enumerate(PROGRAM.calls) if call.op == "store_kv"]
    first, second = split(PROGRAM, starts[1])
    assert (cached_layers(first), cached_layers(second)) == ({0}, {1})
