#!/usr/bin/env python3
"""Tests `ackwright service`, `top` and `ctl` on it, in network namespaces of its own.

usage: scripts/service_test.py BINARY [NAME...]

Where no namespace can be made, it says so loudly ("SKIPPED: ...") and ends with success.
"""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request

from live_test import transfer
from namespaces import ip, run_tests
from route_test import FILE, World, ping, until

METRICS = "127.0.0.1:9199"


class Service:
    """A running `ackwright service`."""

    def __init__(self, world, text):
        world.number += 1
        self.binary = world.binary
        os.chmod(world.folder, 0o755)
        self.file = os.path.join(world.folder, f"service{world.number}.toml")
        self.log_path = os.path.join(world.folder, f"log{world.number}")
        self.ctl_path = os.path.join(world.folder, f"ctl{world.number}")
        self.head = f'log = "json"\nctl = "{self.ctl_path}"\nmetrics = "{METRICS}"\nuser = "nobody"\n'
        self.write(text)
        self.process = subprocess.Popen([self.binary, "service", self.file], stderr=open(self.log_path, "w"))
        world.processes.append(self.process)
        until(lambda: self.logged("devices are open") or self.process.poll() is not None)
        assert self.process.poll() is None, open(self.log_path).read()

    def write(self, text):
        with open(self.file, "w") as file:
            file.write(self.head + text)
        os.chmod(self.file, 0o644)

    def log(self):
        """Every line is JSON."""
        return [json.loads(line) for line in open(self.log_path)]

    def logged(self, words):
        return [line for line in self.log() if words in line["message"]]

    def ctl(self, *words):
        return subprocess.run([self.binary, "ctl", "--ctl", self.ctl_path, *words], capture_output=True, text=True)

    def metrics(self):
        with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            text = answer.read().decode()
        assert text.endswith("# EOF\n")
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[0] != "#"}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=20) == 0, open(self.log_path).read()


def shape(bandwidth):
    return f'[shape]\nbetween = ["b", "c"]\nab = "cake bandwidth {bandwidth}"\nba = "fq_codel"\n'


def test_a_router_as_nobody(world):
    routes = os.path.join(world.folder, "routes.ip")
    with open(routes, "w") as file:
        file.write(FILE + "tc qdisc add dev b root cake bandwidth 50mbit\n")
    os.chmod(routes, 0o644)
    service = Service(world, f'[route]\ndev = ["a", "b", "c"]\nfile = "{routes}"\n')
    status = open(f"/proc/{service.process.pid}/status").read()
    assert re.search(r"^Uid:\t(\d+)\t\1\t\1\t\1$", status, re.M)[1] != "0", status
    for field in ("CapEff", "CapPrm", "CapBnd", "CapInh"):
        assert re.search(rf"^{field}:\t0+$", status, re.M), status
    assert "NoNewPrivs:\t1" in status
    assert ping(world.left, "10.2.0.2")[0] == 3
    transfer(world, 1 << 20, target="10.2.0.2")
    metrics = service.metrics()
    assert metrics['ackwright_received_packets_total{device="a"}'] > 100, metrics
    assert metrics['ackwright_cake_tin_sent_packets_total{device="b",tin="1"}'] > 100, metrics
    assert metrics['ackwright_device_up{device="b"}'] == 1
    top = subprocess.run([service.binary, "top", "--ctl", service.ctl_path, "--interval", "100ms"], capture_output=True, text=True)
    assert "b cake" in top.stdout and "tin" in top.stdout, top
    once = subprocess.run([service.binary, "top", "--ctl", service.ctl_path, "--json"], capture_output=True, text=True)
    assert {port["name"] for port in json.loads(once.stdout)["show"]["ports"]} == {"a", "b", "c"}
    with open(routes, "w") as file:
        file.write(FILE + "route add 10.8.0.0/16 via 10.2.0.2\ntc qdisc add dev b root cake bandwidth 20mbit\n")
    service.process.send_signal(signal.SIGHUP)
    until(lambda: service.logged("configuration reloaded"))
    assert "10.8.0.0/16 via 10.2.0.2 dev b" in service.ctl("ip", "route", "show").stdout
    assert json.loads(service.ctl("tc", "-s", "-j", "qdisc", "show", "dev", "b").stdout)[0]["options"]["bandwidth"] == 2_500_000
    wrong = service.ctl("ip", "route", "add", "10.8.0.0/16", "vai", "10.2.0.2")
    assert wrong.returncode == 2 and "vai" in wrong.stderr, wrong
    service.stop()


