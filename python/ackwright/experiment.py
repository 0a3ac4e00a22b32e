"""Experiments: read, edited, swept, run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fsdecode
from typing import Any, Self

from ackwright import _native, errors, executors, progress as bars
from ackwright.congestion import CongestionControl, version_of
from ackwright.errors import ExperimentError
from ackwright.executors import Executor
from ackwright.results import Results

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]
"""A value of an experiment."""


class Experiment:
    """An experiment: nodes, links, flows, what is swept and what is measured.

    Its words are those of experiment files (docs/experiments.md). A value is read and replaced by its
    dotted path; a parameter by its name:

    >>> experiment = Experiment.from_dict({
    ...     "schema": 1, "name": "line", "duration": "2s",
    ...     "nodes": {"server": {}, "client": {}},
    ...     "links": {"line": {"ends": ["server", "client"], "rate": "10mbit", "rtt": "20ms"}},
    ...     "flows": {"download": {"app": "bulk", "from": "server", "to": "client"}},
    ... })
    >>> experiment["links.line.rate"]
    '10mbit'
    >>> experiment["links.line.rate"] = "20mbit"
    >>> experiment["qdisc"] = {"server.line": "fq_codel"}
    >>> experiment.run().value("download goodput") > 10
    True
    """

    def __init__(self, draft: _native.Draft) -> None:
        self._draft = draft
        self._classes: dict[str, tuple[type[CongestionControl], str]] = {}

    @classmethod
    def from_toml(cls, source: str | PathLike[str]) -> Self:
        """Reads a file, or the text of one.

        A ``str`` of several lines, or with an ``=`` in it, is a text; every other is the path of a file.

        >>> Experiment.from_toml('name = "x"\\nduration = "1s"')["name"]
        'x'
        """
        if isinstance(source, str) and ("\n" in source or "=" in source):
            return cls(_native.Draft.parse("<text>", source))
        return cls(_native.Draft.load(fsdecode(source)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Value]) -> Self:
        """Takes the tree of an experiment file as dicts and lists.

        >>> Experiment.from_dict({"name": "x", "nodes": {"a": {}}})["nodes"]
        {'a': {}}
        """
        return cls(_native.Draft.parse("<dict>", _native.Draft.toml_of(values)))

    def copy(self) -> Self:
        """The same experiment once more: edits of one do not change the other."""
        copy = type(self)(self._draft.copy())
        copy._classes = dict(self._classes)
        return copy

    def __getitem__(self, path: str) -> Any:
        found = self._draft.get(path)
        if found is None:
            raise KeyError(path)
        return found[0]

    def __setitem__(self, path: str, value: Value) -> None:
        self._draft.set(path, value, f"experiment[{path!r}]")

    def __delitem__(self, path: str) -> None:
        if not self._draft.remove(path):
            raise KeyError(path)

    __iter__ = None
    """There is no end to paths: a path is asked for by name."""

    def __contains__(self, path: str) -> bool:
        return self._draft.get(path) is not None

    def with_(self, edits: Mapping[str, Value]) -> Self:
        """A copy with these edits.

        >>> experiment = Experiment.from_toml('name = "x"\\nduration = "1s"')
        >>> experiment.with_({"duration": "2s"})["duration"], experiment["duration"]
        ('2s', '1s')
        """
        copy = self.copy()
        for path, value in edits.items():
            copy[path] = value
        return copy

    def sweep(
        self, axis: str, steps: Sequence[Value] | Mapping[str, Mapping[str, Value]]
    ) -> Self:
        """A copy that sweeps over ``axis`` as well; several axes make a grid.

        ``steps`` is a list of values of a parameter or a path, or a dict of named cases, each with what
        it sets:

        >>> line = {"ends": ["a", "b"], "rate": "10mbit"}
        >>> experiment = Experiment.from_dict({
        ...     "schema": 1, "name": "x", "duration": "1s", "nodes": {"a": {}, "b": {}},
        ...     "links": {"line": line}, "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
        ... })
        >>> grid = experiment.sweep("links.line.rtt", ["10ms", "50ms"]).sweep("queue", {
        ...     "short": {"qdisc": {"a.line": "pfifo limit 10"}},
        ...     "long": {"qdisc": {"a.line": "pfifo limit 1000"}},
        ... })
        >>> grid.points[0], len(grid.points)
        ({'links.line.rtt': '10ms', 'queue': 'short'}, 4)
        """
        copy = self.copy()
        copy._draft.sweep(axis, steps, f"sweep({axis!r}, …)")
        return copy

    def draw(self, path: str, **distribution: Value) -> Self:
        """A copy in which each repetition draws its own value for ``path``.

        ``uniform=[low, high]``, ``choice=[…]``, ``exponential=mean``, ``pareto=[least, shape]`` or
        ``normal=[mean, deviation]``, the last three with bounds ``least`` and ``most`` if wanted.

        >>> experiment = Experiment.from_toml('name = "x"\\nduration = "1s"')
        >>> experiment.draw("duration", uniform=["1s", "2s"])["draw"]
        {'duration': {'uniform': ['1s', '2s']}}
        """
        copy = self.copy()
        copy._draft.draw(path, distribution, f"draw({path!r}, …)")
        return copy

    @property
    def points(self) -> list[dict[str, str]]:
        """The points of the sweep: axis and label. Without a sweep, one empty dict."""
        return [dict(labels) for labels in self.check().points]

    def check(self) -> _native.Checked:
        """Reads and checks the whole experiment at every point; ``run`` does it by itself.

        Raises:
            ExperimentError: with everything that is wrong.
        """
        return self._draft.finish()

    def run(
        self,
        *,
        seed: int | None = None,
        repetitions: int | None = None,
        jobs: int = 0,
        threads: int = 0,
        out: str | PathLike[str] | None = None,
        resume: bool = False,
        keep: bool = True,
        view: bool = False,
        progress: bool | Callable[[float, int, float], object] | None = None,
        executor: str | Executor | None = None,
    ) -> Results:
        """Runs every repetition of every point.

        Args:
            seed: of the first repetition; repetition k has ``seed + k``, 2^63 - 1 at most. The
                experiment's by default.
            repetitions: in place of the experiment's.
            jobs: runs at a time, 1024 at most; 0: one per processor. Results do not depend on it.
            threads: for each run; 0: those that no run has. Results do not depend on it.
            out: a folder for the files that ``ackwright run --out`` writes too, byte by byte.
            resume: go on with the results in ``out``: finished runs of the same plan stay.
            keep: keep series and flows in memory; if not, they are in the files of ``out`` only.
            view: record what ``Results.view`` shows besides, of the first repetition of each point:
                packets and stories of flows, the use of all links. Needs ``out``; with ``resume``, finished
                runs without it are made again.
            progress: show a bar; by default where it can be seen. Or what is told runs (with parts of
                those that go on), of how many, and virtual seconds in all.
            executor: who makes the runs: by default threads of this process; ``"serial"``,
                ``"process"`` (a pool of processes), ``"ray"`` (a cluster), or one of
                ``ackwright.executors``. Results are then in ``out``: a folder that all see, or a URL
                of fsspec. ``jobs``, ``threads`` and ``keep`` do not matter.

        Raises:
            ExperimentError: when the experiment is not valid.
            Interrupted: at Ctrl-C; a ``KeyboardInterrupt`` whose ``results`` has what is finished.
            RunError, OutputError: when a run or a file fails; with ``results`` too.
            What a method of a congestion control or ``progress`` raises; with ``results`` too.

        >>> experiment = Experiment.from_dict({
        ...     "schema": 1, "name": "line", "duration": "1s", "nodes": {"a": {}, "b": {}},
        ...     "links": {"line": {"ends": ["a", "b"], "rate": "10mbit", "rtt": "10ms"}},
        ...     "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
        ... })
        >>> first, again = experiment.run(seed=7), experiment.run(seed=7, threads=2)
        >>> first.runs[0].fingerprint == again.runs[0].fingerprint
        True
        """
        folder = None if out is None else fsdecode(out)
        if folder == "":
            raise ValueError('out: "" is not a directory; use "." for the current one')
        _check_number("seed", seed, 0, 2**63 - 1)
        _check_number("repetitions", repetitions, 1, 100_000)
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise TypeError(f"progress: True, False or a function, not {progress!r}")
        how = None if executor is None else executors.named(executor)
        if resume and out is None:
            raise ValueError("resume: needs out=, the directory to resume from")
        if view and (out is None or how is not None):
            raise ValueError("view: needs out=, without executor")
        if not (0 <= jobs <= 1024 and 0 <= threads <= 64):
            raise ValueError("jobs must be 0 to 1024, and threads 0 to 64")
        if how is not None:
            if folder is None:
                raise ValueError("executor: needs out=, the storage that its workers share")
            return executors.run(
                self, how, out=folder, seed=seed, repetitions=repetitions, resume=resume,
                progress=progress,
            )
        checked = self.check()
        bar = None if callable(progress) else bars.begin(progress)
        told = progress if callable(progress) else bar
        try:
            runs, problem = checked.run(
                seed, repetitions, jobs, threads, folder, resume, keep, view, told
            )
        finally:
            if bar is not None:
                bar.close()
        results = Results(runs, folder)
        if problem is None:
            return results
        errors.attach(problem, results)
        raise problem

    async def run_async(
        self,
        *,
        progress: bool | Callable[[float, int, float], object] | None = None,
        **how: Any,
    ) -> Results:
        """Runs in a thread, while other tasks of asyncio go on: ``await experiment.run_async(repetitions=5)``.

        A task that is cancelled ends the runs within a moment, and waits for that; what is finished stays in
        the files of ``out``, and ``resume`` goes on with it. With an ``executor`` the run that is going on, or
        the task that comes next, ends first.

        Args:
            progress: as of ``run``; a function is called in that thread.
            how: all else that ``run`` takes.

        >>> experiment = Experiment.from_dict({
        ...     "schema": 1, "name": "line", "duration": "1s", "nodes": {"a": {}, "b": {}},
        ...     "links": {"line": {"ends": ["a", "b"], "rate": "10mbit", "rtt": "10ms"}},
        ...     "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
        ... })
        >>> asyncio.run(experiment.run_async()).value("f goodput") > 8
        True
        """
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise TypeError(f"progress: True, False or a function, not {progress!r}")
        is_cancelled = threading.Event()
        bar = None if callable(progress) else bars.begin(progress)
        told = progress if callable(progress) else bar

        def tell(done: float, runs: int, virtual_seconds: float) -> None:
            if is_cancelled.is_set():
                raise _Cancelled
            if told is not None:
                told(done, runs, virtual_seconds)

        def run() -> Results:
            try:
                return self.run(progress=tell, **how)
            finally:
                if bar is not None:
                    bar.close()

        thread = asyncio.get_running_loop().run_in_executor(None, run)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            is_cancelled.set()
            # Whoever cancels again waits as well: the files are being written.
            while not thread.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([thread])
            thread.exception()
            raise

    def congestion_control(self, name: str, module: type[CongestionControl]) -> None:
        """Makes a class known as a congestion control: ``ackwright.congestion`` has an example.

        The name has at most 15 letters, digits, ``-``, ``_`` and ``.``, and is nobody else's. Results of
        another source of the class are not gone on with (``resume``).
        """
        if not isinstance(module, type):
            raise TypeError(f"a congestion control must be a class, not {module!r}")
        self._register(name, module, version_of(module))

    def _register(self, name: str, module: type[CongestionControl], version: str) -> None:
        self._draft.congestion_control(name, module, version)
        self._classes[name] = module, version

    def __reduce__(self) -> tuple[Callable[..., Experiment], tuple[Any, ...]]:
        """As texts; files beside it have to be where they were."""
        return _again, (type(self), self._draft.state(), self._classes)

    def explain(self, flow: str, *, point: int = 0, seed: int | None = None) -> str:
        """What happened to a TCP flow in the first repetition of a point: when and why its window was
        cut, what was sent again and why.

        >>> experiment = Experiment.from_dict({
        ...     "schema": 1, "name": "x", "duration": "1s", "nodes": {"a": {}, "b": {}},
        ...     "links": {"line": {"ends": ["a", "b"], "rate": "10mbit", "loss": "1%"}},
        ...     "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
        ... })
        >>> "Recovery" in experiment.explain("f")
        True
        """
        _check_number("seed", seed, 0, 2**63 - 1)
        _check_number("point", point, 0, 2**63 - 1)
        return self.check().explain(flow, point, seed)

    def __repr__(self) -> str:
        name = self["name"] if "name" in self else "?"
        return f"<Experiment {name!r}>"


class _Cancelled(Exception):
    """Ends the runs of a task that was cancelled."""


def _check_number(name: str, number: int | None, least: int, most: int) -> None:
    """Refuses what is no such number; what is none at all is told by what takes it."""
    if number is not None and not least <= number <= most:
        raise ValueError(f"{name}: must be a whole number from {least} to {most}, not {number}")


def _again(
    cls: type[Experiment],
    state: _native.State,
    classes: dict[str, tuple[type[CongestionControl], str]],
) -> Experiment:
    """An experiment that has come from another process."""
    experiment = cls(_native.Draft.of_state(state))
    for name, (module, version) in classes.items():
        experiment._register(name, module, version)
    return experiment


def sweep(
    experiment: Experiment | str | PathLike[str] | Mapping[str, Value],
    axes: Mapping[str, Sequence[Value] | Mapping[str, Mapping[str, Value]]] | None = None,
    **how: Any,
) -> Results:
    """Runs an experiment over the grid of some axes: ``Experiment.sweep`` for each, then ``run(**how)``.

    >>> line = {"ends": ["a", "b"], "rate": "10mbit", "rtt": "10ms"}
    >>> results = sweep({
    ...     "schema": 1, "name": "x", "duration": "1s", "nodes": {"a": {}, "b": {}},
    ...     "links": {"line": line}, "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
    ... }, {"links.line.rtt": ["10ms", "50ms"]}, repetitions=2)
    >>> len(results)
    4
    """
    if isinstance(experiment, Mapping):
        experiment = Experiment.from_dict(experiment)
    elif not isinstance(experiment, Experiment):
        experiment = Experiment.from_toml(experiment)
    for axis, steps in (axes or {}).items():
        experiment = experiment.sweep(axis, steps)
    return experiment.run(**how)


__all__ = ["Experiment", "ExperimentError", "Value", "sweep"]
