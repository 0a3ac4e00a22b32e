"""What users do wrong, or at an unusual time: told in words, and nothing breaks."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import LINE

import ackwright
from ackwright import CongestionControl, Experiment

NUMPY = pytest.importorskip("numpy")


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (float("nan"), ValueError, "experiment['duration']: NaN is not a value of an experiment"),
        (float("-inf"), ValueError, "experiment['duration']: -inf is not a value of an experiment"),
        (2**63, OverflowError, "experiment['duration']: an integer of an experiment must fit in 64 bits"),
        (-(2**200), OverflowError, "experiment['duration']: an integer of an experiment must fit in 64 bits"),
        (b"8s", TypeError, "experiment['duration']: a bytes is not a value of an experiment"),
        (bytearray(b"8s"), TypeError, "experiment['duration']: a bytearray is not a value of an experiment"),
        ({"deep": [1, None]}, TypeError, "experiment['duration'].deep: a NoneType is not a value of an experiment"),
        ({1, 2}, TypeError, "experiment['duration']: a set is not a value of an experiment"),
    ],
)
def test_what_is_no_value_is_told_with_its_place(value: Any, kind: type[Exception], words: str) -> None:
    experiment = Experiment.from_dict(LINE)
    with pytest.raises(kind) as caught:
        experiment["duration"] = value
    assert str(caught.value).startswith(words)
    assert experiment["duration"] == "2s"
    with pytest.raises(kind, match="links.wan.rate"):
        Experiment.from_dict({**LINE, "links": {"wan": {"rate": value}}})


def test_numbers_of_numpy_are_numbers() -> None:
    experiment = Experiment.from_dict(LINE)
    swept = experiment.sweep("sysctl.net.ipv4.tcp_reordering", NUMPY.arange(3, 10, 3))
    assert [point["sysctl.net.ipv4.tcp_reordering"] for point in swept.points] == ["3", "6", "9"]
    experiment["flows.ping.stop"] = NUMPY.str_("1s")
    experiment["repetitions"] = NUMPY.int64(3)
    assert experiment.check().repetitions == 3


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ({"seed": -1}, ValueError, "seed: must be a whole number from 0"),
        ({"seed": 2**64}, ValueError, "seed: must be a whole number from 0"),
        ({"repetitions": -1}, ValueError, "repetitions: must be a whole number from 1"),
        ({"repetitions": 0}, ValueError, "repetitions: must be a whole number from 1"),
        ({"repetitions": 2**40}, ValueError, "repetitions: must be a whole number from 1"),
        ({"out": ""}, ValueError, "out: "),
        ({"progress": "yes"}, TypeError, "progress: True, False or a function"),
        ({"executor": "threads"}, ValueError, "no executor is called 'threads'"),
        ({"executor": 5}, TypeError, "executor: serial"),
    ],
)
def test_a_run_that_cannot_be(how: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        Experiment.from_dict(LINE).run(**how)
    assert str(caught.value).startswith(words)


def test_a_path_may_be_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    Experiment.from_dict({**LINE, "repetitions": 1}).run(out=bytes(folder), progress=False)  # type: ignore[arg-type]
    assert (folder / "summary.json").is_file()
    with pytest.raises(TypeError, match="not iterable"):
        list(Experiment.from_dict(LINE))  # type: ignore[call-overload]


def test_tables_go_to_other_processes(results: ackwright.Results) -> None:
    for table in [results.metrics, results.flows, results.series("flow-download").select("seed", -1)]:
        for again in [pickle.loads(pickle.dumps(table)), copy.copy(table), copy.deepcopy(table)]:
            assert again.parquet() == table.parquet()
    assert repr(results.metrics).startswith("<Table of ")
    assert copy.deepcopy(results) is results
    with pytest.raises(TypeError, match="results.metrics"):
        pickle.dumps(results)


def test_rows_are_picked_as_from_a_list(results: ackwright.Results) -> None:
    table = results.metrics
    rows = table.rows()
    for picked in [slice(2), slice(-2, None), slice(None, None, -1), slice(1, 9, 3), slice(9, 1), slice(10**20)]:
        assert table[picked].rows() == rows[picked]
        assert table[picked].columns == table.columns
    for key in [None, 1.5, b"point"]:
        with pytest.raises(TypeError, match="neither a column's name"):
            table[key]  # type: ignore[call-overload]


def test_threads_edit_and_run_one_experiment() -> None:
    experiment = Experiment.from_dict({**LINE, "repetitions": 1})
    wrong: list[BaseException] = []

    def repeat(act: Any) -> None:
        try:
            for _ in range(100):
                act()
        except BaseException as error:
            wrong.append(error)

    def edit() -> None:
        experiment["links.wan.rate"] = "5mbit"

    acts = [edit, edit, experiment.check, experiment.copy, lambda: experiment["links"]]
    threads = [threading.Thread(target=repeat, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_value_may_edit_the_experiment_that_it_is_for() -> None:
    experiment = Experiment.from_dict(LINE)

    class Values(dict[str, Any]):
        def items(self) -> Any:
            experiment["duration"] = "3s"
            return super().items()

    experiment["flows.second"] = Values(app="bulk", **{"from": "server", "to": "client"})
    assert (experiment["duration"], experiment["flows.second.app"]) == ("3s", "bulk")


def test_asyncio_goes_on_meanwhile() -> None:
    async def both() -> tuple[ackwright.Results, int]:
        run = asyncio.create_task(asyncio.to_thread(Experiment.from_dict(LINE).run, progress=False))
        ticks = 0
        while not run.done():
            await asyncio.sleep(0.001)
            ticks += 1
        return await run, ticks

    results, ticks = asyncio.run(both())
    assert len(results) == 2 and ticks > 1


def test_a_run_is_awaited() -> None:
    told: list[float] = []

    async def both() -> tuple[ackwright.Results, int]:
        experiment = Experiment.from_dict(LINE)
        run = asyncio.create_task(experiment.run_async(progress=lambda *now: told.append(now[0])))
        ticks = 0
        while not run.done():
            await asyncio.sleep(0.001)
            ticks += 1
        return await run, ticks

    results, ticks = asyncio.run(both())
    assert len(results) == 2 and ticks > 1 and told
    assert results.runs[0].fingerprint == Experiment.from_dict(LINE).run().runs[0].fingerprint
    with pytest.raises(TypeError, match="progress: True, False or a function"):
        asyncio.run(Experiment.from_dict(LINE).run_async(progress="yes"))  # type: ignore[arg-type]
    with pytest.raises(ackwright.ExperimentError):
        asyncio.run(Experiment.from_dict(LINE | {"duration": "-1s"}).run_async())


def test_a_run_that_is_awaited_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    long = Experiment.from_dict(LINE | {"duration": "20000s", "repetitions": 2})
    long["measure.sample"] = "1s"

    async def cancel_twice() -> tuple[int, float]:
        before = threading.active_count()
        run = asyncio.create_task(long.run_async(out=tmp_path / "out", jobs=1, keep=False))
        await asyncio.sleep(0.3)
        run.cancel()
        await asyncio.sleep(0)
        run.cancel()
        begun = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await run
        return threading.active_count() - before, time.monotonic() - begun

    threads, seconds = asyncio.run(cancel_twice())
    assert threads <= 1 and seconds < 10
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(long.run_async(), timeout=0.2))


def test_ctrl_c_is_not_lost_between_short_runs() -> None:
    """Each of them is over before anybody looks whether it is to stop."""
    short = Experiment.from_dict(LINE | {"duration": "500ms", "repetitions": 1})
    for delay in (0.01, 0.017, 0.023, 0.031, 0.04, 0.055):
        signals = threading.Timer(delay, signal.raise_signal, [signal.SIGINT])
        signals.start()
        over = time.monotonic() + 10
        with pytest.raises(KeyboardInterrupt):
            while time.monotonic() < over:
                short.run(progress=False)
        signals.join()


def test_a_progress_function_that_raises_at_the_end_is_heard() -> None:
    def tell(*_: Any) -> None:
        raise LookupError("mine")

    short = Experiment.from_dict(LINE | {"duration": "500ms", "repetitions": 1})
    with pytest.raises(LookupError, match="mine") as caught:
        short.run(progress=tell)
    assert len(caught.value.results) == 1  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_viewer_is_closed_in_a_fork(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    Experiment.from_dict(LINE | {"repetitions": 1}).run(out=folder, view=True, progress=False)
    with ackwright.view(folder, browser=False) as viewer:
        child = os.fork()
        if child == 0:
            try:
                viewer.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert urllib.request.urlopen(viewer.url).status == 200


class Gentle(CongestionControl):
    """As little as there may be."""

    def on_ack(self, window: Any, ack: Any, acked: int) -> None:
        """The window stays."""

    def on_loss(self, window: Any, ack: Any) -> int:
        return 5


def run_with(**methods: Any) -> ackwright.Results:
    """A lossy download under a congestion control with these methods."""
    module = type("Module", (Gentle,), methods)
    experiment = Experiment.from_dict({**LINE, "repetitions": 1})
    experiment["links.wan.loss"] = "1%"
    experiment["flows.download.congestion_control"] = "own"
    experiment.congestion_control("own", module)
    return experiment.run(progress=False)


@pytest.mark.parametrize("returned", [None, "x", -1, 2**32, 2**200, float("nan"), []])
def test_a_threshold_that_is_no_number(returned: Any) -> None:
    with pytest.raises(TypeError, match="on_loss: returned .*, which is not a number of segments"):
        run_with(on_loss=lambda self, window, ack: returned)


@pytest.mark.parametrize("returned", [0, 1, 2**24 + 1, 2**31, 2**32 - 1])
def test_a_threshold_that_cannot_be(returned: int) -> None:
    with pytest.raises(ValueError, match="on_loss: a threshold must be 2 to 16777216 segments"):
        run_with(on_loss=lambda self, window, ack: returned)


@pytest.mark.parametrize("returned", [2, 2**24, 2**31 - 1])
def test_a_threshold_at_its_ends(returned: int) -> None:
    run_with(on_loss=lambda self, window, ack: returned)


@pytest.mark.parametrize("acked", [0, 1, 2**24, 2**32 - 1])
def test_a_window_grows_by_no_more_than_there_is(acked: int) -> None:
    def on_ack(self: Any, window: Any, ack: Any, _: int) -> None:
        window.slow_start(acked)
        # Above the threshold nothing of it is used.
        assert window.cwnd <= max(window.ssthresh, 2**24)
        window.ssthresh = 2
        assert window.slow_start(acked) in (0, acked)
        window.additive_increase(1, min(acked, 2**24))
        assert window.cwnd <= 2**24

    run_with(on_ack=on_ack)


def test_a_window_is_kept_and_used_by_others() -> None:
    kept: list[Any] = []
    over = threading.Event()
    wrong: list[BaseException] = []

    def use() -> None:
        try:
            while not over.is_set():
                for window, ack in kept[-2:]:
                    window.cwnd = 100
                    window.slow_start(7)
                    assert ack.mss > 0
        except BaseException as error:
            wrong.append(error)

    user = threading.Thread(target=use)
    user.start()
    run_with(on_ack=lambda self, window, ack, acked: kept.append((window, ack)))
    over.set()
    user.join()
    assert not wrong
    with pytest.raises(ValueError, match="additive_increase"):
        kept[0][0].additive_increase(1, 2**32 - 1)


@pytest.mark.parametrize("module", [5, None, Experiment.from_dict(LINE), object, CongestionControl])
def test_what_is_no_congestion_control(module: Any) -> None:
    with pytest.raises(TypeError):
        Experiment.from_dict(LINE).congestion_control("own", module)


def test_an_exception_is_that_of_its_own_run() -> None:
    class Late(Gentle):
        def on_ack(self, window: Any, ack: Any, acked: int) -> None:
            if ack.now_us > 1_000_000:
                raise RuntimeError("late")

    long = Experiment.from_dict({**LINE, "repetitions": 1})
    long.congestion_control("late", Late)
    long["flows.download.congestion_control"] = "late"
    short = long.with_({"duration": "900ms"})
    wrong: list[object] = []

    def fail() -> None:
        for _ in range(20):
            try:
                wrong.append(long.run(progress=False))
            except RuntimeError:
                pass

    def succeed() -> None:
        for _ in range(20):
            try:
                short.run(progress=False)
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=act) for act in (fail, fail, succeed, succeed)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
