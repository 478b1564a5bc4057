"""Packing: index arrays say exactly which token, position and slot every row has."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from edgellm.errors import RequestError
from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import Draw, Draws
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import KVGroup, Program, StateLayer, Value
from edgellm.model_runner import ModelRunner
from edgellm.sequence import Chunk, LogitsRows, Sequence
from edgellm.types import SamplingParams

GROUPS, VOCAB = 2, 1000


class Recording:
    """An executable that keeps what it was given."""

    store = None
    can_draw = True

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.closed = False

    def run(self, batch: Batch) -> Mapping[str, npt.NDArray[np.float32]]:
        self.batches.append(batch)
        return {
            "logits": np.zeros((len(batch.logits_rows), VOCAB), np.float32),
            "other": np.zeros((1, 1), np.float32),
        }

    def draw(self, batch: Batch, draws: Draws) -> npt.NDArray[np.int64]:
        """What comes after is the length of the sequence."""
        tokens = batch.seq_lens[:, None] + np.arange(draws.steps, dtype=np.int64)
        if draws.steps > 1:
            batch.input_ids[:] = tokens[:, -2]
            batch.positions[:] += draws.steps - 1
            batch.slot_mapping[:] = -1  # of blocks that the runner looks up again
        return tokens

    def close(self) -> None:
        self.closed = True


class Copies:
    """A store of blocks that keeps what it was told to copy."""

    def __init__(self) -> None:
        self.copies: list[tuple[int | None, int, int]] = []

    def copy(self, group: int | None, source: int, target: int) -> None:
        self.copies.append((group, source, target))

    def block_bytes(self, group: int | None) -> int:
        raise NotImplementedError

    def read(self, group: int | None, block: int) -> bytes:
        raise NotImplementedError

    def write(self, group: int | None, block: int, data: bytes) -> None:
        raise NotImplementedError


def runner(executable: Recording | None = None) -> ModelRunner:
    groups = tuple(KVGroup(window, ()) for window in (None, 8))
    return ModelRunner(
        executable or Recording(),
        Program((), {"logits": Value(0, VOCAB)}, groups, (), VOCAB),
        Copies(),
    )


@st.composite
def chunks(draw: st.DrawFn) -> list[Chunk]:
    """One to five sequences somewhere in their life, no block owned twice within a group."""
    spans = draw(
        st.lists(st.tuples(st.integers(0, 100), st.integers(1, 70)), min_size=1, max_size=5)
    )
    free = [draw(st.permutations(range(60))) for _ in range(GROUPS)]
    result = []
    for done, count in spans:
        later = draw(st.integers(0, 3))
        ids = draw(
            st.lists(
                st.integers(0, VOCAB - 1),
                min_size=done + count + later,
                max_size=done + count + later,
            )
        )
        blocks = -(-(done + count) // BLOCK_SIZE) + draw(st.integers(0, 2))
        tables = [[free[g].pop() for _ in range(blocks)] for g in range(GROUPS)]
        logits: LogitsRows = draw(st.sampled_from(["none", "last", "all"]))
        sequence = Sequence(ids, len(ids), SamplingParams(), block_tables=tables)
        sequence.num_computed_tokens = done
        result.append(Chunk(sequence, count, logits))
    return result


@given(chunks())
def test_rows_say_token_position_and_slot(work: list[Chunk]) -> None:
    batch = runner().pack(work)
    assert batch.num_seqs == len(work)
    assert batch.query_start[0] == 0 and batch.query_start[-1] == batch.num_tokens
    wanted: list[int] = []
    for s, (chunk, (first, last)) in enumerate(
        zip(work, pairwise(batch.query_start.tolist()), strict=True)
    ):
        sequence, done = chunk.sequence, chunk.sequence.num_computed_tokens
        assert last - first == chunk.count
        assert batch.seq_lens[s] == done + chunk.count
        for row, position in zip(range(first, last), range(done, done + chunk.count), strict=True):
            assert batch.input_ids[row] == sequence.token_ids[position]
            assert batch.positions[row] == position
            for g in range(GROUPS):
                block = sequence.block_tables[g][position // BLOCK_SIZE]
                assert batch.slot_mapping[g, row] == block * BLOCK_SIZE + position % BLOCK_SIZE
                assert batch.block_tables[g, s, position // BLOCK_SIZE] == block
        wanted += {"none": [], "last": [last - 1], "all": range(first, last)}[chunk.logits]
    assert batch.logits_rows.tolist() == wanted
    for g in range(GROUPS):
        assert len(set(batch.slot_mapping[g].tolist())) == batch.num_tokens


@given(chunks())
def test_types_and_shapes_are_those_of_batch(work: list[Chunk]) -> None:
    batch = runner().pack(work)
    longest = max(c.sequence.num_computed_tokens + c.count for c in work)
    assert batch.block_tables.shape == (GROUPS, len(work), -(-longest // BLOCK_SIZE))
    assert batch.slot_mapping.shape == (GROUPS, batch.num_tokens)
    arrays = {name: values for name, values in vars(batch).items() if np.ndim(values)}
    assert len(arrays) == len(vars(batch)) - 4  # adapter_starts, outputs, num_best, keeps_outputs
    for name, values in arrays.items():
        expected = {"slot_mapping": np.int64, "adapter_scales": np.float32}.get(name, np.int32)
        assert values.dtype == expected and values.flags.c_contiguous, name


def sequence(ids: list[int], table: list[int]) -> Sequence:
    return Sequence(ids, len(ids), SamplingParams(), block_tables=[table, table])


@pytest.mark.parametrize(
    ("wanted", "number"), [((1, 40), 40), ((1, None), None), ((None, 3), None), ((2, 2), 2)]
)
def test_as_many_logits_matter_as_to_one_of_them(
    wanted: tuple[int | None, int | None], number: int | None
) -> None:
    work = [Chunk(sequence([1, 2], [i]), 2, "last") for i in (0, 1)]
    idle = Chunk(sequence([1, 2], [2]), 2, "none")
    for chunk, most in zip(work, wanted, strict=True):
        chunk.sequence.num_best = most
    assert runner().pack([*work, idle]).num_best == number


@pytest.mark.parametrize("token_id", [-1, VOCAB, 2**40])
def test_a_token_the_model_does_not_have_is_a_request_error(token_id: int) -> None:
    with pytest.raises(RequestError, match=f"{token_id} is outside the vocabulary of {VOCAB}"):
        runner().pack([Chunk(sequence([0, token_id, 1], [0]), 3, "last")])


@pytest.mark.parametrize("count", [0, 4])
def test_a_chunk_must_have_its_tokens(count: int) -> None:
    with pytest.raises(ValueError, match=f"a chunk of {count} tokens"):
        runner().pack([Chunk(sequence([1, 2, 3], [0]), count, "last")])


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_chunk_must_have_its_blocks(blocks: int) -> None:
    ids = [1] * (2 * BLOCK_SIZE + 1)
    with pytest.raises(ValueError, match=f"3 blocks.*{blocks}"):
        runner().pack([Chunk(sequence(ids, list(range(blocks))), len(ids), "last")])


def test_run_gives_the_logits_and_close_closes() -> None:
    executable = Recording()
    model = runner(executable)
    assert model.num_groups == GROUPS
    batch = model.pack([Chunk(sequence([1, 2, 3], [0]), 3, "all")])
    assert model.run(batch)["logits"].shape == (3, VOCAB)
    assert executable.batches == [batch]
    model.close()
    assert executable.closed


def test_each_sequence_takes_its_own_of_the_adapters() -> None:
    groups = (KVGroup(None, ()),) * GROUPS
    program = Program((), {"logits": Value(0, VOCAB)}, groups, (), VOCAB, num_adapters=2)
    work = [Chunk(sequence([1, 2], [block]), 2, "last") for block in range(3)]
    for chunk, scales in zip(work, ((), (0.5,), (0.0, -1.0)), strict=True):
        chunk.sequence.adapter_scales = scales
    batch = ModelRunner(Recording(), program, Copies()).pack(work)
    assert batch.adapter_scales.tolist() == [[0, 0], [0.5, 0], [0, -1]]
    assert batch.adapter_starts is None and batch.row_scales()[3].tolist() == [0.5, 0]
    work[2].sequence.adapter_starts = (0, 1)
    batch = ModelRunner(Recording(), program, Copies()).pack(work)
    assert batch.row_scales()[2:].tolist() == [[0.5, 0], [0.5, 0], [0, 0], [0, -1]]


def test_sequences_of_a_step_must_have_state_slots_of_their_own() -> None:
    groups = tuple(KVGroup(window, ()) for window in (None, 8))
    states = (StateLayer(1, 16),)
    program = Program((), {"logits": Value(0, VOCAB)}, groups, (), VOCAB, states)
    model = ModelRunner(Recording(), program, Copies())
    work = [Chunk(sequence([1, 2], [block]), 2, "last") for block in (0, 1)]
    for slots, fine in (((3, 1), True), ((3, 3), False), ((None, 1), False)):
        for chunk, slot in zip(work, slots, strict=True):
            chunk.sequence.state_slot = slot
        if fine:
            assert model.pack(work).state_slots.tolist() == list(slots)
        else:
            with pytest.raises(ValueError, match="state slots"):
                model.pack(work)


@given(
    chunks(),
    st.lists(st.sampled_from(["go on", "draw", "grow", "block", "other", "wait"]), max_size=6),
)
def test_a_batch_that_goes_on_is_one_made_anew(work: list[Chunk], happens: list[str]) -> None:
    """Whatever happens between steps of decoding."""
    for chunk in work:
        del chunk.sequence.token_ids[chunk.sequence.num_computed_tokens + 1 :]
    sequences = [chunk.sequence for chunk in work]
    model = runner()
    for event in ["go on", *happens, "go on", "go on"]:
        if event == "grow":
            for number, group in enumerate(sequences[0].block_tables):
                group += [100 * number + 70, 100 * number + 71]
        elif event == "block":
            sequences[0].block_tables[1] = [b + 100 for b in sequences[0].block_tables[1]]
        elif event == "other":
            sequences.reverse()
        running = sequences[1:] if event == "wait" and len(sequences) > 1 else sequences
        decodes = [Chunk(sequence, 1, "last", is_decode=True) for sequence in running]
        if any(len(s.block_tables[0]) * BLOCK_SIZE <= s.num_computed_tokens for s in running):
            return
        got, want = model.pack(decodes), runner().pack(decodes)
        for name, values in vars(want).items():
            if name != "block_tables":
                assert np.array_equal(getattr(got, name), values), name
        for place, length in enumerate(want.seq_lens.tolist()):
            used = -(-length // BLOCK_SIZE)  # what lies behind is not read
            tables = (batch.block_tables[:, place, :used] for batch in (got, want))
            assert np.array_equal(*tables)
        room = min(len(s.block_tables[0]) * BLOCK_SIZE - s.num_computed_tokens for s in running)
        steps = min(3, room) if event == "draw" else 1
        drawn = model.draw(got, Draws((Draw(),) * len(running), steps))
        for sequence, tokens in zip(running, drawn, strict=True):
            sequence.num_computed_tokens += steps
            sequence.token_ids += [token % VOCAB for token in tokens]


def test_between_blocks_nothing_is_made_anew() -> None:
    model = runner()
    decoding = sequence([1] * (BLOCK_SIZE + 1), [3, 4])
    batches = []
    for position in range(BLOCK_SIZE, 2 * BLOCK_SIZE):
        decoding.num_computed_tokens = position
        batches.append(model.pack([Chunk(decoding, 1, "last", is_decode=True)]))
        decoding.token_ids.append(position)
    assert all(batch is batches[0] for batch in batches)
    decoding.token_ids[-1] = VOCAB
    decoding.num_computed_tokens = len(decoding.token_ids) - 1
    decoding.block_tables = [[3, 4, 5]] * 2
    with pytest.raises(RequestError, match="outside the vocabulary"):
        model.pack([Chunk(decoding, 1, "last", is_decode=True)])
