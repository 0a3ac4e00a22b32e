"""drill, replay, ecmp, tc."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT

import ackwright


def test_drill_runs_scripts_and_says_where_they_fail() -> None:
    folder = ROOT / "conformance" / "tcp" / "accecn"
    done = ackwright.drill(folder)
    assert done and done.passed > 0
    script = "\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = -1\n"
    failed = ackwright.drill(script)
    assert not failed and failed.scripts[0]["line"] == 3
    assert "script:3" in failed.text
    assert ackwright.drill(script, ip_version="ipv6").scripts[0]["ip_version"] == "ipv6"
    with pytest.raises(ValueError, match="ip_version"):
        ackwright.drill(script, ip_version="ipv5")
    with pytest.raises(ValueError, match="0 to 1024"):
        ackwright.drill(script, jobs=1025)
    with pytest.raises(ValueError):
        ackwright.drill(script, no_such_flag=1)
    with pytest.raises(FileNotFoundError):
        ackwright.drill("none.pkt")


def test_replay_puts_a_capture_through_a_qdisc(tmp_path: Path, line: ackwright.Experiment) -> None:
    line["measure"] = {"pcap": ["router.wan"]}
    line.run(repetitions=1, out=tmp_path / "out")
    capture = next((tmp_path / "out").rglob("*.pcapng"))
    done = ackwright.replay(capture, "fq_codel", rate="8mbit", out=tmp_path / "after.pcapng")
    assert done.total["in"]["packets"] > 100
    assert "fq_codel" in done.tc and (tmp_path / "after.pcapng").stat().st_size > 1000
    with pytest.raises(ackwright.ExperimentError) as caught:
        ackwright.replay(capture, "fq_codel limt 10")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("qdisc", 1, 10)
    with pytest.raises(ackwright.ExperimentError):
        ackwright.replay(ROOT / "README.md", "fq_codel")
    for wrong in ({"rate": "fast"}, {"rate": "0mbit"}, {"from_": "x"}, {"out": capture}):
        with pytest.raises(ValueError):
            ackwright.replay(capture, "fq_codel", **wrong)  # type: ignore[arg-type]


ROUTES = """
link add eth0
link add eth1
link add in0
address add 10.0.1.1/24 dev eth0
address add 10.0.2.1/24 dev eth1
route add 198.18.0.0/15 nexthop via 10.0.1.2 dev eth0 nexthop via 10.0.2.2 dev eth1
"""


def test_ecmp_says_what_moves(tmp_path: Path) -> None:
    flows = tmp_path / "flows.csv"
    lines = [f"10.9.0.7,198.18.{n % 250}.1,6,{1024 + n},443,1000\n" for n in range(200)]
    flows.write_text("".join(lines))
    answer = ackwright.ecmp(flows, ROUTES, policy="l4")
    assert answer["flows"] == 200 and len(answer["failures"]) == 2
    assert len(ackwright.ecmp(flows, ROUTES, fail="eth1")["failures"]) == 1
    with pytest.raises(ValueError, match="no such next hop"):
        ackwright.ecmp(flows, ROUTES, fail="eth7")
    with pytest.raises(ValueError, match="policy"):
        ackwright.ecmp(flows, ROUTES, policy="l9")
    with pytest.raises(ackwright.ExperimentError) as caught:
        ackwright.ecmp(flows, ROUTES.replace("route add", "route frobnicate"))
    assert (caught.value.file, caught.value.line) == ("<text>", 7)
    flows.write_text("10.9.0.7,198.18.0.1,6,1\n")
    with pytest.raises(ackwright.ExperimentError) as caught:
        ackwright.ecmp(flows, ROUTES)
    assert caught.value.line == 1 and caught.value.file.endswith("flows.csv")


def test_tc_says_which_command_is_wrong() -> None:
    state = ackwright.tc(
        "qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 3kb limit 90kb",
        "qdisc add dev eth0 parent 1:1 codel",
    )
    assert [qdisc["kind"] for qdisc in state.qdiscs] == ["tbf", "codel"] and "codel" in str(state)
    with pytest.raises(ackwright.ExperimentError) as caught:
        ackwright.tc("qdisc add dev eth0 root fq_codel", "qdisc change dev eth0 root fq_codel limt 3")
    assert (caught.value.line, caught.value.column) == (2, 37)
    with pytest.raises(ValueError):
        ackwright.tc()
