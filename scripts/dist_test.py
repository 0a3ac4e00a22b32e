#!/usr/bin/env python3
"""Installs what `make dist` has made, each on a clean root, and runs it there.

usage: scripts/dist_test.py

The archive is unpacked to a folder that has nothing else, and run with it as its root. The Debian package and the wheel
are installed on a new minimal Debian (debootstrap; made once, in target/dist-root). Takes root; what cannot be tried here says so
in a line "SKIPPED: what: why".
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "target" / "dist"
DEBIAN = ROOT / "target" / "dist-root"
CLEAN = ROOT / "target" / "dist-clean"
# man-db and systemd are there to read the pages and the unit with; the package needs neither.
PACKAGES = "python3-venv,systemd,man-db"
# The oldest whose Python is new enough.
SUITE = "bookworm"
# What a small run has for its experiment file.
SMALL = ["run", "/first.toml", "--runs", "1", "--set", 'duration="8s"', "--out", "/tmp/out"]


def run(*command, code=0, **how):
    """What a command prints; another exit code than `code` is a failure of the test."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **how)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def skip(what, why):
    """Says what is not tried."""
    print(f"SKIPPED: {what}: {why}", flush=True)


def the(pattern):
    """The one file of that name."""
    found = glob.glob(str(DIST / pattern))
    assert len(found) == 1, f"{len(found)} files {pattern} in {DIST}; run make dist"
    return pathlib.Path(found[0])


def checksums():
    """All that is given out is in the list, as it was."""
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)
    listed = {line.split()[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
    there = {file.name for file in DIST.iterdir()} - {"SHA256SUMS"}
    assert listed == there, listed ^ there


def works(program, root):
    """The program says its version and makes a run, with `root` as its root."""
    shutil.copy(ROOT / "experiments" / "first.toml", root / "first.toml")
    (root / "tmp").mkdir(exist_ok=True)
    version = run("chroot", root, program, "--version")
    assert version.startswith("ackwright "), version
    table = run("chroot", root, program, *SMALL)
    assert "goodput" in table, table
    assert (root / "tmp" / "out" / "summary.json").stat().st_size > 0
    refused = run("chroot", root, program, "run", "/none.toml", code=2)
    assert "/none.toml" in refused, refused


def archive():
    """The archive holds all that a program needs: a root with nothing else will do."""
    shutil.rmtree(CLEAN, ignore_errors=True)
    CLEAN.mkdir(parents=True)
    run("tar", "xf", the("ackwright-*-x86_64-linux.tar.gz"), "--strip-components=1", "-C", CLEAN)
    for file in ("THIRD-PARTY.txt", "LICENSE-MIT", "LICENSE-APACHE", "sbom.cdx.json", "man/man1/ackwright-run.1",
                 "completions/ackwright.bash", "experiments/first.toml", "systemd/ackwright@.service"):
        assert (CLEAN / file).stat().st_size > 0, file
    works("/ackwright", CLEAN)


def clean_debian():
    """A new minimal Debian; `None` where there is none to be had."""
    if not (DEBIAN / "made").exists():
        if not shutil.which("debootstrap"):
            return None
        shutil.rmtree(DEBIAN, ignore_errors=True)
        DEBIAN.mkdir(parents=True)
        made = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, DEBIAN],
                              stdout=subprocess.DEVNULL, check=False)
        if made.returncode != 0:
            return None
        (DEBIAN / "made").touch()
    shutil.rmtree(CLEAN, ignore_errors=True)
    run("cp", "-a", "--reflink=auto", DEBIAN, CLEAN)
    return CLEAN


def files_of(root):
    """Files and directories that a package could leave behind."""
    places = [root / "usr", root / "etc"]
    return {path.relative_to(root) for place in places for path in place.rglob("*") if "__pycache__" not in path.parts}


