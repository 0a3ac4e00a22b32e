"""What tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ackwright

ROOT = Path(__file__).resolve().parents[2]

LINE: dict[str, Any] = {
    "schema": 1,
    "name": "line",
    "duration": "2s",
    "repetitions": 2,
    "nodes": {"server": {}, "router": {"role": "router"}, "client": {}},
    "links": {
        "lan": {"ends": ["server", "router"], "rate": "1gbit"},
        "wan": {"ends": ["router", "client"], "rate": "10mbit", "rtt": "20ms"},
    },
    "qdisc": {"router.wan": "${queue}"},
    "parameters": {"queue": "pfifo limit 100"},
    "flows": {
        "download": {"app": "bulk", "from": "server", "to": "client"},
        "ping": {"app": "ping", "from": "client", "to": "server", "interval": "100ms"},
    },
}


@pytest.fixture
def line() -> ackwright.Experiment:
    """One flow over a slow line."""
    return ackwright.Experiment.from_dict(LINE)


@pytest.fixture(scope="session")
def results() -> ackwright.Results:
    """Of that line with two queues."""
    experiment = ackwright.Experiment.from_dict(LINE)
    return experiment.sweep("queue", ["pfifo limit 100", "fq_codel"]).run(progress=False)
