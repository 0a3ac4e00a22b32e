"""Sweeps that other processes and a Ray cluster make: the same bytes, whatever is lost on the way."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import LINE

import ackwright
from ackwright import Experiment, _storage, executors


@pytest.fixture
def grid() -> Experiment:
    """Four runs, none of which takes longer than a moment."""
    line = Experiment.from_dict({**LINE, "duration": "1s", "measure": {"pcap": ["router.wan"]}})
    return line.sweep("queue", ["pfifo limit 100", "fq_codel"])


def files(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two machines of one processor each, as Ray sees it."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    store = 80 * 1024 * 1024
    node = {"num_cpus": 1, "object_store_memory": store, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    made.add_node(num_cpus=1, object_store_memory=store)
    ray.init(address=made.address, log_to_driver=False)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@dataclass(frozen=True)
class Deadly:
    """A folder whose first file waits to see its process killed; then it is an ordinary one.

    The process leaves half a file, as one does that is killed while it copies.
    """

    path: str
    event: str

    def put(self, source: Path, names: list[str]) -> None:
        """Half of a run is there, and says whose process it is: the first one to come here."""
        event = Path(self.event)
        ordinary = _storage.Folder(self.path)
        try:
            event.with_suffix(".first").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            ordinary.put(source, names[:1])
            first = Path(self.path) / names[0]
            first.with_name(f".{first.name}.{os.getpid()}.part").write_bytes(b"half")
            aside = event.with_suffix(".part")
            aside.write_text(str(os.getpid()))
            os.replace(aside, event)
            threading.Event().wait()
        ordinary.put(source, names)


def kill_on(event: Path) -> threading.Thread:
    """Kills the process that an event names, when it comes."""

    def wait() -> None:
        while not event.exists():
            time.sleep(0.01)
        os.kill(int(event.read_text()), signal.SIGKILL)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def deadly(monkeypatch: pytest.MonkeyPatch, event: Path) -> None:
    """Storage as of `Deadly`."""
    usual = _storage.where

    def where(out: str) -> tuple[Any, Any]:
        _, desk = usual(out)
        return Deadly(desk.folder, str(event)), desk

    monkeypatch.setattr(_storage, "where", where)


WORKLOAD = """
schema = 1
name = "x"
duration = "1s"
nodes = { a = {}, b = {} }
links.line = { ends = ["a", "b"], rate = "10mbit" }
workload.w = { size = "file sizes.txt", load = 0.1 }
"""


def test_an_experiment_travels(
    grid: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid["links.wan.rate"] = "20mbit"
    del grid["flows.ping"]
    again = pickle.loads(pickle.dumps(grid))
    assert again.points == grid.points and "flows.ping" not in again
    fingerprints = [[run.fingerprint for run in it.run(progress=False)] for it in (grid, again)]
    assert fingerprints[0] == fingerprints[1]
    # Files beside it are found from anywhere.
    (tmp_path / "sizes.txt").write_text("1000 0.5\n2000 1\n")
    (tmp_path / "x.toml").write_text(WORKLOAD)
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps(Experiment.from_toml("x.toml"))
    monkeypatch.chdir("/")
    assert pickle.loads(pickled).run(progress=False).value("w flows") > 0


@pytest.mark.parametrize("executor", ["serial", "process"])
def test_the_same_bytes(executor: str, grid: Experiment, tmp_path: Path) -> None:
    expected = grid.run(out=tmp_path / "threads")
    results = grid.run(executor=executor, out=tmp_path / "out")
    assert files(tmp_path / "out") == files(tmp_path / "threads")
    assert results.metrics.csv() == expected.metrics.csv() and str(results) == str(expected)


def test_a_url_is_a_place_too(grid: Experiment, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    grid.run(out=tmp_path / "threads")
    grid.run(executor="serial", out=f"file://{tmp_path}/out")
    assert files(tmp_path / "out") == files(tmp_path / "threads")
    memory = fsspec.filesystem("memory")
    url = "memory://sweep/out"
    for resume in (False, True, False):
        grid.run(executor="serial", out=url, resume=resume)
        names = memory.find("/sweep/out")
        found = {name.removeprefix("/sweep/out/"): memory.cat_file(name) for name in names}
        assert found == files(tmp_path / "threads")
    # A run that is not whole is made again; one of the results of another is not taken.
    memory.rm_file(names[-1] if names[-1].endswith("parquet") else "/sweep/out/results.csv")
    grid.run(executor="serial", out=url, resume=True)
    assert {name.removeprefix("/sweep/out/") for name in memory.find("/sweep/out")} == set(found)
    memory.pipe_file("/sweep/out/plots/mine.svg", b"mine")
    with pytest.raises(ackwright.OutputError, match="no earlier run has written it"):
        grid.run(executor="serial", out=url)
    assert memory.cat_file("/sweep/out/plots/mine.svg") == b"mine"


def test_a_sweep_is_gone_on_with(grid: Experiment, tmp_path: Path) -> None:
    grid.run(out=tmp_path / "threads")
    out = tmp_path / "out"
    made: list[executors.Place] = []

    class Counting(executors.Serial):
        def run(self, job: Any, places: Any) -> Iterator[Any]:
            made.extend(places)
            return super().run(job, places)

    def enough(done: float, *_: float) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(ackwright.Interrupted, match="2 of 4 runs are finished") as caught:
        grid.run(executor=Counting(), out=out, progress=enough)
    assert caught.value.results is not None and len(caught.value.results) == 2
    assert (out / "results.csv").exists()
    grid.run(executor=Counting(), out=out, resume=True)
    assert made[4:] == made[2:4] and len(made) == 6
    assert files(out) == files(tmp_path / "threads")
    # What a sweep has left whose first process was killed is known as its own.
    (out / "series" / "fq_codel-seed-1" / "half.parquet").write_bytes(b"half")
    (out / "runs" / "fq_codel-seed-1.json").unlink()
    grid.run(executor=Counting(), out=out, resume=True)
    assert made[6:] == [(1, 0)] and files(out) == files(tmp_path / "threads")


def test_a_process_that_dies_costs_a_retry(
    grid: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    grid.run(out=tmp_path / "threads")
    event = tmp_path / "event"
    deadly(monkeypatch, event)
    killer = kill_on(event)
    grid.run(executor=executors.Processes(workers=2), out=tmp_path / "out")
    killer.join(0)
    assert event.exists() and not killer.is_alive()
    assert files(tmp_path / "out") == files(tmp_path / "threads")


@pytest.mark.parametrize("executor", ["serial", "process", "ray"])
def test_a_full_disk_keeps_what_is_finished(
    executor: str, grid: Experiment, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if executor == "ray":
        request.getfixturevalue("cluster")
    out = tmp_path / "out"
    grid.run(executor="serial", out=out, repetitions=1)
    (out / "runs" / "fq_codel-seed-1.json").unlink()
    full = _FullDisk(str(out))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_storage, "where", lambda _: (full, _storage.Here(str(out))))
        with pytest.raises(ackwright.OutputError, match="No space left") as caught:
            grid.run(executor=executor, out=out, repetitions=1, resume=True)
    assert caught.value.errno == 28 and caught.value.filename
    assert caught.value.results is not None and len(caught.value.results) == 1
    assert not list(out.rglob("*.part"))


@dataclass(frozen=True)
class _FullDisk:
    path: str

    def put(self, source: Path, names: list[str]) -> None:
        """As a full disk would."""
        text = "cannot write: No space left on device"
        raise ackwright.OutputError(text, 28, f"{self.path}/{names[0]}")


def test_what_is_wrong_is_said_first(grid: Experiment, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no executor is called 'spark'"):
        grid.run(executor="spark", out=tmp_path)
    with pytest.raises(ValueError, match="out="):
        grid.run(executor="process")
    grid["links.wan.rate"] = "fast"
    with pytest.raises(ackwright.ExperimentError):
        grid.run(executor="serial", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_ray_makes_the_same_bytes(cluster: Any, grid: Experiment, tmp_path: Path) -> None:
    grid.run(out=tmp_path / "threads")
    event = tmp_path / "event"
    with pytest.MonkeyPatch.context() as patch:
        deadly(patch, event)
        killer = kill_on(event)
        results = ackwright.sweep(grid, executor="ray", out=tmp_path / "out")
    assert event.exists() and not killer.is_alive() and len(results) == 4
    assert files(tmp_path / "out") == files(tmp_path / "threads")


def test_a_worker_that_always_dies_costs_its_own_run(
    cluster: Any, grid: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = _storage.where

    def where(out: str) -> tuple[Any, Any]:
        _, desk = usual(out)
        return _Cursed(desk.folder), desk

    monkeypatch.setattr(_storage, "where", where)
    with pytest.raises(ackwright.RunError, match="3 of 4 runs are finished") as caught:
        grid.run(executor=executors.Ray(retries=1), out=tmp_path / "out")
    assert caught.value.results is not None and len(caught.value.results) == 3
    monkeypatch.undo()
    grid.run(executor="ray", out=tmp_path / "out", resume=True)
    grid.run(out=tmp_path / "threads")
    assert files(tmp_path / "out") == files(tmp_path / "threads")


@dataclass(frozen=True)
class _Cursed:
    path: str

    def put(self, source: Path, names: list[str]) -> None:
        """Kills its process with one of the runs, each time."""
        if names[-1] == "runs/fq_codel-seed-2.json":
            os.kill(os.getpid(), signal.SIGKILL)
        _storage.Folder(self.path).put(source, names)


def test_ray_goes_on_with_a_sweep_and_hears_of_errors(
    cluster: Any, grid: Experiment, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def enough(done: float, *_: float) -> None:
        if done >= 1:
            raise KeyboardInterrupt

    with pytest.raises(ackwright.Interrupted) as caught:
        grid.run(executor="ray", out=out, progress=enough)
    results = caught.value.results
    assert results is not None and 1 <= len(results) < 4
    grid.run(executor="ray", out=out, resume=True)
    grid.run(out=tmp_path / "threads")
    assert files(out) == files(tmp_path / "threads")


def test_a_thousand_runs(cluster: Any, tmp_path: Path) -> None:
    """Many small runs: what a task costs beside its run is bounded, and nothing is lost."""
    small = Experiment.from_dict({
        "schema": 1, "name": "small", "duration": "100ms", "nodes": {"a": {}, "b": {}},
        "links": {"line": {"ends": ["a", "b"], "rate": "10mbit", "rtt": "10ms"}},
        "flows": {"f": {"app": "bulk", "from": "a", "to": "b"}},
        "measure": {"sample": "100ms"},
    })
    rates = [f"{rate}mbit" for rate in range(1, 101)]
    sweep = small.sweep("links.line.rate", rates)
    begun = time.monotonic()
    results = sweep.run(executor="ray", out=tmp_path / "out", repetitions=10)
    took = time.monotonic() - begun
    assert len(results) == 1000
    assert results.metrics.csv() == sweep.run(repetitions=10).metrics.csv()
    print(f"1000 runs: {took:.1f} s, {took:.1f} ms a run")
