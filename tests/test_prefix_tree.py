"""The prefix tree alone: what it finds is there, and nothing longer is."""

from hypothesis import given, strategies as st

from edgellm.block_pool import BlockPool
from edgellm.prefix_nodes import Hit, Node
from edgellm.prefix_tree import PrefixTree

SIZE = 4
Windows = tuple[int | None, ...]
# Zeros, perhaps with a one among them: most begin alike.
TOKENS = st.builds(
    lambda length, one: [int(place == one) for place in range(length)],
    st.integers(1, 9),
    st.integers(0, 15),
)
STORED = st.lists(TOKENS, min_size=1, max_size=8)
WINDOWS = st.sampled_from([(None,), (None, 3), (6,), (2, 5)])
LIMIT = st.integers(0, 9)


class Cache:
    """A tree and its pools, with room for all that a test stores."""

    def __init__(self, windows: Windows, with_states: bool = False) -> None:
        self.windows = windows
        self.pools = tuple(BlockPool(64) for _ in windows)
        self.states = BlockPool(64) if with_states else None
        self.tree = PrefixTree(self.pools, windows, SIZE, self.states)

    def store(self, ids: list[int]) -> None:
        """Leaves a prefix as a sequence does that has computed it and goes."""
        node = self.tree.root()
        for start in range(0, len(ids), SIZE):
            blocks = [pool.allocate(1) for pool in self.pools]
            child = self.tree.extend(node, ids[start : start + SIZE], [b for (b,) in blocks])
            for pool, block in zip(self.pools, blocks, strict=True):
                pool.free(block)
            if child is None:
                return
            node = child
        if self.states is not None:
            self.tree.keep_state(node, *self.states.allocate(1))

    def match(self, ids: list[int], limit: int) -> Hit:
        """A hit, after a look at whether all is there that is to go on from it."""
        hit = self.tree.match(ids, limit)
        assert len(hit.path) == -(-hit.num_tokens // SIZE)
        assert tokens(hit.path)[: hit.num_tokens] == ids[: hit.num_tokens]
        for group, window in enumerate(self.windows):
            first = 0 if window is None else max(0, hit.num_tokens + 1 - window)
            for position in range(first, hit.num_tokens):
                assert hit.path[position // SIZE].blocks[group] is not None
        return hit

    def check_integrity(self) -> None:
        self.tree.check_integrity([])
        for group, pool in enumerate(self.pools):
            pool.check_integrity([], self.tree.cached(group))


def tokens(path: list[Node]) -> list[int]:
    return [token for node in path for token in node.tokens]


def common(a: list[int], b: list[int]) -> int:
    return max(n for n in range(len(a) + 1) if a[:n] == b[:n])


def goes_on(end: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether another prefix goes on in the partial block that this one ends in."""
    return len(end) % SIZE > 0 and len(other) > len(end) and other[: len(end)] == end


@given(windows=WINDOWS, stored=STORED, ids=TOKENS, limit=LIMIT)
def test_the_longest_beginning_is_found(
    windows: Windows, stored: list[list[int]], ids: list[int], limit: int
) -> None:
    cache = Cache(windows)
    for one in stored:
        cache.store(one)
        cache.check_integrity()
    longest = max((common(ids, one) for one in stored), default=0)
    assert cache.match(ids, limit).num_tokens == min(longest, limit)
    ends = {tuple(one[: start + SIZE]) for one in stored for start in range(0, len(one), SIZE)}
    needed = [end for end in ends if not any(goes_on(end, other) for other in ends)]
    assert all(len(cache.tree.cached(group)) == len(needed) for group in range(len(windows)))


@given(
    windows=WINDOWS,
    stored=STORED,
    lost=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 99)), max_size=6),
    ids=TOKENS,
    limit=LIMIT,
)
def test_where_a_block_is_lost_a_shorter_beginning_may_do(
    windows: Windows,
    stored: list[list[int]],
    lost: list[tuple[int, int]],
    ids: list[int],
    limit: int,
) -> None:
    cache = Cache(windows)
    for one in stored:
        cache.store(one)
    for number, place in lost:
        group = number % len(windows)
        if blocks := cache.tree.cached(group):
            cache.tree.forget(group, blocks[place % len(blocks)])
            cache.check_integrity()
    found = cache.match(ids, limit).num_tokens
    assert found <= limit
    for whole in range(0, min(limit, len(ids)) + 1, SIZE):
        assert found >= cache.match(ids[:whole], whole).num_tokens
    cache.tree.clear()
    cache.check_integrity()
    assert not any(cache.tree.cached(group) for group in range(len(windows)))


@given(windows=WINDOWS, stored=STORED, ids=TOKENS, limit=LIMIT)
def test_a_recurrent_state_is_found_at_its_exact_end(
    windows: Windows, stored: list[list[int]], ids: list[int], limit: int
) -> None:
    cache = Cache(windows, with_states=True)
    for one in stored:
        cache.store(one)
        cache.check_integrity()
    ends = [len(one) for one in stored if one == ids[: len(one)] and len(one) <= limit]
    hit = cache.match(ids, limit)
    assert hit.num_tokens == max(ends, default=0)
    assert tokens(hit.path) == ids[: hit.num_tokens]
    slots = cache.tree.cached_states()
    assert len(slots) == len({tuple(one) for one in stored})
    for slot in slots:
        cache.tree.forget_state(slot)
    assert cache.match(ids, limit).num_tokens == 0
    assert cache.states is not None and cache.states.num_free == cache.states.num_blocks
