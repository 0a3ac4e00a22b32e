"""What tests between network namespaces share: the namespaces, and how tests are run one by one.

A script has functions `test_…`, each of which gets a world that is made for it; `run_tests` runs those whose names
hold one of the words of the command line.
"""

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

INSIDE = "ACKWRIGHT_LIVE_TEST"

libc = ctypes.CDLL(None, use_errno=True)


def enter():
    """Starts this script again in a network namespace; returns only where that cannot be."""
    why = []
    for way in ("-n", "-rn"):
        tried = subprocess.run(["unshare", way, "ip", "link", "add", "x", "type", "veth", "peer", "name", "y"],
                               capture_output=True, text=True)
        if tried.returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", ["unshare", way, sys.executable, *sys.argv])
        why.append(f"unshare {way}: {tried.stderr.strip()}")
    print("SKIPPED: live tests: no network namespace with veths: " + "; ".join(why), flush=True)
    sys.exit(0)


class Skip(Exception):
    """This machine cannot."""


class Namespace:
    """A namespace that lives as long as a process in it."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "-n", "sleep", "1800"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        mine, link = os.readlink("/proc/self/ns/net"), f"/proc/{self.process.pid}/ns/net"
        while os.readlink(link) == mine:
            time.sleep(0.01)
        self.run("ip link set lo up")

    def command(self, words):
        words = words.split() if isinstance(words, str) else words
        return ["nsenter", "-t", str(self.process.pid), "-n", *words]

    def run(self, words):
        return subprocess.run(self.command(words), check=True, capture_output=True, text=True).stdout

    def socket(self, kind, family=socket.AF_INET):
        """A socket of this namespace: the thread that makes it goes there and ends."""
        made = []

        def make():
            with open(f"/proc/{self.process.pid}/ns/net") as file:
                libc.setns(file.fileno(), 0)
            made.append(socket.socket(family, kind))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]


def busy(pid, seconds=0.5):
    """The share of a core that a process takes meanwhile."""
    def ticks():
        with open(f"/proc/{pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))

    before, begun = ticks(), time.monotonic()
    time.sleep(seconds)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def place(error):
    """The line of this script where `error` came up."""
    script = os.path.abspath(sys.argv[0])
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if os.path.abspath(frame.filename) == script]
    return f"{os.path.basename(script)}:{lines[-1]}" if lines else os.path.basename(script)


def run_tests(what, functions, make_world):
    """Runs the tests among `functions` in a namespace of their own, each in a world of `make_world(binary, folder)`;
    the exit code."""
    if INSIDE not in os.environ:
        enter()
    binary, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    begun = time.monotonic()
    failed = []
    for name, test in [(name, test) for name, test in functions.items() if name.startswith("test_")]:
        if names and not any(part in name for part in names):
            continue
        started, world = time.monotonic(), None
        with tempfile.TemporaryDirectory() as folder:
            try:
                world = make_world(binary, folder)
                test(world)
                result = "ok"
            except Skip as why:
                result = f"SKIPPED: {what} test, {name[5:].replace('_', ' ')}: {why}"
            except Exception as error:  # every test is run
                result = f"FAILED: {place(error)}: {type(error).__name__}: {error}"
                failed.append(f"{name}: {result}")
            finally:
                if world:
                    world.close()
                for link in ("a", "b", "c"):
                    subprocess.run(["ip", "link", "delete", "dev", link], capture_output=True)
        print(f"{name[5:].replace('_', ' '):<50} {time.monotonic() - started:5.1f} s  {result}", flush=True)
    # Once more at the end, which is what is left of a log that was cut.
    for line in failed:
        print(line)
    print(f"{what} tests: {len(failed)} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0
