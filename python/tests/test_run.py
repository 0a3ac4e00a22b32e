"""Runs: the same whatever runs beside them, stopped, resumed, written."""

from __future__ import annotations

import filecmp
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import LINE, ROOT

import ackwright
from ackwright import Experiment

CLI = [ROOT / "target" / kind / "ackwright" for kind in ("release", "debug")]


def test_results_do_not_depend_on_jobs_and_threads(line: Experiment) -> None:
    def shown(**how: int) -> tuple[list[str], list[float]]:
        done = line.draw("links.wan.rtt", uniform=["10ms", "50ms"]).run(progress=False, **how)
        return [run.fingerprint for run in done], done.metrics["value"]

    assert shown(jobs=1, threads=1) == shown(jobs=2, threads=1) == shown(jobs=1, threads=3)
    assert shown(seed=1) != shown(seed=5)


def same_files(one: Path, other: Path) -> bool:
    """True if both folders have the same files with the same bytes."""
    files = [sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file()) for root in (one, other)]
    return files[0] == files[1] and all(
        filecmp.cmp(one / name, other / name, shallow=False) for name in files[0]
    )


def test_files_are_those_of_the_command_line(tmp_path: Path) -> None:
    program = next((path for path in CLI if path.exists()), None)
    commit = ackwright._native.PROGRAM
    if program is None or subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1:] != commit.split()[1:2]:
        pytest.skip("no ackwright built here")
    file = ROOT / "experiments" / "first.toml"
    how = ["--set", "duration=6s", "--runs", "2"]
    subprocess.run([program, "run", file, "--out", tmp_path / "cli", *how], check=True, capture_output=True)
    experiment = Experiment.from_toml(file)
    experiment["duration"] = "6s"
    experiment.run(repetitions=2, out=tmp_path / "python")
    for folder in ("cli", "python"):
        # The list of files names the program with its commit, which may be another.
        (tmp_path / folder / ".ackwright-files").unlink()
    assert same_files(tmp_path / "cli", tmp_path / "python")


def test_a_sweep_goes_on_where_it_was(tmp_path: Path, line: Experiment) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    swept = line.sweep("queue", ["pfifo limit 100", "codel"])
    results = swept.run(out=whole)
    line.with_({"queue": "pfifo limit 100"}).sweep("queue", ["pfifo limit 100"]).run(out=parts)
    again = swept.run(out=parts, resume=True)
    assert again.metrics["value"] == results.metrics["value"]
    assert same_files(whole, parts)
    with pytest.raises(LookupError, match="files in"):
        again.series("flow-download")
    with pytest.raises(ValueError, match="out="):
        line.run(resume=True)


def test_what_is_kept_in_memory_is_the_users_choice(tmp_path: Path, line: Experiment) -> None:
    with_files = line.run(out=tmp_path / "out")
    assert with_files.series("flow-download")["time_ns"] == line.run().series("flow-download")["time_ns"]
    assert with_files.flows.columns == line.run().flows.columns
    lean = line.run(keep=False, out=tmp_path / "lean")
    with pytest.raises(LookupError):
        _ = lean.flows
    assert lean.value("total goodput") > 1


def test_progress_is_told_and_may_stop_the_run(line: Experiment) -> None:
    told: list[tuple[float, int, float]] = []
    line["duration"] = "120s"
    line.run(progress=lambda *far: told.append(far))
    assert told and all(runs == 2 and 0 <= done <= 2.0001 for done, runs, _ in told)

    def refuse(*_: float) -> None:
        raise RuntimeError("enough")

    line["duration"] = "3600s"
    with pytest.raises(RuntimeError, match="enough"):
        line.run(progress=refuse)


def test_ctrl_c_stops_and_keeps_what_is_finished(tmp_path: Path, line: Experiment) -> None:
    line["duration"] = "${time}"
    line["parameters"] = {"queue": "pfifo", "time": "1s"}
    swept = line.sweep("time", ["1s", "20000s"])

    def interrupt(done: float, *_: float) -> None:
        if done > 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        swept.run(jobs=1, progress=interrupt, out=tmp_path / "out")
    assert isinstance(caught.value, ackwright.Interrupted)
    results = caught.value.results
    assert results is not None
    assert [run.point["time"] for run in results] == ["1s", "1s"]
    assert results.value("download goodput") > 1
    assert (tmp_path / "out" / "results.csv").exists()
    assert "2 of 4 runs are finished" in str(caught.value)


def test_the_lock_is_let_go(line: Experiment) -> None:
    line["duration"] = "600s"
    ticks = 0
    over = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not over.wait(0.01):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    results = line.run(repetitions=1, progress=False)
    over.set()
    counter.join()
    assert len(results) == 1 and ticks > 3


def test_files_that_cannot_be_written_are_told(tmp_path: Path, line: Experiment) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ackwright.OutputError) as caught:
        line.run(out=tmp_path / "file")
    assert isinstance(caught.value, OSError) and caught.value.filename
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "summary.json").write_text("mine")
    with pytest.raises(ackwright.OutputError):
        line.run(out=tmp_path / "mine")
    assert (tmp_path / "mine" / "summary.json").read_text() == "mine"


def test_a_full_disk_leaves_no_halves(tmp_path: Path) -> None:
    """As on a full disk: files may not grow beyond a limit."""
    script = f"""
import resource, signal, ackwright
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
experiment = ackwright.Experiment.from_dict({LINE!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, {resource.RLIM_INFINITY}))
try:
    experiment.run(out={str(tmp_path / 'out')!r}, jobs=1)
except ackwright.OutputError as error:
    print(error.errno, error.filename)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("27 "), done
    assert not list((tmp_path / "out").rglob("*.part"))


@pytest.mark.parametrize(
    "how",
    [
        {"jobs": -1}, {"jobs": 1025}, {"threads": 65}, {"repetitions": 0}, {"repetitions": 10**9},
        {"seed": 2**63}, {"seed": 2**63 - 1, "repetitions": 2},
    ],
)
def test_wrong_numbers_are_refused(line: Experiment, how: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        line.run(**how)  # type: ignore[arg-type]
