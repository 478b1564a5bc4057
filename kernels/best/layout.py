"""Sizes that the kernel and its caller agree on. Plain numbers, needed with and without Numba."""

MOST = 128  # logits that are sought at once
GROUP = 64  # logits that are looked at one by one only if the best of them may be wanted