def debian():
    """The package is installed, used, and removed without a trace."""
    root = clean_debian()
    if root is None:
        return skip("the Debian package and the wheel", "debootstrap is missing or could not fetch Debian")
    before = files_of(root)
    shutil.copy(the("ackwright_*_amd64.deb"), root / "ackwright.deb")
    run("chroot", root, "dpkg", "--install", "/ackwright.deb")
    works("ackwright", root)
    docs = root / "usr/share/doc/ackwright"
    for file in ("copyright", "THIRD-PARTY.txt.gz", "sbom.cdx.json", "changelog.gz", "examples/wan.toml"):
        assert (docs / file).stat().st_size > 0, file
    for page in ("ackwright", "ackwright-run"):
        text = run("chroot", root, "env", "MANPAGER=cat", "man", "-P", "cat", page)
        assert "SYNOPSIS" in text and "--" in text, text
    run("chroot", root, "bash", "-c", ". /usr/share/bash-completion/completions/ackwright; complete -p ackwright")
    assert run("chroot", root, "dpkg", "--verify", "ackwright") == ""
    unit(root)
    run("chroot", root, "dpkg", "--purge", "ackwright")
    left = files_of(root) - before
    assert not left, left
    return wheel(root)


def unit(root):
    """The unit is sound, and what it starts runs."""
    place = "/usr/lib/systemd/system/ackwright@.service"
    said = run("chroot", root, "systemd-analyze", "verify", place)
    assert "ackwright" not in said, said
    lines = (root / place[1:]).read_text().splitlines()
    starts = [line.partition("=")[2].replace("%i", "wan").split() for line in lines
              if line.startswith(("ExecStartPre=", "ExecStart="))]
    assert len(starts) == 2, starts
    example = (root / "usr/share/doc/ackwright/examples/wan.toml").read_text()
    (root / "etc/ackwright/wan.toml").write_text(example.replace('"eth0", "eth1"', '"tap:one", "tap:two"'))
    if not os.path.exists("/dev/net/tun"):
        return skip("the service's ExecStart", "no TUN device")
    # As the unit has it: RuntimeDirectory=ackwright; devices in a network namespace of its own.
    script = f"""set -e
    mount -t proc proc {root}/proc; mount --bind /dev {root}/dev; mount -t tmpfs run {root}/run; mkdir {root}/run/ackwright
    ip link set lo up
    chroot {root} {' '.join(starts[0])}
    chroot {root} {' '.join(starts[1])} & service=$!
    tries=0
    until [ -S {root}/run/ackwright/wan.sock ]; do
      tries=$((tries + 1)); [ $tries -lt 200 ]; kill -0 $service; sleep 0.1
    done
    chroot {root} ackwright ctl --ctl /run/ackwright/wan.sock tc -s qdisc show
    kill -HUP $service; sleep 0.5; kill -0 $service
    kill $service; wait $service"""
    told = run("unshare", "--net", "--mount", "--", "bash", "-c", script, timeout=120)
    for word in ("qdisc cake", "bandwidth 30Mbit", "configuration reloaded", "has ended"):
        assert word in told, f"no \"{word}\" in:\n{told}"
    (root / "etc/ackwright/wan.toml").unlink()


def wheel(root):
    """The wheel is installed without anything else to be fetched, and runs an experiment."""
    file = the("ackwright-*.whl")
    shutil.copy(file, root / file.name)
    run("chroot", root, "python3", "-m", "venv", "/venv")
    run("chroot", root, "/venv/bin/pip", "install", "--no-index", f"/{file.name}")
    script = """
import ackwright, pathlib
experiment = ackwright.Experiment.from_toml("/first.toml")
experiment["duration"] = "8s"
print(experiment.run(repetitions=1))
held = {file.name for file in pathlib.Path(ackwright.__file__).parent.parent.glob("ackwright-*.dist-info/**/*")}
assert {"LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.txt"} <= held, held
"""
    told = run("chroot", root, "/venv/bin/python", "-c", script)
    assert "goodput" in told, told


def main():
    if os.geteuid() != 0:
        skip("all of make dist", "changing the root takes root")
        return
    for test in (checksums, archive, debian):
        begun = time.monotonic()
        test()
        print(f"{time.monotonic() - begun:5.0f} s  {test.__name__}: {test.__doc__.strip()}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"dist-test: {error}")
