"""The notebooks run from beginning to end; their own assertions hold."""

from __future__ import annotations

import json
import re
import time
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


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_pages_are_made_of_them(notebook: Path) -> None:
    """docs/notebooks has what the notebook says; `make notebooks` writes it."""
    page = (ROOT / "docs" / "notebooks" / f"{notebook.stem}.md").read_text(encoding="utf-8")
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        assert "".join(cell["source"]) in page, "run `make notebooks`"
    pictures = re.findall(r"!\[plot\]\((.*?)\)", page)
    assert pictures
    for picture in pictures:
        assert (ROOT / "docs" / "notebooks" / picture).stat().st_size > 1000


LONG = """
import pathlib, ackwright
experiment = ackwright.Experiment.from_dict({
    "schema": 1, "name": "x", "duration": "100000s", "nodes": {"a": {}, "b": {}},
    "links": {"line": {"ends": ["a", "b"], "rate": "100mbit", "rtt": "10ms"}},
    "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
})
experiment.run(progress=lambda *_: pathlib.Path("event").touch())
"""


def test_ctrl_c_in_a_notebook(tmp_path: Path) -> None:
    """The interrupt of a notebook ends the run, and not the kernel."""
    manager = pytest.importorskip("jupyter_client").KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        asked = client.execute(LONG)
        while not (tmp_path / "event").exists():
            time.sleep(0.01)
        manager.interrupt_kernel()
        answer: dict[str, Any] = {"parent_header": {}}
        while answer["parent_header"].get("msg_id") != asked:
            answer = client.get_shell_msg(timeout=60)
        reply = answer["content"]
        assert reply["status"] == "error" and reply["ename"] == "Interrupted"
        assert client.execute_interactive("2 + 2", timeout=60)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
