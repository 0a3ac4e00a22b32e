#!/usr/bin/env python3
"""What others have given to a build of the program or of the Python package, for those who pass it on: their licences as
text, and a bill of materials (CycloneDX 1.5, JSON).

usage: scripts/notices.py notices program|python FILE    every licence text of every crate in it, of the page, of the font
       scripts/notices.py sbom program|python FILE

The same source gives the same bytes; a crate without a licence text is an error.
"""

import hashlib
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What is built from which package of ours.
BUILT = {"program": "ackwright", "python": "ackwright-python"}
TARGET = os.environ.get("TARGET", "x86_64-unknown-linux-gnu")
# Files that hold a licence, a copyright or what is to be passed on.
LICENCE_FILE = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?$")
# Crates whose authors left the text out of the package; their manifests name the licence and the authors.
STANDARD = {"MIT": "LICENSE-MIT", "Apache-2.0": "LICENSE-APACHE"}


def metadata():
    """What cargo knows of a build for `TARGET`."""
    done = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def tree(package):
    """Name and version of every crate that is linked into `package`, with the features that it is built with."""
    done = subprocess.run(
        ["cargo", "tree", "--locked", "-p", package, "-e", "normal,no-proc-macro", "--target", TARGET, "--prefix", "none",
         "--format", "{p}"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return {tuple(line.replace(" v", " ").split()[:2]) for line in done.stdout.splitlines() if line}


def crates_of(package):
    """The packages, as cargo describes them, of which a build is made; ours last."""
    linked = tree(package)
    found = [it for it in metadata()["packages"] if (it["name"], it["version"]) in linked]
    assert len(found) == len(linked), f"{len(found)} of {len(linked)} crates of {package} are known to cargo"
    return sorted(found, key=lambda it: (it["name"], it["version"]))


def is_ours(crate):
    """It lies in this repository."""
    return crate["source"] is None


def licence_texts(folder):
    """The licence files of a package, by name."""
    # Those of C code that a package brings lie deeper.
    for file in sorted(pathlib.Path(folder).rglob("*")):
        if file.is_file() and LICENCE_FILE.match(file.name):
            yield file.name, file.read_text(errors="replace").strip() + "\n"


def standard_text(crate):
    """The text of a licence that we hold ourselves, below the names of the crate's authors."""
    for name, file in STANDARD.items():
        if re.search(rf"\b{re.escape(name)}\b", crate["license"] or ""):
            text = (ROOT / file).read_text()
            if name == "MIT":
                text = re.sub(r"(?m)^Copyright .*$", f"Copyright (c) {authors(crate)}", text, count=1)
            return [(f"{name} (the package has no text of it)", text.strip() + "\n")]
    return []


def authors(crate):
    """Whom the manifest names."""
    return ", ".join(re.sub(r"\s*<.*?>", "", who) for who in crate["authors"]) or f"the authors of {crate['name']}"


def of_page():
    """The npm packages that the viewer's page holds: name, version, licence."""
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text())
    for place, package in sorted(lock["packages"].items()):
        if place and not package.get("dev", False):
            yield place.rpartition("node_modules/")[2], package["version"], package["license"]


def kept_text(name):
    """A licence text that this repository keeps, because no build of ours fetches it."""
    file = ROOT / "packaging" / "licences" / f"{name}.txt"
    if not file.is_file():
        sys.exit(f"{file.relative_to(ROOT)} is missing: the licence text of {name}, which the program holds")
    return file.read_text().strip() + "\n"


class Text(html.parser.HTMLParser):
    """The text of a page."""

    def __init__(self, page):
        super().__init__()
        self.pieces, self.silent = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.silent += tag in ("style", "script")
        self.pieces.append("\n" if tag in ("p", "li", "pre", "h1", "h2", "h3", "h4", "br") else "")

    def handle_endtag(self, tag):
        self.silent -= tag in ("style", "script")

    def handle_data(self, data):
        if not self.silent:
            self.pieces.append(data)

    def text(self):
        """Without runs of blank lines."""
        return re.sub(r"\n\s*\n+", "\n\n", "".join(self.pieces)).strip() + "\n"


def of_standard_library():
    """What the compiler's makers say of Rust's standard library, a part of whatever is built."""
    where = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return Text((pathlib.Path(where) / "share/doc/rust/COPYRIGHT-library.html").read_text()).text()


def notices(which):
    """One text: who, under what, and each licence text once, with all whose it is."""
    shared = {}
    lines = [f"What others have given to this build of Ackwright ({BUILT[which]}).",
             "Ackwright itself is under the MIT licence or the Apache License 2.0, at your choice.", ""]
    for crate in crates_of(BUILT[which]):
        if is_ours(crate):
            continue
        name = f"{crate['name']} {crate['version']}"
        texts = list(licence_texts(pathlib.Path(crate["manifest_path"]).parent)) or standard_text(crate)
        if not texts:
            sys.exit(f"{name} ({crate['license']}): no licence text in its package")
        lines.append(f"{name}: {crate['license']}")
        for _, text in texts:
            shared.setdefault(text, []).append(name)
    if which == "program":
        for name, version, licence in of_page():
            lines.append(f"{name} {version} (in the viewer's page): {licence}")
            shared.setdefault(kept_text(f"{name}-{version}"), []).append(f"{name} {version}")
        lines.append("musl (the C library of the static program): MIT")
        shared.setdefault(kept_text("musl"), []).append("musl")
    lines.append("Roboto (the letters of plots): Apache-2.0")
    font = (ROOT / "crates" / "lab" / "assets" / "LICENSE-Roboto.txt").read_text().strip() + "\n"
    shared.setdefault(font, []).append("Roboto")
    lines.append("Rust's standard library: MIT OR Apache-2.0, and what its own notices say, at the end")
    shared.setdefault(of_standard_library(), []).append("Rust's standard library")
    for text, names in shared.items():
        lines += ["", "=" * 100, *wrapped(names), "=" * 100, "", text.rstrip()]
    return "\n".join(lines) + "\n"


def wrapped(names):
    """Names, ten a line."""
    names = list(dict.fromkeys(names))
    return [", ".join(names[at:at + 10]) for at in range(0, len(names), 10)]


def checksums():
    """The SHA-256 of each crate, as Cargo.lock has it."""
    text = (ROOT / "Cargo.lock").read_text()
    found = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([0-9a-f]{64})"', text)
    return {(name, version): checksum for name, version, checksum in found}


def component(crate, sums):
    """A crate in CycloneDX's words."""
    name, version = crate["name"], crate["version"]
    made = {
        "type": "library", "bom-ref": f"pkg:cargo/{name}@{version}", "name": name, "version": version,
        "purl": f"pkg:cargo/{name}@{version}",
        # CycloneDX takes SPDX expressions, in which "/" is no word.
        "licenses": [{"expression": crate["license"].replace("/", " OR ")}],
    }
    if (name, version) in sums:
        made["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return made


def sbom(which):
    """The bill of materials: components, and who needs whom."""
    crates, sums = crates_of(BUILT[which]), checksums()
    parts = [component(crate, sums) for crate in crates]
    main = next(it for it in parts if it["name"] == BUILT[which])
    if which == "program":
        parts += [{
            "type": "library", "bom-ref": f"pkg:npm/{name}@{version}", "name": name, "version": version,
            "purl": f"pkg:npm/{name}@{version}", "licenses": [{"expression": licence}],
        } for name, version, licence in of_page()]
    refs = {it["bom-ref"] for it in parts}
    by_id = {crate["id"]: f"pkg:cargo/{crate['name']}@{crate['version']}" for crate in crates}
    needs = [{
        "ref": by_id[node["id"]],
        "dependsOn": sorted({by_id[it["pkg"]] for it in node["deps"] if it["pkg"] in by_id}),
    } for node in metadata()["resolve"]["nodes"] if node["id"] in by_id]
    serial = hashlib.sha256(json.dumps([parts, needs]).encode()).hexdigest()
    return json.dumps({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{serial[:8]}-{serial[8:12]}-5{serial[13:16]}-8{serial[17:20]}-{serial[20:32]}",
        "metadata": {"component": {**main, "type": "application" if which == "program" else "library"}},
        "components": [it for it in parts if it["bom-ref"] != main["bom-ref"]],
        "dependencies": sorted((it for it in needs if it["ref"] in refs), key=lambda it: it["ref"]),
    }, indent=1) + "\n"


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("notices", "sbom") or sys.argv[2] not in BUILT:
        sys.exit(__doc__)
    text = {"notices": notices, "sbom": sbom}[sys.argv[1]](sys.argv[2])
    pathlib.Path(sys.argv[3]).write_text(text)


if __name__ == "__main__":
    main()
