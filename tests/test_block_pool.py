"""The block pool: every block is free or held, and never both."""

import pytest
from hypothesis import given, strategies as st

from edgellm.block_pool import BlockPool


def test_a_block_is_free_again_when_its_last_holder_leaves() -> None:
    pool = BlockPool(4)
    blocks = pool.allocate(3)
    pool.share(blocks[:1])
    pool.free(blocks)
    assert pool.num_free == 3
    pool.check_integrity([blocks[:1]])
    pool.free(blocks[:1])
    assert pool.num_free == 4
    pool.check_integrity([])


def test_the_block_freed_last_is_handed_out_first() -> None:
    pool = BlockPool(100)
    first, second = pool.allocate(2)
    pool.free([first])
    assert pool.allocate(1) == [first]
    assert second == first + 1  # a fresh pool is used from its beginning


@pytest.mark.parametrize(
    "misuse",
    [
        lambda pool: pool.allocate(5),
        lambda pool: pool.free([0]),
        lambda pool: pool.share([0]),
        lambda pool: pool.free(pool.allocate(1) * 2),
        lambda pool: pool.cache(0),
        lambda pool: [pool.cache(block) for block in pool.allocate(1) * 2],
        lambda pool: pool.uncache(*pool.allocate(1)),
    ],
)
def test_misuse_is_refused(misuse) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError):
        misuse(BlockPool(4))


def test_a_block_of_one_holder_is_shared_only_where_it_is_cached() -> None:
    pool = BlockPool(1)
    blocks = pool.allocate(1)
    assert not pool.is_shared(*blocks)
    pool.share(blocks)
    assert pool.is_shared(*blocks)
    pool.free(blocks)
    pool.cache(*blocks)
    assert pool.is_shared(*blocks)


@pytest.mark.parametrize("holders", [[], [[0], [0]], [[0, 1]]])
def test_integrity_notices_wrong_books(holders: list[list[int]]) -> None:
    pool = BlockPool(4)
    pool.allocate(1)
    with pytest.raises(RuntimeError):
        pool.check_integrity(holders)
    pool.check_integrity([[0]])


@given(st.lists(st.tuples(st.sampled_from(["take", "share", "drop"]), st.integers(0, 7))))
def test_books_stay_right(steps: list[tuple[str, int]]) -> None:
    pool = BlockPool(12)
    holders: list[list[int]] = []
    for action, number in steps:
        if action == "take" and number <= pool.num_free:
            holders.append(pool.allocate(number))
        elif holders and action == "share":
            blocks = holders[number % len(holders)]
            pool.share(blocks)
            holders.append(list(blocks))
        elif holders and action == "drop":
            pool.free(holders.pop(number % len(holders)))
        pool.check_integrity(holders)
        assert pool.num_free == 12 - len({b for blocks in holders for b in blocks})
