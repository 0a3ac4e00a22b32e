"""Linux's network fast path in a deterministic laboratory.

An experiment is one file, or a dict. It runs in virtual time, and the same experiment with the same
seed gives the same results on every machine.

>>> import ackwright
>>> experiment = ackwright.Experiment.from_toml('''
... schema = 1
... name = "line"
... duration = "3s"
... [nodes]
... server = {}
... client = {}
... [links.line]
... ends = ["server", "client"]
... rate = "10mbit"
... rtt = "20ms"
... [flows.download]
... app = "bulk"
... from = "server"
... to = "client"
... ''')
>>> results = experiment.run()
>>> results.value("download goodput") > 8
True
"""

from ackwright._native import PROGRAM, Table
from ackwright.congestion import CongestionControl
from ackwright.errors import (
    Error,
    ExperimentError,
    Fault,
    Interrupted,
    OutputError,
    RunError,
)
from ackwright.executors import Processes, Ray, Serial
from ackwright.experiment import Experiment, sweep
from ackwright.results import Results, Run
from ackwright.tools import Drilled, Replayed, TcState, drill, ecmp, replay, tc
from ackwright.viewer import Viewer, export, view

__version__ = PROGRAM.split()[1]

__all__ = [
    "CongestionControl",
    "Drilled",
    "Error",
    "Experiment",
    "ExperimentError",
    "Fault",
    "Interrupted",
    "OutputError",
    "Processes",
    "Ray",
    "Replayed",
    "Results",
    "Run",
    "RunError",
    "Serial",
    "Table",
    "TcState",
    "Viewer",
    "__version__",
    "drill",
    "ecmp",
    "export",
    "replay",
    "sweep",
    "tc",
    "view",
]
