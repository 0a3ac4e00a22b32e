#!/usr/bin/env python3
"""Builds what is given out, into target/dist: `make dist`.

usage: scripts/dist.py [all|program|wheel|crates|sums]...

| file | what it is |
|---|---|
| ackwright-VERSION-x86_64-linux.tar.gz | the static program, man pages, completions, experiments |
| ackwright_VERSION_amd64.deb | the same as a Debian package, with the systemd unit |
| ackwright-VERSION-*.whl | the Python package |
| ackwright*-VERSION.crate | the crates, as a registry takes them, each built from its package alone |
| *.cdx.json | bills of materials (CycloneDX) |
| SHA256SUMS | checksums of all of these |

Licences and third-party notices are in each. Archives of the same program have the same bytes: times in them are the commit's.
"""

import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "target" / "dist"
WORK = ROOT / "target" / "dist-work"
TARGET = "x86_64-unknown-linux-musl"
UNPUBLISHED = ["ackwright-python", "ackwright-drill-so"]


def run(*command, **how):
    """Runs a command; a failure ends it all."""
    begun = time.monotonic()
    done = subprocess.run([str(word) for word in command], cwd=how.pop("cwd", ROOT), check=False, **how)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
    print(f"   {time.monotonic() - begun:4.0f} s  {' '.join(map(str, command))[:100]}", flush=True)
    return done.stdout


