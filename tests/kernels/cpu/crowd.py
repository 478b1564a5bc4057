"""Teams of more threads than the machine has processors."""

from functools import partial

import pytest

from edgellm.kernels.cpu import limits, team
from edgellm.kernels.cpu.pace import Pace

MOST = 8


def allow_crowd(patch: pytest.MonkeyPatch) -> None:
    """Lets a team have up to MOST threads, and has all of them run, always."""
    patch.setattr(limits, "affinity_cpus", lambda: MOST)
    patch.setattr(limits, "quota_cpus", lambda: None)
    patch.setattr(team, "Pace", partial(Pace, waited=lambda: None))
