#!/usr/bin/env python3
"""Checks that every crate we link is under a permissive licence (see deny.toml for cargo-deny)."""

import json
import re
import subprocess
import sys

ALLOWED = {
    "MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC",
    "Zlib", "0BSD", "Unicode-3.0", "CC0-1.0",
}


def allowed(expression):
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
        return token in ALLOWED

    return parse_or()


def main():
    assert allowed("(MIT OR Apache-2.0) AND Unicode-3.0") and allowed("MIT/Apache-2.0")
    assert allowed("MIT OR Apache-2.0 OR LGPL-2.1-or-later") and not allowed("MIT AND GPL-2.0")
    output = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        check=True, capture_output=True, text=True,
    ).stdout
    packages = json.loads(output)["packages"]
    bad = [p for p in packages if not (p["license"] and allowed(p["license"]))]
    for package in bad:
        print(f"{package['name']} {package['version']}: {package['license']}", file=sys.stderr)
    if bad:
        sys.exit(f"{len(bad)} crates are under a licence that is not on the list")
    print(f"licences: {len(packages)} crates, all permissive")


main()
