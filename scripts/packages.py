#!/usr/bin/env python3
"""Checks that every crate that is to be published can be: what its manifest says of it, what its package holds, and that
the library goes without the program's dependencies. `make dist` builds the packages themselves.

usage: scripts/packages.py
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Crates that are part of something else that is given out, or of its tests.
UNPUBLISHED = {"ackwright-python", "ackwright-drill-so"}
# Of https://crates.io/category_slugs, those that we use; it refuses others.
CATEGORIES = {
    "asynchronous", "command-line-utilities", "development-tools::profiling", "development-tools::testing",
    "network-programming", "os::linux-apis", "parser-implementations", "science", "simulation", "visualization",
}
# What only the program takes, by its feature `cli`.
PROGRAM_ONLY = {"clap", "indicatif", "ctrlc", "signal-hook", "nix", "mimalloc", "tokio", "ackwright-live"}
HELD = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"]
SIZE_MAX = 10 << 20  # what crates.io takes


def cargo(*arguments):
    """What cargo prints."""
    done = subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}cargo {' '.join(arguments)}: exit code {done.returncode}")
    return done.stdout


def faults_of_manifest(package, version, published):
    """What a registry would refuse or a reader would miss."""
    name = package["name"]
    if not re.fullmatch(r"ackwright(-[a-z]+)?", name):
        yield "the name does not begin with \"ackwright-\""
    if package["version"] != version:
        yield f"version {package['version']}, where the workspace has {version}"
    if package["license"] != "MIT OR Apache-2.0":
        yield f"licence {package['license']}"
    if len(package["description"] or "") < 20:
        yield "no description"
    words = package["keywords"]
    if not 3 <= len(words) <= 5 or any(not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", word) for word in words):
        yield f"keywords {words}: three to five, of twenty letters at most"
    if not package["categories"] or not set(package["categories"]) <= CATEGORIES:
        yield f"categories {package['categories']}: some of {', '.join(sorted(CATEGORIES))}"
    if not package["rust_version"]:
        yield "no rust-version"
    for needed in package["dependencies"]:
        if needed["name"].startswith("ackwright") and needed["kind"] is None:
            if needed["req"] != f"^{version}":
                yield f"{needed['name']} without version = \"{version}\""
            if needed["name"] not in published:
                yield f"{needed['name']} is not published"


def faults_of_readme(package):
    """A README says what it is of."""
    path = pathlib.Path(package["manifest_path"]).parent / (package["readme"] or "")
    if not path.is_file():
        yield "no readme"
    elif package["name"] != "ackwright":
        begin = path.read_text().splitlines()[:2]
        if begin != [f"# {package['name']}", f"{package['description']}."]:
            yield "its README.md does not begin with its name and description"


def faults_of_files(package):
    """What the package holds, and how much."""
    files = cargo("package", "--list", "--allow-dirty", "--locked", "-p", package["name"]).splitlines()
    for file in HELD:
        if file not in files:
            yield f"the package has no {file}"
    folder = pathlib.Path(package["manifest_path"]).parent
    size = sum((folder / file).stat().st_size for file in files if (folder / file).is_file())
    if size > SIZE_MAX:
        yield f"{size} bytes, of which {SIZE_MAX} are taken"
    # A path that leads out of the crate is not in the package.
    for source in folder.glob("src/**/*.rs"):
        if source.name == "tests.rs" or "tests" in source.parts:
            continue
        code = source.read_text().split("#[cfg(test)]")[0]
        depth = len(source.relative_to(folder).parts) - 1
        for path in re.findall(r'include_(?:str|bytes)!\((?:concat!\()?"([^"]+)"', code):
            if path.count("../") > depth:
                yield f"{source.relative_to(folder)} includes {path}, which lies outside"


def program_only_in_library():
    """Dependencies of the program that the library has all the same, on any system."""
    tree = cargo("tree", "--locked", "-p", "ackwright", "--no-default-features", "-e", "normal,build",
                 "--target", "all", "--prefix", "none")
    return sorted({line.split()[0] for line in tree.splitlines() if line} & PROGRAM_ONLY)


def main():
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--locked", "--no-deps"))
    packages = {package["name"]: package for package in metadata["packages"]}
    published = {name for name, package in packages.items() if package["publish"] is None}
    version = packages["ackwright"]["version"]
    faults = []
    if set(packages) - published != UNPUBLISHED:
        faults.append(f"publish = false in {', '.join(sorted(set(packages) - published))}")
    for name in sorted(published):
        package = packages[name]
        found = [*faults_of_manifest(package, version, published), *faults_of_readme(package),
                 *faults_of_files(package)]
        faults += [f"{name}: {fault}" for fault in found]
    extra = program_only_in_library()
    if extra:
        faults.append(f"ackwright: without the feature `cli` it needs {', '.join(extra)} still")
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        sys.exit(f"{len(faults)} faults of packages")
    print(f"packages: {len(published)} crates of version {version} can be published; the library goes without the program's")


main()
