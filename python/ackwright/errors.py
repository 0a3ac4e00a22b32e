"""What can go wrong."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackwright.results import Results


class Fault(NamedTuple):
    """One thing that is wrong."""

    file: str
    """The file, or the edit that brought the value in."""
    line: int | None
    """From 1; ``None`` where an edit is at fault."""
    column: int | None
    """From 1, in characters."""
    message: str
    """What is wrong."""
    help: str | None
    """What would be right, if that can be guessed."""
    text: str | None
    """The line."""


class Error(Exception):
    """Any error of this package but those of wrong arguments."""

    results: Results | None = None
    """What was finished before, if anything ran."""


class ExperimentError(Error, ValueError):
    '''An experiment, a command or a file says something impossible: what, and where.

    >>> from ackwright import Experiment, ExperimentError
    >>> experiment = Experiment.from_toml("""
    ... schema = 1
    ... name = "line"
    ... duration = "1s"
    ... nodes = { a = {}, b = {} }
    ... flows.download = { app = "bulk", from = "a", to = "b" }
    ... [links.line]
    ... ends = ["a", "b"]
    ... delay = "5ms"
    ... rat = "10mbit"
    ... """)
    >>> try:
    ...     experiment.run()
    ... except ExperimentError as error:
    ...     print(error.line, error.column, error.message, error.help, sep=" | ")
    10 | 1 | unknown key "rat" | did you mean "rate"?
    '''

    def __init__(
        self,
        text: str,
        faults: Iterable[tuple[str, int | None, int | None, str, str | None, str | None]] = (),
    ) -> None:
        super().__init__(text)
        self.faults: list[Fault] = [Fault(*fault) for fault in faults]
        """Everything that is wrong, in the order of the file."""

    def __reduce__(self) -> tuple[type[ExperimentError], tuple[str, list[Fault]]]:
        return type(self), (str(self), self.faults)

    @property
    def _first(self) -> Fault:
        return self.faults[0] if self.faults else Fault("", None, None, str(self), None, None)

    @property
    def file(self) -> str:
        """The file of the first fault, or the edit that brought the value in."""
        return self._first.file

    @property
    def line(self) -> int | None:
        """The line of the first fault, from 1; ``None`` where an edit is at fault."""
        return self._first.line

    @property
    def column(self) -> int | None:
        """The column of the first fault, from 1, in characters."""
        return self._first.column

    @property
    def message(self) -> str:
        """What the first fault is."""
        return self._first.message

    @property
    def help(self) -> str | None:
        """What would be right, if that can be guessed."""
        return self._first.help


class RunError(Error, RuntimeError):
    """A run did not come to its end. ``results`` has the runs that did."""


class OutputError(Error, OSError):
    """A file of the results could not be written. ``errno`` and ``filename`` are set."""

    def __init__(self, text: str, errno: int | None = None, filename: str | None = None) -> None:
        super().__init__(text)
        self.errno = errno
        self.filename = filename

    def __reduce__(self) -> tuple[type[OutputError], tuple[str, int | None, str | None]]:
        return type(self), (str(self), self.errno, self.filename)

    def __str__(self) -> str:
        return str(self.args[0])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run. What is finished is in ``results``, and in the files if there are any."""

    results: Results | None = None
    """The runs that are finished."""


def attach(problem: BaseException, results: Results) -> None:
    """Gives an exception what was finished before it, where it takes it."""
    # Some classes have no room for it: their error is the one to tell.
    with suppress(AttributeError, TypeError):
        problem.results = results  # type: ignore[attr-defined]
