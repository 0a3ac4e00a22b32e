"""Packetdrill scripts, captures, what-if questions, tc commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackwright import _native

if TYPE_CHECKING:
    from collections.abc import Iterable

    Paths = str | PathLike[str] | Iterable[str | PathLike[str]]


@dataclass(frozen=True)
class Drilled:
    """What came of packetdrill scripts."""

    passed: int
    failed: int
    skipped: int
    scripts: list[dict[str, Any]] = field(repr=False)
    """Of each: path, ip_version, result, reason, line."""
    text: str = field(repr=False)
    """Failures in full, with the packets around them."""

    def __bool__(self) -> bool:
        return self.failed == 0


def drill(
    script: Paths,
    *,
    ip_version: str | Iterable[str] = (),
    define: dict[str, str] | None = None,
    jobs: int = 0,
    **flags: str | int | bool,
) -> Drilled:
    """Runs packetdrill scripts against the stack, in virtual time (docs/drill.md).

    Args:
        script: the text of a script (several lines), or files, or folders with scripts below them.
        ip_version: ``"ipv4"``, ``"ipv6"``, ``"ipv4-mapped-ipv6"``, several, or ``"all"``.
        define: words of scripts that are replaced.
        jobs: scripts at a time, 1024 at most; 0: one per processor.
        flags: packetdrill's own, as ``tolerance_usecs=14000``.

    >>> done = drill('''
    ... 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
    ... +0 bind(3, ..., ...) = 0
    ... +0 listen(3, 1) = 0
    ... +0 < S 0:0(0) win 1000 <mss 1000>
    ... +0 > S. 0:0(0) ack 1 <mss 1460>
    ... ''')
    >>> done.passed, bool(done)
    (1, True)
    """
    versions = [ip_version] if isinstance(ip_version, str) else list(ip_version)
    if versions == ["all"]:
        versions = ["ipv4", "ipv6", "ipv4-mapped-ipv6"]
    words: list[tuple[str, str | None]] = [
        (name, None if value is True else str(value))
        for name, value in flags.items()
        if value is not False
    ]
    words += [("define", f"{name}={value}") for name, value in (define or {}).items()]
    text = script if isinstance(script, str) and "\n" in script else None
    if not 0 <= jobs <= 1024:
        raise ValueError("jobs must be 0 to 1024")
    answer, shown = _native.drill([] if text else _paths(script), text, versions, words, jobs)
    return Drilled(**answer, text=shown)


def _paths(script: Paths) -> list[str]:
    if isinstance(script, str | PathLike):
        return [fspath(script)]
    return [fspath(path) for path in script]


@dataclass(frozen=True)
class Replayed:
    """What a qdisc made of a capture."""

    report: dict[str, Any] = field(repr=False)
    """What ``ackwright replay --json`` prints: ``total``, ``flows``, ``intervals``, ``tc``, …"""
    tc: str = field(repr=False)
    """What ``tc -s qdisc show`` says at the end."""

    @property
    def total(self) -> dict[str, Any]:
        """Packets, bytes, drops and delays of all flows together."""
        total: dict[str, Any] = self.report["total"]
        return total


def replay(
    capture: str | PathLike[str],
    qdisc: str | Iterable[str],
    *,
    rate: str | None = None,
    from_: str | None = None,
    to: str | None = None,
    interface: str | None = None,
    seed: int = 1,
    partial: bool = False,
    out: str | PathLike[str] | None = None,
) -> Replayed:
    """Puts a capture (pcap, pcapng) through a qdisc at its own time stamps (docs/captures.md).

    Args:
        capture: the file.
        qdisc: the words after ``tc qdisc add dev DEV root``; several make a tree.
        rate: of the line behind it, ``"1mbit"``; without one the line takes no time.
        from_: only packets from this address or prefix.
        to: only packets to this address or prefix.
        interface: only packets of this interface (pcapng).
        seed: of hashes and random draws.
        partial: take a capture that breaks off within a packet as ending before it.
        out: write what leaves, when it leaves, as pcapng.

    >>> replay("no.pcap", "fq_codle")
    Traceback (most recent call last):
      ...
    ackwright.errors.ExperimentError: qdisc:1:1: ...
    """
    qdiscs = [qdisc] if isinstance(qdisc, str) else list(qdisc)
    written = None if out is None else fspath(out)
    report, text = _native.replay(
        fspath(capture), qdiscs, rate, from_, to, interface, seed, partial, written
    )
    return Replayed(report, text)


def ecmp(
    flows: str | PathLike[str],
    routes: str | PathLike[str],
    *,
    fail: str | Iterable[str] = (),
    policy: str | int | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """The load of each next hop, and what moves when one fails (docs/multipath.md).

    Args:
        flows: a capture, or a CSV of lines ``src,dst,protocol,sport,dport,bytes``.
        routes: lines of ``ip`` as text (several lines), or a file of them.
        fail: devices or gateways that fail; by default each in turn.
        policy: ``l3``, ``l4``, ``inner``, ``custom`` or the kernel's number, in place of the file's.
        seed: ``fib_multipath_hash_seed``, in place of the file's.

    Returns:
        ``flows``, ``bytes``, ``skipped``, ``load`` and ``failures``.
    """
    if isinstance(routes, str) and "\n" in routes:
        name, text = "<text>", routes
    else:
        name = fspath(routes)
        text = Path(name).read_text(encoding="utf-8")
    failing = [fail] if isinstance(fail, str) else list(fail)
    word = None if policy is None else str(policy)
    return _native.ecmp(fspath(flows), text, name, failing, word, seed)


@dataclass(frozen=True)
class TcState:
    """What ``tc`` shows of qdiscs."""

    text: str
    """``tc -s qdisc show``."""
    qdiscs: list[dict[str, Any]] = field(repr=False)
    """``tc -s -j qdisc show``."""

    def __str__(self) -> str:
        return self.text


def tc(*commands: str) -> TcState:
    """Carries out ``tc qdisc`` and ``tc filter`` commands one after the other, on no packets.

    >>> tc("qdisc add dev eth0 root cake bandwidth 20mbit").qdiscs[0]["kind"]
    'cake'
    >>> tc("qdisc add dev eth0 root tbf rate 1mbit")
    Traceback (most recent call last):
      ...
    ackwright.errors.ExperimentError: tc:1:...
    """
    if not commands:
        raise ValueError("no command")
    answer, text = _native.tc(list(commands))
    return TcState(text, answer)
