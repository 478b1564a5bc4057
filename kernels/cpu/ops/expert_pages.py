"""Words to the system about experts that may lie on disk: soon needed, not needed any more."""

import numpy as np

from edgellm.kernels.cpu.atomics import call_advise
from edgellm.kernels.cpu.layout import NUM_TOKENS
from edgellm.kernels.cpu.ops.common import f32, split


def make_fetch_experts():
    def fetch_experts(args, step, thread, threads):
        """args: routing, routing stride, top_k, weight, bytes of an expert, bytes of a page, the
        address of madvise, its word for soon needed.
        """
        begin, end = split(step[NUM_TOKENS] * args[2], thread, threads)
        for item in range(begin, end):
            row = args[0] + 4 * (item // args[2] * args[1])
            start = args[3] + np.int64(f32(row, item % args[2])) * args[4]
            first = start // args[5] * args[5]
            call_advise(args[6], first, start + args[4] - first, args[7])

    return fetch_experts


def make_leave_experts():
    def leave_experts(args, step, thread, threads):
        """args: top_k, experts, weight, its bytes, bytes of a page, the address of madvise, its
        word for not needed.
        """
        if thread == 0 and step[NUM_TOKENS] * args[0] >= args[1]:
            first = (args[2] + args[4] - 1) // args[4] * args[4]
            end = (args[2] + args[3]) // args[4] * args[4]
            call_advise(args[5], first, max(0, end - first), args[6])

    return leave_experts


KERNELS = {"fetch_experts": make_fetch_experts, "leave_experts": make_leave_experts}
