"""Congestion controls of one's own, as Python classes: for teaching, and for trying out.

A class is made known to an experiment under a name, which its file then uses like that of a built-in one:

>>> from ackwright import CongestionControl, Experiment
>>> class Gentle(CongestionControl):
...     \"\"\"AIMD with other numbers than Reno's.\"\"\"
...
...     def on_ack(self, window, ack, acked):
...         if window.is_cwnd_limited:
...             left = window.slow_start(acked) if window.in_slow_start else acked
...             if left:
...                 window.additive_increase(max(window.cwnd // 2, 1), left)
...
...     def on_loss(self, window, ack):
...         return max(window.cwnd - window.cwnd // 8, 2)
>>> experiment = Experiment.from_dict({
...     "schema": 1, "name": "own", "duration": "5s", "nodes": {"a": {}, "b": {}},
...     "links": {"line": {"ends": ["a", "b"], "rate": "10mbit", "rtt": "20ms"}},
...     "flows": {"f": {"app": "bulk", "from": "a", "to": "b", "congestion_control": "gentle"}},
... })
>>> experiment.congestion_control("gentle", Gentle)
>>> experiment.run().value("f goodput") > 8
True

An exception in a method ends the run, and is what ``run`` raises. Python is slow (docs/python.md says how
slow): what is to be run often belongs into Rust (``lab::Registry``).
"""

from __future__ import annotations

import inspect
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwright._native import Ack, Sample, Window


class CongestionControl:
    """What TCP asks and tells: override ``on_loss``, and ``on_ack`` or ``on_sample``.

    Each connection has an object of its own, made without arguments when the first method is called.
    ``window`` and ``ack`` are lent for the call. Methods that are not overridden cost nothing. The laws
    are the kernel's: the window is never 0, a threshold is at least 2.
    """

    needs_ecn: bool = False
    """Packets carry ECT even where ``tcp_ecn`` does not ask for it."""

    def on_start(self, window: Window, ack: Ack) -> None:
        """The connection is established (the kernel's ``init``)."""

    def on_ack(self, window: Window, ack: Ack, acked: int) -> None:
        """``acked`` segments more are delivered: the window may grow (``cong_avoid``).

        Not called while TCP reduces the window.
        """

    def on_loss(self, window: Window, ack: Ack) -> int:
        """A loss or an ECN echo: the new threshold in segments (``ssthresh``).

        TCP reduces the window to it; changes of ``window`` are not looked at.
        """
        raise NotImplementedError

    def on_undo(self, window: Window, ack: Ack) -> int:
        """The reduction was wrong: the window to return to (``undo_cwnd``), by default the one before."""
        return max(window.cwnd, window.prior_cwnd)

    def on_rtt(self, window: Window, ack: Ack, rtt_us: int) -> None:
        """A round trip was measured (``pkts_acked``)."""

    def on_sample(self, window: Window, ack: Ack, sample: Sample) -> None:
        """An ACK has come, in any state (``cong_control``).

        A class that has it sets ``window.cwnd`` and ``window.pacing_rate`` by itself, with every ACK:
        ``on_ack`` is not called then, and TCP does not reduce the window.
        """

    def on_event(self, window: Window, ack: Ack, event: str) -> None:
        """``"tx_start"``, ``"cwnd_restart"``, ``"complete_cwr"`` or ``"loss"``, a timeout
        (``cwnd_event``)."""


def version_of(module: type[CongestionControl]) -> str:
    """A number for the source of a class, and of those that it derives from.

    >>> version_of(CongestionControl) == version_of(CongestionControl)
    True
    """
    parts = []
    for base in module.__mro__:
        if base in (CongestionControl, object):
            continue
        try:
            parts.append(inspect.getsource(base))
        except (OSError, TypeError):
            # Typed into a shell: what it was compiled to.
            functions = ((name, getattr(it, "__code__", None)) for name, it in vars(base).items())
            parts += [f"{name} {code.co_code.hex()} {code.co_names}" for name, code in functions if code]
    return sha256("\n".join(parts).encode()).hexdigest()[:16]
