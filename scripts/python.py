#!/usr/bin/env python3
"""The Python package: its wheel, and its tests in an environment of their own below target/.

usage: scripts/python.py wheel     builds the wheel into target/wheels, as it is given out
       scripts/python.py test      builds it quickly, installs it and runs what python/tests has, and what
                                   README.md says of Python, as it is typed

What cannot run here says so in a line "SKIPPED: what: why", and is no failure.
"""

import glob
import hashlib
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOME = os.path.join(ROOT, "target", "python")
VENV = os.path.join(HOME, "venv")
PYTHON = os.path.join(VENV, "bin", "python")
NEEDS = os.path.join(ROOT, "python", "requirements-test.txt")
# Of the extra `ray`; a Python without a wheel of it does without these tests.
RAY = os.path.join(ROOT, "python", "requirements-ray.txt")


def skip(why):
    print(f"SKIPPED: the Python package: {why}")
    sys.exit(0)


def run(*command, **how):
    """Runs a command; a failure ends the step."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=how.pop("cwd", ROOT), check=False, **how)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    print(f"   {time.monotonic() - begun:4.0f} s  {' '.join(map(os.path.basename, command[:4]))}", flush=True)


def environment():
    """Makes the environment, once for each list of what it holds."""
    if sys.version_info < (3, 11):
        skip(f"python {sys.version.split()[0]} is older than 3.11")
    if is_stamped("stamp", NEEDS):
        return
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=False)
    if made.returncode != 0:
        skip("python has no venv")
    if not installed("stamp", NEEDS):
        skip("pip could not install " + os.path.relpath(NEEDS, ROOT))


def stamp_of(list_of_needs):
    """A number for what is to be installed."""
    with open(list_of_needs, "rb") as file:
        return hashlib.sha256(file.read() + sys.version.encode()).hexdigest()


def is_stamped(stamp, list_of_needs):
    """It is installed already."""
    path = os.path.join(VENV, stamp)
    return os.path.exists(path) and open(path).read() == stamp_of(list_of_needs)


def installed(stamp, list_of_needs):
    """Installs what a list names, unless it is there; false if it cannot be had."""
    if is_stamped(stamp, list_of_needs):
        return True
    begun = time.monotonic()
    install = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", list_of_needs]
    if subprocess.run(install, check=False).returncode != 0:
        return False
    with open(os.path.join(VENV, stamp), "w") as file:
        file.write(stamp_of(list_of_needs))
    print(f"   {time.monotonic() - begun:4.0f} s  pip install -r {os.path.basename(list_of_needs)}", flush=True)
    return True


def build(folder, *how):
    """Builds the wheel and returns its path."""
    for old in glob.glob(os.path.join(folder, "ackwright-*.whl")):
        os.remove(old)
    run(os.path.join(ROOT, "scripts", "notices.py"), "notices", "python", os.path.join(ROOT, "python", "THIRD-PARTY.txt"))
    maturin = os.path.join(VENV, "bin", "maturin")
    env = {**os.environ, "VIRTUAL_ENV": VENV, "PYO3_PYTHON": PYTHON}
    run(maturin, "build", "--quiet", "--locked", "--out", folder, *how,
        cwd=os.path.join(ROOT, "python"), env=env)
    return glob.glob(os.path.join(folder, "ackwright-*.whl"))[0]


def wheel():
    environment()
    os.environ["RUSTC_WORKSPACE_WRAPPER"] = os.path.join(ROOT, "profile", "rustc.sh")
    print(os.path.relpath(build(os.path.join(ROOT, "target", "wheels"), "--release")))


def test():
    environment()
    if not installed("stamp-ray", RAY):
        print("SKIPPED: sweeps on a Ray cluster: pip could not install " + os.path.relpath(RAY, ROOT))
    # Not the release build: that takes minutes, and what is tested here is the way to Python and back.
    built = build(HOME, "--profile", "dev")
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--force-reinstall", built)
    folder = os.path.join(ROOT, "python")
    # From the tests' folder: what is imported is what was installed, not what lies beside it.
    run(PYTHON, "-m", "pytest", "-c", "../pyproject.toml", "--rootdir", "..", "-rs", ".",
        cwd=os.path.join(folder, "tests"))
    run(PYTHON, "-m", "mypy", "--no-error-summary", cwd=folder)
    as_typed(HOME)


def as_typed(wheels):
    """What README's Python section says, typed in a folder where there is no environment yet."""
    with open(os.path.join(ROOT, "README.md")) as file:
        section = file.read().split("\n## In Python\n")[1].split("\n## ")[0]
    install, program = (section.split(f"```{language}\n")[1].split("```")[0] for language in ("sh", "python"))
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        # The program beside a checkout whose wheel has been built.
        os.makedirs(os.path.join(folder, "target"))
        os.symlink(wheels, os.path.join(folder, "target", "wheels"))
        os.symlink(os.path.join(ROOT, "experiments"), os.path.join(folder, "experiments"))
        *made, interpreter = install.strip().splitlines()
        quiet = {**os.environ, "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "MPLBACKEND": "agg"}
        if subprocess.run("\n".join(made), cwd=folder, shell=True, env=quiet, check=False).returncode != 0:
            print("SKIPPED: README's Python section: its environment could not be made")
            return
        run(os.path.join(folder, interpreter), "-", cwd=folder, env=quiet, input=program, text=True)
        if not os.path.getsize(os.path.join(folder, "latency.svg")):
            sys.exit("README's Python section has drawn nothing")


if __name__ == "__main__":
    {"wheel": wheel, "test": test}[sys.argv[1]]()
