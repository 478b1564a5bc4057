"""How many blocks a model gets from the memory there is."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from edgellm.errors import BackendError, RequestError
from edgellm.kernels.kv import CACHE_TYPES
from edgellm.kernels.program import KVGroup, KVLayer, Program, StateLayer, Value
from edgellm.kv_cache import KVTypes, bytes_per_token
from edgellm.kv_plan import parse_kv_types, plan_blocks
from edgellm.limits import Limits

F16 = KVTypes(CACHE_TYPES["f16"], CACHE_TYPES["f16"])
MIB = 1 << 20


def program() -> Program:
    """Two layers that see everything and one with a window of 64; 2 heads of 32."""
    groups = (KVGroup(None, (0, 1)), KVGroup(64, (2,)))
    layers = tuple(KVLayer(group, 2, 32, 32) for group in (0, 0, 1))
    return Program((), {"logits": Value(0, 10, "outputs")}, groups, layers, 10)


def limits(context_length: int = 1024, max_num_seqs: int = 4) -> Limits:
    return Limits(context_length, max_num_seqs, 32, 40, 8, (None, 64))


def test_every_sequence_gets_a_whole_context_when_memory_is_plenty() -> None:
    # 1024 tokens are 32 blocks; a window of 64 and a step of 40 touch at most 5.
    assert plan_blocks(program(), limits(), F16, 1000 * MIB) == (4 * 32, 8 * 5)
    # Of a single sequence two contexts, or nothing would be found again after the next one.
    assert plan_blocks(program(), limits(1024, 1), F16, 1000 * MIB) == (2 * 32, 4 * 5)


def test_more_than_one_context_takes_half_of_the_memory_at_most() -> None:
    one = (32 * 2 + 5) * bytes_per_token(program(), F16, 1) * 32
    full, windowed = plan_blocks(program(), limits(), F16, 4 * one)
    assert 32 < full < 2 * 32 and 5 < windowed < 4 * 5
    assert full * 2 + windowed <= 2 * (32 * 2 + 5)
    assert plan_blocks(program(), limits(), F16, one) == (32, 5)


def test_the_cache_may_be_given_its_size() -> None:
    one = (32 * 2 + 5) * bytes_per_token(program(), F16, 1) * 32
    assert plan_blocks(program(), limits(), F16, 100 * one, wanted=one) == (32, 5)
    full, windowed = plan_blocks(program(), limits(), F16, 100 * one, wanted=50 * one)
    assert 49 * 69 <= full * 2 + windowed <= 50 * 69
    with pytest.raises(BackendError, match="1024 tokens needs"):
        plan_blocks(program(), limits(), F16, 100 * one, wanted=one - 1)


def test_a_context_that_does_not_fit_is_refused_with_numbers() -> None:
    with pytest.raises(BackendError, match=r"1024 tokens needs 0.00 GiB .* 0.00 GiB is left"):
        plan_blocks(program(), limits(), F16, 100)
    with pytest.raises(BackendError):
        plan_blocks(program(), limits(), F16, -5)


SIZES = st.integers(0, 64 * MIB)


@given(st.integers(1, 5000), st.integers(1, 8), SIZES, st.none() | SIZES)
def test_a_plan_keeps_to_its_memory(
    context: int, seqs: int, memory: int, wanted: int | None
) -> None:
    try:
        blocks = plan_blocks(program(), limits(context, seqs), F16, memory, wanted)
    except BackendError:
        return
    size = sum(n * 32 * bytes_per_token(program(), F16, g) for g, n in enumerate(blocks))
    assert size <= (memory if wanted is None else min(memory, wanted))
    for group, count in enumerate(blocks):
        assert count >= limits(context, seqs).blocks(group, context)


def test_types_of_keys_and_values() -> None:
    assert parse_kv_types("f16") == F16
    assert parse_kv_types("F16/f32") == KVTypes(CACHE_TYPES["f16"], CACHE_TYPES["f32"])
    assert parse_kv_types("q8_0/q4_0") == KVTypes(CACHE_TYPES["q8_0"], CACHE_TYPES["q4_0"])
    for text in ("", "q5_0", "f16/q6_k", "f16/f16/f16"):
        with pytest.raises(RequestError, match="expected one of f32, f16, q8_0, q4_0") as found:
            parse_kv_types(text)
        assert found.value.field == "kv_cache_type"


def test_states_of_all_sequences_are_taken_off_first() -> None:
    plain = program()
    recurrent = replace(plain, state_layers=(StateLayer(1024, 256),))  # 1 MiB a sequence
    for memory in (3 * MIB, 20 * MIB, 1000 * MIB):
        expected = plan_blocks(plain, limits(), F16, memory)
        assert plan_blocks(recurrent, limits(), F16, memory + 4 * MIB) == expected
    with pytest.raises(BackendError, match="GiB for keys and values"):
        plan_blocks(recurrent, limits(), F16, 4 * MIB)
