"""Stopping on request: the first signal is noted by all who listen, the second stops at once."""

import signal

import pytest

from brodmann.training.stopping import StopSignals


def test_a_second_signal_stops_at_once_also_inside_another() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with StopSignals() as outer:
        with StopSignals() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner.received == outer.received == signal.SIGINT
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):  # nor does the outer one take it up again
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_are_as_before() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as outer:
        with StopSignals():
            pass
        signal.raise_signal(signal.SIGINT)
        assert outer.received == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is before
