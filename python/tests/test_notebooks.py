"""The notebooks run from beginning to end; their own assertions hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    try:
        import nbclient
        import nbformat
    except ImportError:
        # Without jupyter, their cells one after the other.
        names: dict[str, Any] = {}
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
        return
    monkeypatch.delenv("MPLBACKEND")
    document = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(document, timeout=120, kernel_name="python3").execute()
    pictures = [
        output
        for cell in document.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert pictures, "nothing is drawn"
