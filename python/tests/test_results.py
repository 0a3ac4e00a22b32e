"""Results as tables, and what other libraries read of them."""

from __future__ import annotations

import io
import json

import pytest

import ackwright


def test_metrics_are_tidy(results: ackwright.Results) -> None:
    table = results.metrics
    assert table.columns == ["point", "point.queue", "seed", "scope", "metric", "value", "unit"]
    only = table.select("scope", "download").select("metric", "goodput")
    assert len(only) == 4 and set(only["unit"]) == {"Mbit/s"}
    assert only[0] == only.rows()[0] and only[-1] == only.rows()[-1]
    assert only["value"] == results.values("download goodput")
    with pytest.raises(IndexError):
        only[4]
    with pytest.raises(KeyError, match="did you mean"):
        only["valeu"]


def test_values_by_point(results: ackwright.Results) -> None:
    fifo = results.value("ping latency median", queue="pfifo limit 100")
    codel = results.value("ping latency median", queue="fq_codel")
    assert fifo > 3 * codel
    assert results.runs[0].metrics["ping latency median"] == pytest.approx(fifo, rel=0.5)
    with pytest.raises(KeyError, match="no run has"):
        results.value("ping latncy")
    with pytest.raises(KeyError, match="no axis is called"):
        results.value("ping latency median", que="fq_codel")
    with pytest.raises(KeyError, match="no point has queue 'true'; labels are pfifo limit 100, fq_codel"):
        results.value("ping latency median", queue=True)


def test_summary_series_flows_distributions(results: ackwright.Results) -> None:
    summary = results.summary.select("metric", "goodput").select("scope", "download").rows()
    assert [row["n"] for row in summary] == [2, 2]
    assert all(row["min"] <= row["mean"] <= row["max"] for row in summary)
    assert {"flow-download", "port-router.wan"} <= set(results.series_names)
    series = results.series("flow-download")
    assert len(series) == 4 * 200 and {"time_ns", "point", "seed", "flow"} <= set(series.columns)
    with pytest.raises(LookupError, match="did you mean"):
        results.series("flow-downlaod")
    assert results.flows.select("flow", "download")["app"] == ["bulk"] * 4
    quantiles = results.distributions.select("what", "latency").select("seed", 1)
    assert quantiles["share"][0] == 0 and quantiles["share"][-1] == 1
    assert json.loads(results.summary_json())["points"][0]["runs"]
    assert "Mbit/s" in str(results) and "<table>" in results._repr_html_()
    assert "qdisc" in results.runs[0].tc["router.wan"]


def test_polars_reads_tables(results: ackwright.Results) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(results.series("flow-download"))
    assert frame.columns == results.series("flow-download").columns
    assert frame["time_ns"].to_list() == results.series("flow-download")["time_ns"]
    assert polars.read_parquet(results.metrics.parquet()).equals(polars.DataFrame(results.metrics))


def test_pyarrow_reads_tables(results: ackwright.Results) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for table in (results.metrics, results.flows, results.series("port-router.wan")):
        read = pyarrow.table(table)
        assert read.to_pylist() == table.rows()
        assert pyarrow.schema(table) == read.schema
    # A stream that nobody reads is given back too.
    results.metrics.__arrow_c_stream__()


def test_pandas_reads_tables(results: ackwright.Results) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame.from_arrow(results.metrics)
    assert list(frame["value"]) == results.metrics["value"]
    assert frame.equals(results.metrics.to_pandas())
    csv = pandas.read_csv(io.StringIO(results.flows.csv()))
    assert list(csv["flow"]) == results.flows["flow"]


def test_plots(results: ackwright.Results) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    assert len(results.plot("download goodput").get_lines()) >= 1
    assert results.plot("cwnd", of="download").get_ylabel().startswith("cwnd")
    assert len(results.plot("queue", of="port-router.wan").get_lines()) == 2
    assert results.plot("latency").get_ylabel() == "share"
    assert results.plot("queue-length").get_xlabel() == "queue-length [packets]"
    with pytest.raises(LookupError):
        results.plot("cwdn")
    with pytest.raises(LookupError):
        results.plot("latency", of="nobody")
    matplotlib.pyplot.close("all")


def test_tables_become_frames(
    results: ackwright.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    frames = [results.metrics.to_pandas(), results.series("flow-download").to_pandas()]
    # Before pandas 3, and without pyarrow.
    monkeypatch.delattr(pandas.DataFrame, "from_arrow", raising=False)
    for table, frame in zip([results.metrics, results.series("flow-download")], frames, strict=True):
        again = table.to_pandas()
        assert list(again.columns) == list(frame.columns) == table.columns
        pandas.testing.assert_frame_equal(again, frame, check_dtype=False)
    polars = pytest.importorskip("polars")
    assert results.metrics.to_polars().equals(polars.DataFrame(results.metrics))