def version():
    """That of the workspace."""
    return re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def commit_time():
    """Seconds since 1970: what files in archives are dated by."""
    return int(subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def build_program():
    """The static program, without debug information."""
    installed = subprocess.run(["rustc", "--print", "target-libdir", "--target", TARGET], stdout=subprocess.PIPE, text=True)
    if not os.path.isdir(installed.stdout.strip()):
        sys.exit(f"no standard library for {TARGET}: rustup target add {TARGET}")
    if not shutil.which("musl-gcc"):
        sys.exit("no musl-gcc, which the allocator is built with: apt install musl-tools")
    env = {**os.environ, "RUSTC_WORKSPACE_WRAPPER": str(ROOT / "profile" / "rustc.sh")}
    run("cargo", "build", "--release", "--locked", "-p", "ackwright", "--target", TARGET, env=env)
    program = WORK / "ackwright"
    run("strip", "-o", program, ROOT / "target" / TARGET / "release" / "ackwright")
    return program


def describe(program):
    """Man pages, completions, notices and the bill of materials."""
    run(program, "generate", "man", WORK / "man")
    run(program, "generate", "completions", WORK / "completions")
    env = {**os.environ, "TARGET": TARGET}
    run("scripts/notices.py", "notices", "program", WORK / "THIRD-PARTY.txt", env=env)
    run("scripts/notices.py", "sbom", "program", DIST / f"ackwright-{version()}-x86_64-linux.cdx.json", env=env)


def put(source, place, mode=0o644):
    """Copies a file, or what a directory holds."""
    if source.is_dir():
        for file in sorted(source.rglob("*")):
            if file.is_file():
                put(file, place / file.relative_to(source), mode)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    place.chmod(mode)


def put_gzipped(source, place):
    """As Debian wants what is long."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress(source.read_bytes(), mtime=0))
    place.chmod(0o644)


def make_archive(program):
    """The tar archive: to be unpacked anywhere."""
    name = f"ackwright-{version()}-x86_64-linux"
    folder = WORK / name
    put(program, folder / "ackwright", 0o755)
    for file in ("README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"):
        put(ROOT / file, folder / file)
    put(WORK / "THIRD-PARTY.txt", folder / "THIRD-PARTY.txt")
    put(DIST / f"{name}.cdx.json", folder / "sbom.cdx.json")
    put(WORK / "man", folder / "man" / "man1")
    put(WORK / "completions", folder / "completions")
    put(ROOT / "experiments", folder / "experiments")
    put(ROOT / "packaging" / "ackwright@.service", folder / "systemd" / "ackwright@.service")
    put(ROOT / "packaging" / "wan.toml", folder / "systemd" / "wan.toml")

    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = commit_time()
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with open(DIST / f"{name}.tar.gz", "wb") as file, \
            gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as squeezed, \
            tarfile.open(fileobj=squeezed, mode="w") as archive:
        archive.add(folder, name, filter=plain)


def make_debian(program):
    """The Debian package. The program is static, so it depends on nothing."""
    root = WORK / "deb"
    usr, docs = root / "usr", root / "usr" / "share" / "doc" / "ackwright"
    put(program, usr / "bin" / "ackwright", 0o755)
    put(ROOT / "packaging" / "ackwright@.service", usr / "lib" / "systemd" / "system" / "ackwright@.service")
    for page in sorted((WORK / "man").iterdir()):
        put_gzipped(page, usr / "share" / "man" / "man1" / f"{page.name}.gz")
    completions, share = WORK / "completions", usr / "share"
    put(completions / "ackwright.bash", share / "bash-completion" / "completions" / "ackwright")
    put(completions / "_ackwright", share / "zsh" / "vendor-completions" / "_ackwright")
    put(completions / "ackwright.fish", share / "fish" / "vendor_completions.d" / "ackwright.fish")
    put(ROOT / "packaging" / "wan.toml", docs / "examples" / "wan.toml")
    put(ROOT / "experiments", docs / "examples" / "experiments")
    put_gzipped(ROOT / "CHANGELOG.md", docs / "changelog.gz")
    put_gzipped(WORK / "THIRD-PARTY.txt", docs / "THIRD-PARTY.txt.gz")
    put(DIST / f"ackwright-{version()}-x86_64-linux.cdx.json", docs / "sbom.cdx.json")
    own = "\n\n".join((ROOT / file).read_text().strip() for file in ("LICENSE-MIT", "LICENSE-APACHE"))
    (docs / "copyright").write_text(
        f"Ackwright, at your choice under one of two licences. What others have given: THIRD-PARTY.txt.gz.\n\n{own}\n")
    (root / "etc" / "ackwright").mkdir(parents=True)
    put(ROOT / "packaging" / "deb", root / "DEBIAN", 0o755)
    size = sum(file.stat().st_size for file in usr.rglob("*") if file.is_file()) // 1024
    (root / "DEBIAN" / "control").write_text(CONTROL.format(version=version(), size=size))
    sums = [f"{digest(file, 'md5')}  {file.relative_to(root)}\n" for file in sorted(usr.rglob("*")) if file.is_file()]
    (root / "DEBIAN" / "md5sums").write_text("".join(sums))
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, DIST / f"ackwright_{version()}_amd64.deb",
        env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())}, stdout=subprocess.PIPE)


CONTROL = """Package: ackwright
Version: {version}
Architecture: amd64
Maintainer: The Ackwright authors
Installed-Size: {size}
Section: net
Priority: optional
Suggests: iproute2, iperf3
Description: Linux's network fast path as a laboratory and a live tool
 TCP, queueing disciplines and routing of Linux in a deterministic simulated
 world: experiments as files, tables and plots out. The same code shapes and
 routes real packets in user space, with CAKE on kernels that have none.
"""


def program():
    """Everything that holds the program."""
    built = build_program()
    describe(built)
    make_archive(built)
    make_debian(built)


def wheel():
    """The Python package, and what is in it."""
    run("scripts/python.py", "wheel")
    for file in (ROOT / "target" / "wheels").glob(f"ackwright-{version()}-*.whl"):
        put(file, DIST / file.name)
    run("scripts/notices.py", "sbom", "python", DIST / f"ackwright-{version()}-python.cdx.json")


def crates():
    """The packages of all crates, each built from nothing but what its package holds."""
    folder = WORK / "crates"
    without = [word for name in UNPUBLISHED for word in ("--exclude", name)]
    env = {**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0"}
    run("cargo", "package", "--quiet", "--workspace", *without, "--locked", "--target-dir", folder, env=env)
    for file in (folder / "package").glob(f"*-{version()}.crate"):
        put(file, DIST / file.name)


def digest(file, how="sha256"):
    """Of a file's bytes."""
    return hashlib.new(how, file.read_bytes()).hexdigest()


def sums():
    """In the words of sha256sum."""
    files = [file for file in sorted(DIST.iterdir()) if file.name != "SHA256SUMS"]
    (DIST / "SHA256SUMS").write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))
    for file in files:
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {file.relative_to(ROOT)}")


def main():
    parts = {"program": program, "wheel": wheel, "crates": crates, "sums": sums}
    asked = sys.argv[1:] or ["all"]
    if asked == ["all"]:
        asked = list(parts)
        shutil.rmtree(DIST, ignore_errors=True)
    for part in asked:
        if part not in parts:
            sys.exit(__doc__)
    for folder in (WORK / "man", WORK / "completions", WORK / "deb", *WORK.glob("ackwright-*")):
        shutil.rmtree(folder, ignore_errors=True)
    DIST.mkdir(parents=True, exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    for part in asked:
        parts[part]()


if __name__ == "__main__":
    main()
