"""What ``ackwright view`` shows: on this machine, or as one page."""

from __future__ import annotations

import os
import webbrowser
from html import escape
from os import PathLike, fspath
from typing import Self

from ackwright import _native


class Viewer:
    """A page that is served on this machine until it is closed, or the process ends.

    In a notebook it shows itself as a link; ``with`` closes it.
    """

    def __init__(self, viewer: _native.Viewer) -> None:
        self._viewer = viewer

    @property
    def url(self) -> str:
        """The address, with the token without which nothing is answered."""
        return self._viewer.url

    def close(self) -> None:
        """Ends it; once more does nothing."""
        self._viewer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Viewer at {self.url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.url)}" target="_blank">{escape(self.url)}</a>'


def view(what: str | PathLike[str], *, port: int = 0, browser: bool | None = None) -> Viewer:
    """Shows results, a capture or a running ``shape`` in the browser (docs/view.md).

    Args:
        what: a folder of results (``run(out=…)``), a capture, or the control socket of a ``shape``.
        port: to listen at; 0: a free one.
        browser: open a browser; by default where there is a screen.

    >>> import tempfile, urllib.request
    >>> from ackwright import Experiment
    >>> experiment = Experiment.from_dict({
    ...     "schema": 1, "name": "x", "duration": "1s", "nodes": {"a": {}, "b": {}},
    ...     "links": {"line": {"ends": ["a", "b"], "rate": "10mbit", "rtt": "10ms"}},
    ...     "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
    ... })
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = experiment.run(out=folder, view=True)
    ...     with results.view(browser=False) as viewer:
    ...         urllib.request.urlopen(viewer.url).status
    ...     results.export(f"{folder}/page.html")
    200
    """
    folder = fspath(what)
    os.stat(folder)
    if not 0 <= port <= 65535:
        raise ValueError(f"port: must be a number from 0 to 65535, not {port}")
    viewer = Viewer(_native.view(folder, port))
    if browser is None:
        browser = any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if browser:
        webbrowser.open(viewer.url)
    return viewer


def export(what: str | PathLike[str], file: str | PathLike[str]) -> None:
    """Writes all that ``view`` shows of results or a capture into one page, to be sent and opened
    anywhere.

    Raises:
        OutputError: when the page cannot be written; an older one is then as it was.
    """
    folder, page = fspath(what), os.path.abspath(file)
    os.stat(folder)
    if os.path.exists(page) and os.path.samefile(folder, page):
        raise ValueError(f"{page} would be overwritten by its own page; name another file")
    _native.export(folder, page)


__all__ = ["Viewer", "export", "view"]
