#!/usr/bin/env python3
"""Tests `ackwright run --live`, `shell` and `emulate`: experiments with real packets.

usage: scripts/live_run_test.py BINARY [NAME...]

The program makes its namespaces itself, in one of this script's. Where none can be made, it says so loudly
("SKIPPED: ...") and ends with success. Bounds are those that a loaded machine keeps: rates are never exceeded, delays never
undercut; how late things are is printed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import live_test
from namespaces import run_tests

FILE = """
schema = 1
name = "live"
title = "live"
duration = "4s"
warmup = "1s"
[nodes.A]
[nodes.R]
role = "router"
[nodes.B]
[links.near]
ends = ["A", "R"]
rate = "100mbit"
[links.far]
ends = ["R", "B"]
rate = "10mbit"
rtt = "20ms"
[qdisc]
"R.far" = "fq_codel"
[measure]
pcap = ["R.far"]
[flows.bulk]
app = "bulk"
from = "A"
to = "B"
[flows.probe]
app = "probe"
from = "B"
to = "A"
[flows.ping]
app = "ping"
from = "B"
to = "A"
"""


class Test:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def close(self):
        """Nothing is left of a run that has ended."""

    def write(self, text, name="live.toml"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def call(self, *words, code=0, **how):
        done = subprocess.run([self.binary, *words], capture_output=True, text=True, timeout=120, **how)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def run(self, text, *words):
        """The metrics of a run, and the files that it has left."""
        out = tempfile.mkdtemp(dir=self.folder)
        self.call("run", self.write(text), "--out", out, "--runs", "1", *words)
        files = {os.path.relpath(os.path.join(at, name), out) for at, _, names in os.walk(out) for name in names}
        with open(os.path.join(out, "runs", "seed-1.json")) as file:
            metrics = json.load(file)["metrics"]
        return {f"{scope} {name}": value for scope, name, _, value in metrics}, files, out


def check(metrics, name):
    late = metrics["live late p50"] / 1e3, metrics["live late p99"] / 1e3, metrics["live late max"] / 1e3
    goodput = metrics["bulk goodput"]
    print(f"  {name}: {goodput:.2f} of 10 Mbit/s, ping {metrics['ping latency median']:.1f} ms over 20; late by "
          f"{late[0]:.2f} (p50) {late[1]:.2f} (p99) {late[2]:.1f} ms (worst)")
    # 10 Mbit/s of frames carry 9.57 Mbit/s of payload.
    assert 4 < goodput < 9.7, goodput
    assert metrics["ping latency min"] >= 20 and metrics["probe latency min"] >= 20, metrics
    assert metrics["ping latency min"] < 60, metrics
    assert metrics["live packets lost"] == 0, metrics
    assert min(metrics["live packets to devices"], metrics["live packets from devices"]) > 1000, metrics


def test_our_stack(test):
    """The same files as a simulation leaves, and figures that the path allows."""
    simulated, files, _ = test.run(FILE)
    live, live_files, _ = test.run(FILE, "--live")
    check(live, "ours")
    assert files == live_files, files ^ live_files
    assert simulated.keys() == {name for name in live if not name.startswith("live ")}, "the same metrics"


def test_bytes_over_devices(test):
    """What our applications write crosses real devices, and is read as it was written; a kernel's are refused."""
    live, _, _ = test.run("bytes = true\n" + FILE, "--live")
    check(live, "ours")
    assert live["bytes compared"] > 1e6 and live["bytes datagrams"] > 20, live
    kernels = test.call("run", test.write("bytes = true\n" + FILE), "--live", "--stack", "kernel", code=1).stderr
    assert "all hosts must run on our stack" in kernels, kernels


def test_the_kernels_stack(test):
    live, files, _ = test.run(FILE, "--live", "--stack", "kernel")
    check(live, "kernel")
    assert any(name.endswith(".pcapng") for name in files), files


