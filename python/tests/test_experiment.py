"""Experiments: read, edited, refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from conftest import LINE, ROOT

import ackwright
from ackwright import Experiment, ExperimentError

FIRST = ROOT / "experiments" / "first.toml"


def test_a_file_and_its_text_are_the_same(tmp_path: Path) -> None:
    of_file = Experiment.from_toml(FIRST)
    of_text = Experiment.from_toml(FIRST.read_text())
    assert of_file.points == of_text.points == [{"queue": "fifo"}, {"queue": "fq_codel"}]
    assert of_file["flows"] == of_text["flows"]
    assert Experiment.from_toml(str(FIRST))["name"] == "first"
    with pytest.raises(FileNotFoundError):
        Experiment.from_toml(tmp_path / "none.toml")


def test_edits_reach_every_kind_of_place() -> None:
    experiment = Experiment.from_toml(FIRST)
    experiment["queue"] = "fq_codel"
    experiment["links.dsl.forward.rate"] = "5mbit"
    experiment["sysctl.net.ipv4.tcp_sack"] = 0
    experiment["flows.second"] = {"app": "bulk", "from": "server", "to": "client"}
    del experiment["flows.ping"]
    experiment["measure"] = {"table": ["total goodput"]}
    experiment["duration"] = "8s"
    assert experiment["links.dsl.forward.rate"] == "5mbit"
    assert "flows.ping" not in experiment and "flows.second" in experiment
    assert experiment.points == [{"queue": "fq_codel"}]
    results = experiment.run(repetitions=1)
    assert results.value("total goodput") < 5
    with pytest.raises(KeyError):
        experiment["links.none"]
    with pytest.raises(KeyError):
        del experiment["links.none"]


def test_a_copy_is_another() -> None:
    experiment = Experiment.from_dict(LINE)
    copy = experiment.copy()
    copy["duration"] = "9s"
    assert (experiment["duration"], copy["duration"]) == ("2s", "9s")


def test_mistakes_have_a_place() -> None:
    text = FIRST.read_text().replace('rate = "1gbit"', 'rat = "1gbit"')
    with pytest.raises(ExperimentError) as caught:
        Experiment.from_toml(text).check()
    error = caught.value
    line = text.splitlines().index('rat = "1gbit"') + 1
    assert (error.file, error.line, error.column) == ("<text>", line, 1)
    assert error.message == 'unknown key "rat"'
    assert error.help == 'did you mean "rate"?'
    assert f"<text>:{line}:1: " in str(error)
    assert isinstance(error, ValueError) and isinstance(error, ackwright.Error)
    again = pickle.loads(pickle.dumps(error))
    assert again.faults == error.faults and str(again) == str(error)


def test_text_that_is_no_toml_has_a_place() -> None:
    with pytest.raises(ExperimentError) as caught:
        Experiment.from_toml('name = "x"\nnodes = = 3\n')
    assert caught.value.line == 2


def test_edits_that_cannot_be_are_named() -> None:
    experiment = Experiment.from_dict(LINE)
    with pytest.raises(ExperimentError, match=r"experiment\['lnks.wan.rate'\]: there is no \"lnks\"") as caught:
        experiment["lnks.wan.rate"] = "1mbit"
    assert caught.value.line is None
    assert caught.value.help == 'did you mean "links"?'
    experiment["links.wan.rate"] = "fast"
    with pytest.raises(ExperimentError, match="links.wan.rate"):
        experiment.run()
    with pytest.raises(TypeError, match="not a value of an experiment"):
        experiment["duration"] = object()  # type: ignore[assignment]
    with pytest.raises(TypeError):
        experiment["duration"] = None  # type: ignore[assignment]
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too deep"):
        experiment["duration"] = endless  # type: ignore[assignment]


@pytest.mark.parametrize("steps", [[], 3, {"case": 3}, "text"])
def test_sweeps_that_cannot_be_are_refused(steps: object) -> None:
    with pytest.raises(ExperimentError):
        Experiment.from_dict(LINE).sweep("queue", steps).check()  # type: ignore[arg-type]


def test_a_metric_that_nothing_measures_is_named() -> None:
    experiment = Experiment.from_dict(LINE)
    experiment["measure"] = {"table": ["downlaod goodput"]}
    with pytest.raises(ExperimentError, match="no metric is called"):
        experiment.run()


def test_draws_differ_between_repetitions() -> None:
    experiment = Experiment.from_dict(LINE).draw("links.wan.rtt", uniform=["10ms", "50ms"])
    drawn = [run.drawn["links.wan.rtt"] for run in experiment.run(repetitions=3)]
    assert len(set(drawn)) == 3


def test_explain_tells_of_a_flow(line: Experiment) -> None:
    line["queue"] = "pfifo limit 10"
    assert len(line.explain("download").splitlines()) > 5
    with pytest.raises(ExperimentError):
        line.explain("downlaod")
    with pytest.raises(IndexError):
        line.explain("download", point=9)
