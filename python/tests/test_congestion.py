"""Congestion controls that are Python classes."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import LINE

import ackwright
from ackwright import CongestionControl, Experiment


class Reno(CongestionControl):
    """As the built-in one."""

    def on_ack(self, window: Any, ack: Any, acked: int) -> None:
        if window.is_cwnd_limited:
            left = window.slow_start(acked) if window.in_slow_start else acked
            if left:
                window.additive_increase(window.cwnd, left)

    def on_loss(self, window: Any, ack: Any) -> int:
        return max(window.cwnd // 2, 2)


def with_control(name: str, control: type[CongestionControl] | None = None) -> Experiment:
    """A download under that congestion control."""
    experiment = Experiment.from_dict({**LINE, "repetitions": 1, "duration": "5s"})
    experiment["flows.download.congestion_control"] = name
    if control is not None:
        experiment.congestion_control(name, control)
    return experiment


def test_reno_in_python_is_reno() -> None:
    own = with_control("own-reno", Reno).run(progress=False)
    built_in = with_control("reno").run(progress=False)
    assert own.runs[0].fingerprint == built_in.runs[0].fingerprint
    assert with_control("cubic").run(progress=False).runs[0].fingerprint != own.runs[0].fingerprint


def test_it_is_swept_beside_the_others_and_travels() -> None:
    experiment = with_control("own-reno", Reno)
    experiment["parameters"] = {"queue": "pfifo limit 100", "cc": "reno"}
    experiment["flows.download.congestion_control"] = "${cc}"
    grid = experiment.sweep("cc", ["reno", "own-reno"])
    for one in (grid, pickle.loads(pickle.dumps(grid))):
        runs = one.run(progress=False).runs
        assert runs[0].fingerprint == runs[1].fingerprint


def test_it_hears_what_happens() -> None:
    heard: dict[str, list[Any]] = {}

    class Curious(Reno):
        def on_start(self, window: Any, ack: Any) -> None:
            heard.setdefault("start", []).append((window.cwnd, ack.mss, ack.srtt_us))
            self.lost = 0

        def on_rtt(self, window: Any, ack: Any, rtt_us: int) -> None:
            heard.setdefault("rtt", []).append((rtt_us, ack.min_rtt_us, ack.now_us))

        def on_loss(self, window: Any, ack: Any) -> int:
            heard.setdefault("loss", []).append((window.cwnd, ack.packets_in_flight, ack.lost))
            return super().on_loss(window, ack)

        def on_event(self, window: Any, ack: Any, event: str) -> None:
            heard.setdefault(event, []).append(window.prior_cwnd)

    results = with_control("curious", Curious).run(progress=False)
    reno = with_control("reno").run(progress=False)
    assert results.runs[0].fingerprint == reno.runs[0].fingerprint
    assert heard["start"][0][0] == 10 and 1400 < heard["start"][0][1] < 1500
    rtts = [rtt for rtt, *_ in heard["rtt"]]
    assert min(rtts) >= 20_000 and max(rtts) > 60_000
    times = [now for *_, now in heard["rtt"]]
    assert times == sorted(times) and heard["tx_start"]
    assert heard["loss"] and heard["loss"][0][0] > 50


def test_a_rate_based_one_sets_window_and_rate() -> None:
    class Fixed(CongestionControl):
        def on_sample(self, window: Any, ack: Any, sample: Any) -> None:
            assert sample.interval_us >= 0 and sample.prior_in_flight >= 0
            window.cwnd = 100
            window.pacing_rate = 500_000

        def on_loss(self, window: Any, ack: Any) -> int:
            return int(window.ssthresh)

    goodput = with_control("fixed", Fixed).run(progress=False).value("download goodput")
    assert 3.5 < goodput < 4.05


class Halving(Reno):
    """Reno, as it is."""


def test_results_of_another_class_are_not_gone_on_with(tmp_path: Path) -> None:
    """The same name, and another source: what is there is not what would come out."""
    out = tmp_path / "out"
    with_control("own", Reno).run(progress=False, out=out)
    before = (out / "runs" / "seed-1.json").read_bytes()
    with_control("own", Reno).run(progress=False, out=out, resume=True)
    assert (out / "runs" / "seed-1.json").read_bytes() == before
    with_control("own", Halving).run(progress=False, out=out, resume=True)
    assert (out / "runs" / "seed-1.json").read_bytes() != before


class Wrong(Reno):
    """Divides by zero at its hundredth ACK."""

    def on_ack(self, window: Any, ack: Any, acked: int) -> None:
        if ack.delivered > 100:
            print(1 / 0)
        super().on_ack(window, ack, acked)


def test_an_exception_ends_the_run(tmp_path: Path) -> None:
    experiment = with_control("${cc}", None)
    experiment["parameters"] = {"queue": "pfifo limit 100", "cc": "reno"}
    experiment.congestion_control("wrong", Wrong)
    grid = experiment.sweep("cc", ["reno", "wrong", "cubic"])
    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError) as caught:
        grid.run(jobs=1, progress=False, out=tmp_path / "out")
    assert time.monotonic() - begun < 20
    assert caught.traceback[-1].name == "on_ack"
    # What was finished before is whole; nothing is there of the run that failed.
    records = [path.name for path in (tmp_path / "out" / "runs").iterdir()]
    assert records == ["reno-seed-1.json"] and (tmp_path / "out" / "results.csv").exists()
    assert not list((tmp_path / "out").rglob("*.part"))
    assert [run.point["cc"] for run in getattr(caught.value, "results")] == ["reno"]
    with pytest.raises(ZeroDivisionError) as caught:
        grid.run(jobs=1, progress=False)
    assert getattr(caught.value, "results").value("download goodput", cc="reno") > 1
    # The next run begins anew.
    assert len(grid.with_({"cc": "reno"}).run(progress=False)) == 1
    with pytest.raises(ZeroDivisionError):
        grid.run(executor="serial", out=tmp_path / "serial")
    with pytest.raises(ZeroDivisionError):
        with_control("wrong", Wrong).explain("download")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"on_ack": lambda self, window, ack, acked: setattr(window, "cwnd", 0)}, "a window must have 1 to"),
        ({"on_loss": lambda self, window, ack: 1}, "a threshold must be 2 to"),
        ({"on_ack": lambda self, window, ack, acked: setattr(window, "pacing_rate", 1)}, "on_sample"),
    ],
)
def test_laws_are_kept(broken: dict[str, Any], message: str) -> None:
    control = type("Broken", (Reno,), broken)
    with pytest.raises(ValueError, match=message):
        with_control("broken", control).run(progress=False)


def test_what_is_no_congestion_control_is_refused() -> None:
    experiment = with_control("reno")
    with pytest.raises(ValueError, match="already"):
        experiment.congestion_control("cubic", Reno)
    with pytest.raises(ValueError, match="cannot name"):
        experiment.congestion_control("a name with blanks", Reno)
    with pytest.raises(TypeError, match="does not derive"):
        experiment.congestion_control("int", int)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no on_loss"):
        experiment.congestion_control("half", type("Half", (CongestionControl,), {}))
    with pytest.raises(ackwright.ExperimentError):
        with_control("nobodys").check()


def test_how_much_slower_it_is() -> None:
    """The figure of docs/python.md, of this build: Python costs, but no more than an order."""
    times = {}
    for name, control in {"reno": None, "own-reno": Reno}.items():
        experiment = with_control(name, control)
        experiment["duration"] = "60s"
        begun = time.process_time()
        experiment.run(jobs=1, threads=1, progress=False)
        times[name] = time.process_time() - begun
    print(f"{times['own-reno'] / times['reno']:.1f} times the time of the built-in one")
    assert times["own-reno"] < 20 * times["reno"] + 1
