"""Signals by name."""

import signal

import pytest

from edgellm.signals import signal_name


def test_a_name() -> None:
    assert signal_name(signal.SIGTERM) == "SIGTERM"


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="real-time signals are Unix's")
def test_most_real_time_signals_have_none() -> None:
    number = signal.SIGRTMIN + 1
    assert signal_name(number) == f"signal {number:d}"
