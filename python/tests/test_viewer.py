"""Results in the browser, from Python."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import ackwright


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> ackwright.Results:
    """Results in files, with what the viewer shows besides."""
    line = {"ends": ["a", "b"], "rate": "10mbit", "rtt": "10ms", "loss": "1%"}
    experiment = ackwright.Experiment.from_dict({
        "schema": 1, "name": "seen", "title": "Seen <here>", "duration": "2s",
        "nodes": {"a": {}, "b": {}}, "links": {"line": line},
        "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
    })
    out = tmp_path_factory.mktemp("seen")
    return experiment.run(out=out, view=True, progress=False)


def asked(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
        return body


def test_results_are_served_until_closed(seen: ackwright.Results) -> None:
    viewer = seen.view(browser=False)
    with viewer:
        assert "Seen &lt;here&gt;" in asked(viewer.url).decode()
        about = json.loads(asked(f"{viewer.url}api/run?run={seen.runs[0].name}"))
        assert about["captures"] == ["a.line"] and about["explained"] == ["f"]
        assert viewer.url in viewer._repr_html_() and viewer.url in repr(viewer)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            asked(viewer.url.rsplit("/", 2)[0] + "/guessed/")
    with pytest.raises(OSError):
        asked(viewer.url)
    viewer.close()


def test_a_page_holds_everything(seen: ackwright.Results, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    seen.export(page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "series?run=seed-1&name=flow-f" in text
    capture = next(Path(str(seen.folder)).glob("pcap/*.pcapng"))
    ackwright.export(capture, page)
    assert "graph?" in page.read_text(encoding="utf-8")
    assert [it.name for it in tmp_path.iterdir()] == ["page.html"]


def test_what_the_viewer_shows_is_resumed_too(line: ackwright.Experiment, tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    line.run(repetitions=2, out=whole, view=True, progress=False)
    line.run(repetitions=1, out=resumed, progress=False)
    line.run(repetitions=2, out=resumed, view=True, resume=True, progress=False)

    def files(folder: Path) -> dict[str, bytes]:
        return {str(it.relative_to(folder)): it.read_bytes() for it in folder.rglob("*") if it.is_file()}

    assert files(whole) == files(resumed)


def test_what_cannot_be_shown_is_told(line: ackwright.Experiment, tmp_path: Path) -> None:
    results = line.run(repetitions=1, progress=False)
    assert results.folder is None
    with pytest.raises(LookupError, match="out="):
        results.view()
    with pytest.raises(LookupError, match="out="):
        results.export(tmp_path / "page.html")
    with pytest.raises(ValueError, match="view: needs out="):
        line.run(view=True)
    with pytest.raises(FileNotFoundError):
        ackwright.view(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="summary.json"):
        ackwright.export(tmp_path, tmp_path / "page.html")
    text = tmp_path / "text.txt"
    text.write_text("no capture")
    with pytest.raises(ValueError, match="text.txt"):
        ackwright.view(text)
    with pytest.raises(ValueError, match="own page"):
        ackwright.export(text, text)
    with pytest.raises(ValueError, match="port"):
        ackwright.view(text, port=70000)
    assert text.read_text() == "no capture" and not (tmp_path / "page.html").exists()
