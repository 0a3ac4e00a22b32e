#!/usr/bin/env python3
"""Runs the commands of pages, in their order, and compares what the pages promise.

usage: scripts/docs_test.py ACKWRIGHT [--pictures] PAGE...

Each page has a folder of its own, with a copy of `experiments` and `conformance`, and the program where `make` puts it. What GitHub does not show, a comment
of HTML before a block, says what a block of it is for:

    ```sh                          is run by bash; it must end with success
    ```text                        behind it: lines of its output, in this order; `…` stands for anything
    <!-- file NAME -->             the block is written to NAME
    <!-- exit N -->                the commands end with N
    <!-- serves -->                the command prints an address and serves there until it is stopped
    <!-- namespace A B -->         run in a network namespace of its own, with two interfaces A and B that are up
    <!-- from FILE -->             the block stands in this file of the repository, word by word
    <!-- not run: why -->          not run here

A picture behind `<!-- picture FILE -->` is, byte by byte, FILE as the commands have made it; --pictures takes it over.
Of `cargo run … --example NAME` what `make examples` has built is run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 120  # seconds a block may take
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|^!\[[^\]]*\]\(([^)]+)\)$", re.M | re.S)
COMMENT = re.compile(r"<!-- (.*?) -->\s*\Z", re.S)
EXAMPLE = re.compile(r"cargo run\b.*--example (\w+)")


class Wrong(Exception):
    """What a page promises does not hold."""


def blocks(text):
    """(line, kind, comment before it, text) of each fenced block, and of each picture, whose text is its file."""
    end = 0
    for found in BLOCK.finditer(text):
        comment = COMMENT.search(text[end:found.start()])
        yield text.count("\n", 0, found.start()) + 1, found[1] or "picture", comment[1] if comment else "", found[2] if found[1] else found[3]
        end = found.end()


class Page:
    """A page that is being read, in its folder."""

    def __init__(self, path, folder, binary, take):
        self.path, self.folder, self.take, self.ran, self.output = path, folder, take, 0, None
        self.skipped = []
        self.environment = os.environ | {"PATH": f"{binary.parent}:{os.environ['PATH']}", "COLUMNS": "80", "LC_ALL": "C.UTF-8"}
        for name in ("experiments", "conformance"):
            shutil.copytree(ROOT / name, folder / name)
        (folder / "target/release").mkdir(parents=True)
        (folder / "target/release/ackwright").symlink_to(binary)

    def block(self, kind, comment, text):
        """Does with a block what it is for."""
        word, _, rest = comment.partition(" ")
        if comment.startswith("not run: "):
            self.output = None
        elif kind == "picture":
            self.picture(word, rest, self.path.parent / text)
        elif word == "file":
            (self.folder / rest).write_text(text)
        elif word == "from":
            if text not in (ROOT / rest).read_text():
                raise Wrong(f"it does not stand in {rest}")
        elif kind == "sh":
            self.commands(word, rest, text)
        elif kind == "text" and self.output is not None:
            promised(text, self.output)

    def picture(self, word, made, committed):
        """A picture that the commands make is the committed one."""
        if word != "picture":
            return
        data = (self.folder / made).read_bytes()
        if self.take:
            committed.write_bytes(data)
        elif committed.read_bytes() != data:
            raise Wrong(f"{committed.relative_to(ROOT)} is not what the commands make now: scripts/docs_test.py --pictures")

    def commands(self, word, rest, text):
        self.output = None
        if not (text := self.with_examples(text)):
            return
        if word == "serves":
            self.serve(text)
        elif word == "namespace":
            self.namespace(rest.split(), text)
        else:
            self.run(text, int(rest) if word == "exit" else 0)

    def with_examples(self, text):
        """The commands with examples as they have been built; nothing if one has not been."""
        for found in EXAMPLE.finditer(text):
            built = ROOT / "target/debug/examples" / found[1]
            if not built.exists():
                self.skipped.append(f"example {found[1]} is not built (make examples)")
                return None
            text = text.replace(found[0], str(built))
        return text

    def run(self, text, code, before=()):
        command = [*before, "bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, timeout=LIMIT, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output = done.stdout
        if done.returncode != code:
            raise Wrong(f"exit code {done.returncode}, {code} was promised:\n{done.stdout}")
        self.ran += 1

    def namespace(self, names, text):
        """Runs commands between two interfaces, if a namespace can be made here."""
        own = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
        make = "".join(f"ip link add {name} type veth peer name far{place}; ip link set {name} up; ip link set far{place} up; "
                       for place, name in enumerate(names))
        can = subprocess.run([*own, "sh", "-ec", make], capture_output=True, text=True)
        if can.returncode != 0:
            self.skipped.append(f"no namespace with interfaces can be made here: {can.stderr.strip()}")
            return
        self.run(f"{make}\n{text}", 0, [*own, "--kill-child", "--fork", "--pid"])

    def serve(self, text):
        """The address answers, and the command ends when it is asked to."""
        with subprocess.Popen(["bash", "-c", f"exec {text}"], cwd=self.folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
            try:
                self.output = server.stdout.readline()
                with urllib.request.urlopen(self.output.strip(), timeout=20) as answer:
                    if b"<html" not in answer.read().lower():
                        raise Wrong("what is served is no page")
                server.send_signal(signal.SIGINT)
                late = threading.Timer(LIMIT, server.kill)
                late.start()
                self.output += server.stdout.read()
                late.cancel()
            finally:
                server.kill()
        if server.returncode not in (0, 130):
            raise Wrong(f"it ended with {server.returncode}")
        self.ran += 1


def promised(lines, output):
    """Whether lines stand in an output, in this order."""
    if not lines.strip():
        raise Wrong(f"nothing is promised of this output:\n{output}")
    left = [line.rstrip() for line in output.split("\n")]
    for line in (line.rstrip() for line in lines.split("\n")):
        if line in ("", "…"):
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        place = next((place for place, there in enumerate(left) if wanted.fullmatch(there)), None)
        if place is None:
            raise Wrong(f"no line is (here, at least)\n{line}\nThe output:\n{output}")
        left = left[place + 1:]


def check(name, binary, take):
    """Runs a page; 1 if something of it does not hold."""
    begun, path = time.monotonic(), ROOT / name
    with tempfile.TemporaryDirectory() as folder:
        page = Page(path, Path(folder), binary, take)
        for line, kind, comment, text in blocks(path.read_text()):
            try:
                page.block(kind, comment, text)
            except (Wrong, OSError, ValueError, subprocess.TimeoutExpired) as wrong:
                print(f"{name}:{line}: {wrong}", flush=True)
                return 1
        for why in page.skipped:
            print(f"SKIPPED: docs-test: {name}: {why}")
        print(f"{name}: {page.ran} blocks of commands do what the page says, {time.monotonic() - begun:.1f} s", flush=True)
    return 0


def pages_of_algorithms():
    """Which congestion controls and qdiscs have no page, by the list of pages."""
    crates, listed = ROOT / "crates", (ROOT / "docs/algorithms/README.md").read_text()
    names = re.search(r"fn name\(self\).*?\n    }", (crates / "datapath/src/tcp/cc/any.rs").read_text(), re.S)[0]
    kinds = re.search(r"const KINDS: .*?\];", (crates / "iproute/src/tc/mod.rs").read_text(), re.S)[0]
    known = re.findall(r'"(\w+)"', names) + re.findall(r'"(\w+)"', kinds)
    assert len(known) > 25, "the lists of algorithms are read wrongly"
    for name in (name for name in known if f"`{name}`" not in listed):
        print(f"docs/algorithms/README.md: {name} has no page")
        yield name


def main():
    words = sys.argv[1:]
    take = "--pictures" in words
    binary, *names = [word for word in words if word != "--pictures"]
    failed = [check(name, Path(binary).resolve(), take) for name in names]
    return 1 if any(failed) or any(list(pages_of_algorithms())) else 0


if __name__ == "__main__":
    sys.exit(main())
