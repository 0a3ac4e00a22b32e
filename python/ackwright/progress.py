"""How far a run is: a bar in a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

Callback = "Callable[[float, int, float], object]"
"""Is told runs (with parts of those that go on), of how many, and virtual seconds in all."""

_WIDTH = 30
_EVERY = 0.1


class _Bar(Protocol):
    def show(self, done: float, runs: int, text: str) -> None: ...

    def close(self) -> None: ...


class _Terminal:
    """One line of a terminal that is written again and again."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, done: float, runs: int, text: str) -> None:
        full = int(_WIDTH * done / runs)
        sys.stderr.write(f"\r{'█' * full}{'░' * (_WIDTH - full)} {text}\x1b[K")
        sys.stderr.flush()
        self._shown = True

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _Notebook:
    """One display of a notebook that changes."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, done: float, runs: int, text: str) -> None:
        from IPython.display import HTML, display

        bar = HTML(f'<progress max="{runs}" value="{done:.3f}"></progress> {text}')
        if self._handle is None:
            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def close(self) -> None:
        if self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(""))


def _in_notebook() -> bool:
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """Shows a bar if a run takes longer than a moment, and takes it away at the end."""

    def __init__(self, bar: _Bar) -> None:
        self._bar = bar
        self._begun = time.monotonic()
        self._told = self._begun

    def __call__(self, done: float, runs: int, virtual_seconds: float) -> None:
        """Is told how far the runs are."""
        now = time.monotonic()
        if now - self._told < _EVERY:
            return
        self._told = now
        elapsed = now - self._begun
        left = f", {elapsed * (runs - done) / done:.0f} s left" if done > 0 else ""
        runs_done = f"{int(done + 1e-9)}/{runs} runs"
        self._bar.show(done, runs, f"{runs_done}, {virtual_seconds:.1f} s simulated{left}")

    def close(self) -> None:
        """Takes the bar away."""
        self._bar.close()


def begin(wanted: bool | None) -> Progress | None:
    """A bar if it is wanted; where nothing is said, if somebody can see it."""
    if wanted is False:
        return None
    if _in_notebook():
        return Progress(_Notebook())
    if wanted or sys.stderr.isatty():
        return Progress(_Terminal())
    return None