def test_a_shaper_is_changed_or_its_file_refused(world):
    service = Service(world, shape("50mbit"))

    def bandwidth():
        return json.loads(service.ctl("tc", "-s", "-j", "qdisc", "show", "dev", "c").stdout)[0]["options"]["bandwidth"]

    service.write(shape("20mbit"))
    service.process.send_signal(signal.SIGHUP)
    until(lambda: service.logged("configuration reloaded"))
    assert bandwidth() == 2_500_000
    for text, why in ((shape("20mbti"), ":7:22: "), (shape("30mbit").replace('"b", "c"', '"a", "c"'), "restart")):
        refusals = len(service.logged("old configuration stays"))
        service.write(text)
        service.process.send_signal(signal.SIGHUP)
        until(lambda: len(service.logged("old configuration stays")) > refusals)
        assert why in service.logged("old configuration stays")[-1]["message"], service.log()[-1]
        assert bandwidth() == 2_500_000
    assert service.metrics()["ackwright_uptime_seconds"] > 0
    try:
        urllib.request.urlopen(f"http://{METRICS}/secrets", timeout=5)
        raise AssertionError("there is nothing else")
    except urllib.error.HTTPError as error:
        assert error.code == 404
    service.stop()
    assert service.logged("has ended"), service.log()


def watch(world, service, end):
    """What `top` shows in a terminal of 30 rows and 90 columns until `end(process, terminal)`; and its exit code."""
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    before = termios.tcgetattr(side)
    process = subprocess.Popen([service.binary, "top", "--ctl", service.ctl_path, "--interval", "200ms"], stdin=side,
                               stdout=side, stderr=side, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    world.processes.append(process)
    shown, over = b"", time.monotonic() + 10
    # The third screen has rates, and is whole when the fourth begins: Ctrl-C lets the terminal forget what was not read.
    while shown.count(b"late wake-ups") < 4:
        assert time.monotonic() < over, shown
        shown += os.read(terminal, 1 << 16)
    assert not termios.tcgetattr(side)[3] & (termios.ICANON | termios.ECHO), "keys come one by one"
    end(process, terminal)
    assert process.wait(timeout=3) == 0, shown
    shown += os.read(terminal, 1 << 16)
    assert termios.tcgetattr(side) == before, "the terminal is as it was"
    assert shown.endswith(b"\x1b[?25h\x1b[?1049l"), "the cursor and what stood there are back"
    os.close(terminal)
    os.close(side)
    return shown.decode()


def test_top_in_a_terminal(world):
    service = Service(world, shape("50mbit"))
    ends = {
        "q": lambda _, terminal: os.write(terminal, b"xq"),
        "Ctrl-C": lambda _, terminal: os.write(terminal, b"\x03"),
        "a signal": lambda process, _: process.send_signal(signal.SIGTERM),
    }
    for name, end in ends.items():
        shown = watch(world, service, end)
        screens = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text) for text in shown.split("\x1b[2J")]
        screen = [text.splitlines() for text in screens if "late wake-ups" in text][2]
        assert len(screen) <= 30 and all(len(line) <= 90 for line in screen), (name, screen)
        text = "\n".join(screen)
        assert re.search(r"^b > c +\d+ +\d+ +", text, re.M), (name, text)
        assert "c cake 8001:  50.00Mbit/s  backlog" in text and "b fq_codel" in text, (name, text)
        assert re.search(r"^ tin +packets +average +peak +base +drops +marks +acks- +bulk +sparse$", text, re.M), (name, text)
        assert len(re.findall(r"^   [012] +\d+ +[\d.]+(us|ms) ", text, re.M)) == 3, (name, text)
    service.stop()


def test_what_a_killed_one_leaves_the_next_removes(world):
    service = Service(world, shape("50mbit"))
    service.process.kill()
    service.process.wait()
    assert os.path.exists(service.ctl_path)
    world.number -= 1
    again = Service(world, shape("50mbit"))
    assert again.logged("earlier run left behind"), again.log()
    assert again.ctl("show").returncode == 0
    again.stop()


def test_a_device_is_called_by_its_interface_however_it_is_opened(world):
    text = shape("50mbit").replace('"b", "c"', '"ring:b", "ring:c"')
    service = Service(world, text)
    assert service.ctl("tc", "qdisc", "show", "dev", "c").stdout.startswith("qdisc cake "), service.log()
    service.write(text.replace("50mbit", "20mbit"))
    service.process.send_signal(signal.SIGHUP)
    until(lambda: service.logged("configuration reloaded"))
    assert json.loads(service.ctl("tc", "-s", "-j", "qdisc", "show", "dev", "c").stdout)[0]["options"]["bandwidth"] == 2_500_000
    service.stop()


def test_mistakes_are_told_before_anything_is_opened(world):
    path = os.path.join(world.folder, "wrong.toml")
    for text, place in (("[shape]\nbetween = [\"b\"]\n", ":2:11: "), ("user = 1\n", ":1:8: "), ("", "is missing"),
                        ("[route]\ndev = [\"a\"]\n", "no routes given")):
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([world.binary, "service", path], capture_output=True, text=True)
        assert done.returncode == 2 and place in done.stderr, (text, done)


def make_world(binary, folder):
    """That of a router; metrics are asked for on the loopback interface."""
    ip("link set lo up")
    return World(binary, folder)


if __name__ == "__main__":
    sys.exit(run_tests("service", globals(), make_world))
