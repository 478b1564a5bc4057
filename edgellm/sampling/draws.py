"""Random numbers that depend on what is drawn for and on nothing else.

Philox4x32-10, a counter-based generator: the seed is the key and the place is the counter, so a
draw is the same whatever was drawn before it or beside it. Source: Salmon et al. 2011, "Parallel
random numbers: as easy as 1, 2, 3".
"""

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MASK = 0xFFFFFFFF

Counter = tuple[int, int, int, int]


def philox(counter: Counter, key: tuple[int, int]) -> Counter:
    """Four random 32-bit words for a 128-bit counter and a 64-bit key, low words first."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        a, b = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & _MASK, (a >> 32) ^ c3 ^ k1, a & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniform(seed: int, sample_index: int, position: int, purpose: int = 0) -> float:
    """A number in [0, 1) with 53 random bits for one token of one answer.

    seed: 0 to 2^64 - 1. position: of the token in the sequence, the prompt included. purpose:
    tells several draws for one token apart.
    """
    counter = (position, sample_index, purpose, 0)
    high, low, _, _ = philox(counter, (seed & _MASK, seed >> 32))
    return float((high >> 5) * 2**26 + (low >> 6)) / 2.0**53