def test_ours_to_the_kernel_and_back(test):
    for node in ("A", "B"):
        text = FILE.replace(f"[nodes.{node}]", f'[nodes.{node}]\nstack = "kernel"')
        live, _, _ = test.run(text, "--live")
        check(live, f"kernel at {node}")


def test_impairments_and_events(test):
    """Loss is made up for; nothing arrives while a link is down."""
    text = FILE.replace('rtt = "20ms"', 'rtt = "20ms"\nloss = "1%"\nevents = ["1500ms down", "2s up"]')
    live, _, _ = test.run(text, "--live", "--stack", "kernel")
    assert live["total retransmits"] > 0, live
    assert 0.2 < live["bulk goodput"] < 9.7, live


def test_real_programs(test):
    program = f"""
[flows.echo]
app = "program"
from = "A"
to = "B"
start = "2s"
program = ["{sys.executable}", "-c", "import socket;s=socket.create_connection(('{{to}}',{{port}}));s.sendall(b'hello');print(s.recv(9).decode())"]
server = ["{sys.executable}", "-c", "import socket;l=socket.create_server(('{{to}}',{{port}}));c,_=l.accept();c.sendall(c.recv(9).upper());c.close()"]
"""
    text = 'stack = "kernel"\n' + FILE.replace('"4s"', '"6s"') + program
    metrics, files, out = test.run(text, "--live")
    with open(os.path.join(out, "programs", "seed-1-echo.txt")) as file:
        assert file.read() == "HELLO\n"
    path = test.write(text)
    refused = test.call("run", path, code=1).stderr
    assert "--live" in refused, refused
    wrong = text.replace("s.sendall(b'hello')", "1/0")
    failed = test.call("run", test.write(wrong), "--live", code=1).stderr
    assert "ZeroDivisionError" in failed, failed


def test_a_shell(test):
    path = test.write(FILE)
    out = test.call("shell", path, "A", "--", sys.executable, "-c", PING).stdout
    took = float(out)
    assert 20 <= took < 200, took
    assert "hosts" in (error := test.call("shell", path, "R", code=2).stderr) or "A, B" in error, error
    assert test.call("shell", path, "A", "--", "sh", "-c", "exit 7", code=7)


# A TCP handshake with a port that is closed: its refusal takes a round trip.
PING = """
import socket, time
s = socket.socket()
begun = time.monotonic()
try:
    s.connect(("10.0.0.6", 9))
except ConnectionRefusedError:
    print(1000 * (time.monotonic() - begun))
"""


def test_nothing_is_left(test):
    """Neither devices nor programs, also after kill -9."""
    before = devices()
    text = 'stack = "kernel"\n' + FILE + f"""
[flows.sleep]
app = "program"
from = "A"
to = "B"
program = ["{sys.executable}", "-c", "import time;time.sleep(31415)"]
"""
    process = subprocess.Popen([test.binary, "run", test.write(text), "--live"], stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    wait_for(lambda: sleepers() > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: sleepers() == 0)
    assert devices() == before


def devices():
    return sorted(os.listdir("/sys/class/net"))


def sleepers():
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        found += "import time;time.sleep(31415)" in words and "-c" in words
    return found


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.02)


def test_emulate(test):
    test.call("emulate", "a", "b", code=2)
    world = live_test.World(test.binary, test.folder)
    try:
        emulate(world)
    finally:
        world.close()


def emulate(world):
    process = subprocess.Popen([world.binary, "emulate", "a", "b", "--ab", "delay 15ms", "--ba", "delay 10ms", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    while line.startswith("note: "):
        line = process.stderr.readline()
    assert line.startswith("shaping between"), line
    live_test.transfer(world, 20_000)
    took = live_test.transfer(world, 20_000, port=5002)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    # A handshake, and a flight of ten segments and one of five: three times 25 ms, less the last way back.
    assert took >= 0.05, took
    assert all(direction["taken_packets"] > 0 for direction in json.loads(out)["directions"])


if __name__ == "__main__":
    sys.exit(run_tests("live run", globals(), Test))
