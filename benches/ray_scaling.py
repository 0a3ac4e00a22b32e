#!/usr/bin/env python3
"""What a Ray cluster costs and gains: efficiency with one and two workers, the cost of a task, and what
follows for more of them.

usage: target/python/venv/bin/python benches/ray_scaling.py [RUNS [DURATION]]
       (after `make python-test`; 100 runs of 20s of virtual time)

Not part of `make test`. The workers are of one machine, one processor each, as far as it has them.
"""

import os
import sys
import tempfile
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
from ray.cluster_utils import Cluster

import ackwright
from ackwright import executors

EXPERIMENT = {
    "schema": 1, "name": "scaling", "duration": "20s", "repetitions": 10,
    "nodes": {"server": {}, "client": {}},
    "links": {"line": {"ends": ["server", "client"], "rate": "200mbit", "rtt": "20ms"}},
    "flows": {"download": {"app": "bulk", "from": "server", "to": "client"}},
    "measure": {"sample": "100ms"},
}


class Timed:
    """An executor that adds up how long the runs themselves took."""

    def __init__(self, executor):
        self.executor, self.seconds, self.driver = executor, 0.0, 0.0

    def run(self, job, places):
        begun = time.process_time()
        for place, done in self.executor.run(job, places):
            if isinstance(done, executors.Done):
                self.seconds += done.seconds
            yield place, done
        self.driver = time.process_time() - begun


def measure(experiment, executor):
    """Wall seconds of a sweep, seconds of its runs, and processor seconds of the driver."""
    timed = Timed(executor)
    with tempfile.TemporaryDirectory() as out:
        begun = time.monotonic()
        runs = len(experiment.run(executor=timed, out=out, progress=False))
        return time.monotonic() - begun, timed.seconds, timed.driver, runs


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rates = [f"{rate}mbit" for rate in range(200, 200 + runs // 10)]
    duration = sys.argv[2] if len(sys.argv) > 2 else "20s"
    experiment = ackwright.Experiment.from_dict({**EXPERIMENT, "duration": duration}).sweep("links.line.rate", rates)
    serial, alone, _, count = measure(experiment, executors.Serial())
    print(f"{count} runs of {alone / count * 1e3:.0f} ms; load of the machine {os.getloadavg()[0]:.1f}")
    print(f"serial             {serial:6.1f} s")
    costs = []
    for workers in (1, 2):
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
        for _ in range(workers - 1):
            cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        warm = experiment.with_({"links.line.rate": "100mbit", "repetitions": 2 * workers})
        measure(warm, executors.Ray())
        wall, inside, driver, _ = measure(experiment, executors.Ray())
        cost = (workers * wall - inside) / count
        costs.append((cost, driver / count, inside / count))
        print(f"Ray, {workers} worker{'s' * (workers > 1)}     {wall:6.1f} s  efficiency {serial / workers / wall:4.0%}  "
              f"beside its run a task takes {cost * 1e3:.1f} ms of a worker, {driver / count * 1e3:.2f} ms of the driver")
        ray.shutdown()
        cluster.shutdown()
    cost, driver, _ = costs[0]
    print("on paper, if tasks cost what they cost with one worker, and the driver is the limit:")
    for each in (0.1, 1, 10):
        most = (each + cost) / driver
        print(f"  runs of {each:4.1f} s: efficiency {each / (each + cost):4.0%} up to {most:,.0f} workers")


if __name__ == "__main__":
    main()
