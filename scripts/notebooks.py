#!/usr/bin/env python3
"""Renders python/notebooks as pages: docs/notebooks/NAME.md, with the plots in docs/img.

usage: scripts/notebooks.py        in the environment of `make python-test` (target/python/venv/bin/python)

`make notebooks` does it. A test of python/tests tells when a page is older than its notebook.
"""

import base64
import re
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[1]


def outputs(cell, name, number):
    """What a cell printed and drew, as Markdown; pictures become files."""
    pictures = 0
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if output["output_type"] == "stream":
            yield f"```text\n{output['text'].rstrip()}\n```"
        elif "image/png" in data:
            pictures += 1
            file = f"notebook-{name}-{number}{'' if pictures == 1 else f'-{pictures}'}.png"
            (ROOT / "docs" / "img" / file).write_bytes(base64.b64decode(data["image/png"]))
            yield f"![plot](../img/{file})"
        elif "<table" in data.get("text/html", ""):
            yield table(data["text/html"])
        elif "text/plain" in data and "text/html" not in data:
            yield f"```text\n{data['text/plain'].rstrip()}\n```"


def table(html):
    """A table of results as one of Markdown."""
    rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
    caption = re.search(r"<caption>(.*?)</caption>", html)
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return (caption[1] + "\n\n" if caption else "") + "\n".join(lines)


def render(notebook):
    """Runs a notebook and writes its page."""
    document = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(document, timeout=600, kernel_name="python3").execute()
    name = notebook.stem
    for old in (ROOT / "docs" / "img").glob(f"notebook-{name}-*.png"):
        old.unlink()
    parts = []
    for number, cell in enumerate(document.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts.append(f"```python\n{cell.source}\n```")
            parts.extend(outputs(cell, name, number))
    parts.append(f"[The notebook](../../python/notebooks/{notebook.name}); `make notebooks` has made this page of it.")
    page = ROOT / "docs" / "notebooks" / f"{name}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(page.relative_to(ROOT))


if __name__ == "__main__":
    for notebook in sorted((ROOT / "python" / "notebooks").glob("*.ipynb")):
        render(notebook)
