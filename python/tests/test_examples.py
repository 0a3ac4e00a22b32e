"""Every example in docstrings, in README.md and in docs/python.md runs."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import runpy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

import ackwright
from ackwright import congestion, errors, executors, experiment, plot, progress, tools, viewer
from ackwright import results as results_module

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
MODULES = [
    ackwright, congestion, errors, executors, experiment, plot, progress, results_module, tools, viewer,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_docstrings(module: ModuleType) -> None:
    done = doctest.testmod(module, optionflags=FLAGS)
    assert done.failed == 0


def test_what_is_public_is_documented() -> None:
    for name in ackwright.__all__:
        thing = getattr(ackwright, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)) or thing is ackwright.Table:
            continue
        assert inspect.getdoc(thing), name
        members: dict[str, Any] = vars(thing) if inspect.isclass(thing) else {}
        for member, value in members.items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"


def blocks(file: Path) -> list[str]:
    """The Python blocks of a Markdown file, as one program each."""
    text = file.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


FILES = [ROOT / "README.md", ROOT / "python" / "README.md", ROOT / "docs" / "python.md"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_pages(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page follow each other, as a reader types them; what comments behind ``print`` say is printed."""
    for name in ("polars", "matplotlib"):
        pytest.importorskip(name)
    os.environ["MPLBACKEND"] = "agg"
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    (tmp_path / "conformance").symlink_to(ROOT / "conformance")
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks(file)), encoding="utf-8")
    assert blocks(file), "no example"
    runpy.run_path(str(program))
    printed = capsys.readouterr().out
    for said in re.findall(r"^ *print\(.*\) +# (.*)$", program.read_text(encoding="utf-8"), re.MULTILINE):
        assert said in printed, f"{file}: \"{said}\" is not printed"
