"""Plots in one line, with matplotlib: ``pip install 'ackwright[plot]'``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackwright.results import Results

DISTRIBUTIONS = ("fct", "slowdown", "latency", "queue-delay", "queue-length")
"""What is drawn as a cumulative distribution."""


def plot(
    results: Results,
    what: str,
    *,
    of: str = "*",
    against: str | None = None,
    seed: int | None = None,
    ax: Any = None,
) -> Any:
    """Draws one figure and returns its ``matplotlib.axes.Axes``.

    Args:
        results: of a run.
        what: one of three. ``"fct"``, ``"slowdown"``, ``"latency"``, ``"queue-delay"`` or
            ``"queue-length"``: a cumulative distribution. A metric, ``"total goodput"``: its means over the sweep, with 95 %
            intervals. A column of a series, ``"cwnd_segments"`` or its beginning ``"cwnd"``: that
            over time.
        of: only what is called so; ``*`` stands for anything.
        against: the axis of the sweep that lies along x; the first by default.
        seed: of the repetition whose series are drawn; the first by default.
        ax: where to draw; a new figure by default.

    Raises:
        LookupError: when nothing of that name was measured.
        ImportError: without matplotlib.
    """
    ax = ax if ax is not None else _new_axes()
    if what in DISTRIBUTIONS:
        _distribution(results, what, of, ax)
    elif any(what in run.metrics for run in results):
        _metric(results, what, against, ax)
    else:
        _series(results, what, of, seed, ax)
    ax.set_title(results.title)
    ax.grid(visible=True, alpha=0.3)
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend(fontsize="small")
    return ax


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        message = "plots need matplotlib: pip install 'ackwright[plot]'"
        raise ImportError(message, name="matplotlib") from error
    return pyplot.subplots()[1]


def _distribution(results: Results, what: str, of: str, ax: Any) -> None:
    lines: dict[str, tuple[list[float], list[float]]] = {}
    first = results.runs[0].seed if results.runs else 0
    for row in results.distributions.rows():
        if row["what"] == what and row["seed"] == first and fnmatchcase(row["scope"], of):
            name = " ".join(filter(None, (row["point"], row["scope"])))
            values, shares = lines.setdefault(name, ([], []))
            values.append(row["value"])
            shares.append(row["share"])
    if not lines:
        raise LookupError(f"{of!r} has no distribution of {what}")
    for name, (values, shares) in lines.items():
        ax.plot(values, shares, label=name)
    units = {"slowdown": "", "queue-length": " [packets]"}
    ax.set_xlabel(what + units.get(what, " [ms]"))
    ax.set_ylabel("share")
    ax.set_ylim(0, 1)


def _metric(results: Results, what: str, against: str | None, ax: Any) -> None:
    axis = against or (results.axes[0] if results.axes else None)
    if axis is not None and axis not in results.axes:
        raise LookupError(f"no axis is called {axis!r}; axes are {results.axes}")
    rows = [
        row for row in results.summary.rows() if f"{row['scope']} {row['metric']}" == what
    ]
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        others = [row[f"point.{other}"] for other in results.axes if other != axis]
        lines.setdefault(" ".join(others), []).append(row)
    labels = list(dict.fromkeys(row[f"point.{axis}"] if axis else "" for row in rows))
    numbers = [_number(label) for label in labels]
    plain = [number for number in numbers if number is not None]
    places = dict(zip(labels, plain if len(plain) == len(labels) else range(len(labels)), strict=True))
    for name, line in lines.items():
        line.sort(key=lambda row: places[row[f"point.{axis}"] if axis else ""])
        x = [places[row[f"point.{axis}"] if axis else ""] for row in line]
        y = [row["mean"] for row in line]
        interval = [row["ci95"] or 0.0 for row in line]
        ax.errorbar(x, y, yerr=interval, marker="o", capsize=3, label=name or None)
    if len(plain) < len(labels):
        ax.set_xticks(range(len(labels)), labels)
    unit = rows[0]["unit"]
    ax.set_ylabel(f"{what} [{unit}]" if unit else what)
    if axis:
        ax.set_xlabel(axis)


def _number(label: str) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None


def _series(results: Results, what: str, of: str, seed: int | None, ax: Any) -> None:
    known: list[str] = []
    for name in results.series_names:
        scope = name.partition("-")[2]
        table = results.series(name)
        known += [column for column in table.columns if column not in known]
        column = what if what in table.columns else None
        column = column or next((it for it in table.columns if it.startswith(f"{what}_")), None)
        if column is None or not (fnmatchcase(scope, of) or fnmatchcase(name, of)):
            continue
        wanted = seed if seed is not None else table["seed"][0]
        lines: dict[str, tuple[list[float], list[float]]] = {}
        columns = zip(table["point"], table["seed"], table["time_ns"], table[column], strict=True)
        for point, of_seed, time, value in columns:
            if of_seed == wanted and value is not None:
                x, y = lines.setdefault(point, ([], []))
                x.append(time / 1e9)
                y.append(value)
        for point, (x, y) in lines.items():
            ax.plot(x, y, label=" ".join(filter(None, (point, scope))), linewidth=1)
        ax.set_ylabel(column.replace("_", " "))
    if not ax.get_lines():
        raise LookupError(
            f"{what!r} of {of!r} is not a metric, a distribution or a column of a series; "
            f"columns are {', '.join(known)}"
        )
    ax.set_xlabel("time [s]")

