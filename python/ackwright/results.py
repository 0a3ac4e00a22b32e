"""What runs leave behind."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ackwright import _native
from ackwright.viewer import Viewer, export, view

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike


@dataclass(frozen=True)
class Run:
    """One repetition of one point."""

    name: str
    """What its files are called."""
    point: dict[str, str]
    """Axis and label."""
    seed: int
    drawn: dict[str, str]
    """The values that it drew, by path."""
    metrics: dict[str, float] = field(repr=False)
    """By scope and name: ``"total goodput"``. Units are in ``Results.metrics``."""
    tc: dict[str, str] = field(repr=False)
    """What ``tc -s qdisc show`` says at the end, by port."""
    fingerprint: str
    """Of every packet that was sent: equal for equal runs."""
    virtual_seconds: float
    """How far virtual time went."""


def _table_again(columns: list[tuple[str, str, list[Any]]]) -> _native.Table:
    """A table that has come from another process."""
    return _native.Table.of_columns(columns)


def _pandas_of(table: _native.Table) -> Any:
    """A table as pandas has it: by Arrow, where pandas reads that, else column by column."""
    pandas = import_module("pandas")
    with suppress(AttributeError, ImportError):
        return pandas.DataFrame.from_arrow(table)
    return pandas.DataFrame({name: table[name] for name in table.columns})


def _polars_of(table: _native.Table) -> Any:
    """A table as polars has it."""
    return import_module("polars").DataFrame(table)


def _label(value: object) -> str:
    """What a value of an axis is called in the results: as in the file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Results:
    """All runs of an experiment that are finished.

    ``metrics``, ``summary``, ``flows``, ``distributions`` and ``series(…)`` are tables, which polars,
    pandas (3.0 and later) and pyarrow read without a copy by way of Python: ``polars.DataFrame(table)``,
    ``pandas.DataFrame.from_arrow(table)``, ``pyarrow.table(table)``.

    >>> from ackwright import Experiment
    >>> experiment = Experiment.from_dict({
    ...     "schema": 1, "name": "line", "duration": "2s", "repetitions": 2,
    ...     "nodes": {"a": {}, "b": {}},
    ...     "links": {"line": {"ends": ["a", "b"], "rate": "10mbit", "rtt": "10ms"}},
    ...     "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
    ... })
    >>> results = experiment.run()
    >>> len(results), results.runs[1].seed
    (2, 2)
    >>> results.metrics.columns
    ['point', 'seed', 'scope', 'metric', 'value', 'unit']
    >>> results.flows["status"]
    ['open', 'open']
    >>> results.series("flow-f")["time_ns"][:2]
    [10000000, 20000000]
    """

    def __init__(self, runs: _native.Runs, folder: str | None = None) -> None:
        self._runs = runs
        self.folder = folder
        """Where their files are; ``None`` without ``out``, and of storage that is no folder."""
        self.runs: list[Run] = [Run(**one) for one in runs.runs()]
        """One for each run, in the order of points and seeds."""

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._runs.name

    @property
    def title(self) -> str:
        """The experiment's title."""
        return self._runs.title

    @property
    def axes(self) -> list[str]:
        """What was swept."""
        return self._runs.axes

    @property
    def metrics(self) -> _native.Table:
        """Every metric of every run: point, seed, scope, metric, value, unit."""
        return self._runs.metrics()

    @property
    def summary(self) -> _native.Table:
        """Every metric of every point over its repetitions: mean, half the 95 % interval, extremes."""
        return self._runs.summary()

    @property
    def flows(self) -> _native.Table:
        """Every flow of every run: start, end, size, completion time, slowdown, retransmits, path."""
        return self._runs.flows()

    @property
    def distributions(self) -> _native.Table:
        """Quantiles of completion times, slowdowns, latencies and queue delays of each run."""
        return self._runs.distributions()

    @property
    def series_names(self) -> list[str]:
        """What ``series`` takes: ``flow-NAME``, ``port-NODE.LINK``, ``latency-NAME``."""
        return self._runs.series_names()

    def series(self, name: str) -> _native.Table:
        """The samples of one flow or port over time, of all runs."""
        return self._runs.series(name)

    def values(self, metric: str, **point: object) -> list[float]:
        """One metric of each run, of the points with these labels only.

        ``metric`` is scope and name, ``"total goodput"``; an axis whose name is no word of Python goes
        into a dict: ``values("total goodput", **{"links.line.rtt": "10ms"})``.
        """
        for axis in point:
            if axis not in self.axes:
                raise KeyError(f"no axis is called {axis!r}; axes are {self.axes}")
        wanted = {axis: _label(label) for axis, label in point.items()}
        fits = [run for run in self.runs if wanted.items() <= run.point.items()]
        if not fits:
            for axis, label in wanted.items():
                labels = list(dict.fromkeys(run.point[axis] for run in self.runs))
                if label not in labels:
                    raise KeyError(f"no point has {axis} {label!r}; labels are {', '.join(labels)}")
            raise KeyError(f"no run belongs to the point {wanted}")
        found = [run.metrics[metric] for run in fits if metric in run.metrics]
        if not found:
            names = sorted({name for run in fits for name in run.metrics})
            raise KeyError(f"no run has the metric {metric!r}; metrics are {', '.join(names[:20])}, …")
        return found

    def value(self, metric: str, **point: object) -> float:
        """The mean of one metric over the runs of the points with these labels."""
        values = self.values(metric, **point)
        return sum(values) / len(values)

    def plot(self, what: str, **options: Any) -> Any:
        """Draws a metric over the sweep, a distribution, or a series over time; needs
        ``ackwright[plot]``. See ``ackwright.plot.plot``."""
        from ackwright.plot import plot

        return plot(self, what, **options)

    def view(self, *, port: int = 0, browser: bool | None = None) -> Viewer:
        """Serves what ``ackwright view`` shows of the files: ``ackwright.view`` of ``folder``."""
        return view(self._in_files(), port=port, browser=browser)

    def export(self, file: str | PathLike[str]) -> None:
        """Writes what ``ackwright view`` shows into one page: ``ackwright.export`` of ``folder``."""
        export(self._in_files(), file)

    def _in_files(self) -> str:
        if self.folder is None:
            raise LookupError("the viewer reads files: give run() a directory for them by out=")
        return self.folder

    def summary_json(self) -> str:
        """What ``ackwright run --json`` prints."""
        return self._runs.summary_json()

    def __copy__(self) -> Results:
        """Nothing of it changes."""
        return self

    def __deepcopy__(self, memo: object) -> Results:
        """Nothing of it changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "results cannot be pickled: pass a table of theirs (results.metrics), results.runs,"
            " or the directory of run(out=…)"
        )

    def __str__(self) -> str:
        head, rows = self._runs.report()
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [head, *rows]
        ]
        return "\n".join([f"{self.title}: {len(self)} runs", *lines])

    def __repr__(self) -> str:
        return f"<Results of {self.name!r}: {len(self)} runs>"

    def _repr_html_(self) -> str:
        head, rows = self._runs.report()
        cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        title = escape(f"{self.title}: {len(self)} runs")
        return f"<table><caption>{title}</caption><tr>{cells}</tr>{body}</table>"
