#!/usr/bin/env python3
"""Checks that every crate we link, and every npm package that is part of the viewer's page, is under a permissive
licence (see deny.toml for cargo-deny). What only builds or tests the page may be under the MPL, too: nothing of it is
given out."""

import json
import pathlib
import re
import subprocess
import sys

ALLOWED = {
    "MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC",
    "Zlib", "0BSD", "Unicode-3.0", "CC0-1.0",
}
TOOLS = ALLOWED | {"MPL-2.0"}


def allowed(expression, known=frozenset(ALLOWED)):
    """Evaluates an SPDX expression: AND needs both sides, OR needs one."""
    text = expression.replace("/", " OR ")
    tokens = re.findall(r"\(|\)|[^\s()]+", text)

    def parse_or():
        value = parse_and()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            right = parse_and()
            value = value or right
        return value

    def parse_and():
        value = parse_one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            right = parse_one()
            value = value and right
        return value

    def parse_one():
        token = tokens.pop(0)
        if token == "(":
            value = parse_or()
            tokens.pop(0)
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token += " WITH " + tokens.pop(0)
        return token in known

    return parse_or()


def packages_of_web():
    """The npm packages that the lock file names: name, version, licence, and whether the page holds it."""
    lock = pathlib.Path(__file__).parent.parent / "web" / "package-lock.json"
    for place, package in json.loads(lock.read_text())["packages"].items():
        if place:
            name = place.rpartition("node_modules/")[2]
            yield name, package["version"], package.get("license"), not package.get("dev", False)


def main():
    assert allowed("(MIT OR Apache-2.0) AND Unicode-3.0") and allowed("MIT/Apache-2.0")
    assert allowed("MPL-2.0", TOOLS) and not allowed("MPL-2.0")
    assert allowed("MIT OR Apache-2.0 OR LGPL-2.1-or-later") and not allowed("MIT AND GPL-2.0")
    output = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        check=True, capture_output=True, text=True,
    ).stdout
    packages = json.loads(output)["packages"]
    bad = [p for p in packages if not (p["license"] and allowed(p["license"]))]
    for package in bad:
        print(f"{package['name']} {package['version']}: {package['license']}", file=sys.stderr)
    page = list(packages_of_web())
    wrong = [it for it in page if not (it[2] and allowed(it[2], ALLOWED if it[3] else TOOLS))]
    for name, version, licence, shipped in wrong:
        print(f"{name} {version}: {licence}{', in the page' if shipped else ''}", file=sys.stderr)
    if wrong:
        sys.exit(f"{len(wrong)} npm packages are under a licence that is not on the list")
    if bad:
        sys.exit(f"{len(bad)} crates are under a licence that is not on the list")
    shipped = sum(1 for it in page if it[3])
    print(f"licences: {len(packages)} crates and {shipped} npm packages in the page, all permissive")


main()
