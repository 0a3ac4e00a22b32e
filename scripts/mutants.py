#!/usr/bin/env python3
"""Puts known mistakes into the code, one at a time, and sees which oracle or test notices.

  scripts/mutants.py                what is known, as the table of docs/TESTING.md
  scripts/mutants.py --check        whether each mistake still has its place in the code
  scripts/mutants.py 1..20          run these (also one number, or names), going on where it ended

The mistakes are listed in mutants/*.toml (mutants/README.md says how). All of them are built at once
in a copy of what is committed, target/mutants/tree: each stands beside the text it replaces, and the
variable ACKWRIGHT_MUTANT, a number, says which one is made. A mistake is first looked for by
the swarm tester, with rising seeds, then by the tests that stood before. What comes out is appended to
target/mutants/results.jsonl. What is caught is not run again, unless --again is given.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target/mutants"
TREE = WORK / "tree"
RESULTS = WORK / "results.jsonl"
# Which sources a list is about.
FOLDERS = {
    "tcp": "crates/datapath/src/tcp",
    "host": "crates/datapath/src/host",
    "qdisc": "crates/datapath/src/qdisc",
    "fib": "crates/datapath/src/fib",
    "sim": "crates/sim/src",
}
LIBRARIES = ["crates/datapath/src/lib.rs", "crates/sim/src/lib.rs"]
PACKAGES = ["datapath", "sim", "drill", "iproute", "lab"]
STEPS = [0, 30, 100, 300, 1_000, 3_000, 10_000]
# Kinds that run nothing but one folder.
NARROW = {"qdisc": "qdisc", "route": "fib"}
SWITCH = """
/// Which mistake of mutants/*.toml is made.
pub mod mutants {
    /// Whether it is this one.
    #[inline]
    pub fn on(number: u32) -> bool {
        static MADE: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
            std::env::var("ACKWRIGHT_MUTANT").map_or(0, |number| number.parse().expect("a number"))
        });
        *MADE == number
    }
}
"""
MEMORY = 8 << 30


def listed():
    """All mutants, in the order of FOLDERS, numbered from 1."""
    mutants = []
    for folder in FOLDERS:
        with open(ROOT / "mutants" / f"{folder}.toml", "rb") as file:
            mutants += [mutant | {"folder": folder} for mutant in tomllib.load(file)["mutant"]]
    names = [mutant["name"] for mutant in mutants]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        sys.exit(f"mutants/: names given twice: {', '.join(sorted(twice))}")
    return [mutant | {"number": number} for number, mutant in enumerate(mutants, 1)]


def edits(mutant):
    """The places a mutant changes; none as long as the defect itself still stands in the code."""
    return [edit for edit in [mutant, *mutant.get("also", [])] if "find" in edit]


def place(mutant, edit):
    """File, start and end of the text that is replaced."""
    source = FOLDERS[mutant["folder"]]
    file = os.path.normpath(f"{source}/{edit['file']}")
    text = (ROOT / file).read_text()
    begin = 0
    if "after" in edit:
        if text.count(edit["after"]) != 1:
            raise ValueError(f"{file} has {text.count(edit['after'])} times: {edit['after']}")
        begin = text.index(edit["after"]) + len(edit["after"])
    count = text.count(edit["find"], begin)
    if count == 0 or (count > 1 and "after" not in edit):
        raise ValueError(f"{file} has {count} times: {edit['find']}")
    start = text.index(edit["find"], begin)
    return file, start, start + len(edit["find"])


def places(mutants):
    """(file, start, end) -> [(mutant, replacement)]. Exits if a mutant has lost its place."""
    found, wrong = {}, []
    for mutant in mutants:
        for edit in edits(mutant):
            try:
                found.setdefault(place(mutant, edit), []).append((mutant, edit["replace"]))
            except (ValueError, OSError) as error:
                wrong.append(f"mutant {mutant['number']} {mutant['name']}: {error}")
    spans = sorted(found)
    for one, next_one in zip(spans, spans[1:]):
        if one[0] == next_one[0] and next_one[1] < one[2]:
            names = [found[span][0][0]["name"] for span in (one, next_one)]
            wrong.append(f"mutants {' and '.join(names)} change overlapping text of {one[0]}")
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        sys.exit(2)
    return found


def planted(mutants):
    """file -> its text with all mutants in it. What ends in ; or } is a statement, else an expression."""
    texts = {file: "#![allow(warnings)]\n" + (ROOT / file).read_text() for file in LIBRARIES}
    texts[LIBRARIES[0]] += SWITCH
    for (file, start, end), made in sorted(places(mutants).items(), reverse=True):
        text = texts.get(file) or (ROOT / file).read_text()
        place = old = text[start:end]
        for mutant, replacement in made:
            switch = "crate" if file.startswith("crates/datapath/") else "datapath"
            condition = f"{switch}::mutants::on({mutant['number']})"
            place = f"if {condition} {{ {replacement} }} else {{ {place} }}"
        if old[-1] not in ";}":
            place = f"({place})"
        texts[file] = text[:start] + place + text[end:]
    return texts


def run(*command, **options):
    return subprocess.run(command, text=True, check=True, **options)


def git(*words):
    return run("git", *words, cwd=ROOT, stdout=subprocess.PIPE).stdout


def plant(mutants):
    """Makes the work tree what is committed, with the mutants; a file that stays is not touched."""
    if dirty := git("status", "--porcelain", "crates"):
        sys.exit(f"mutants are made of what is committed:\n{dirty}")
    texts = planted(mutants)
    files = set(git("ls-files").splitlines())
    for file in files:
        if (ROOT / file).is_symlink():
            link(TREE / file, (ROOT / file).readlink())
            continue
        wanted = texts[file].encode() if file in texts else (ROOT / file).read_bytes()
        there = TREE / file
        if not there.exists() or there.read_bytes() != wanted:
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(wanted)
            shutil.copymode(ROOT / file, there)
    for there in [path for path in TREE.rglob("*") if path.is_file() and not path.is_symlink()]:
        if str(there.relative_to(TREE)) not in files:
            there.unlink()


def link(there, target):
    """A symbolic link of the work tree, which may lead to a folder."""
    if not there.is_symlink():
        there.parent.mkdir(parents=True, exist_ok=True)
        there.unlink(missing_ok=True)
        there.symlink_to(target)


def cargo(*words):
    """What cargo has built in the work tree: (package folder, target, executable)."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(WORK / "build")}
    command = ["cargo", *words, "--profile", "checked", "--locked", "--message-format", "json-render-diagnostics"]
    built = run(*command, cwd=TREE, env=environment, stdout=subprocess.PIPE).stdout
    messages = map(json.loads, built.splitlines())
    return [(Path(message["manifest_path"]).parent, message["target"]["name"], message["executable"])
            for message in messages if message.get("executable")]


def watched(command, number, limit, **options):
    """Runs with a mutant: (exit code or "does not end", stdout, stderr)."""
    vectors = ROOT.parent / "shared/vectors"
    environment = {"ACKWRIGHT_VECTORS": str(vectors)} if vectors.is_dir() else {}
    environment |= os.environ | {"ACKWRIGHT_MUTANT": str(number), "RUST_BACKTRACE": "0"}
    # A mutant may take memory without end.
    bound = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with subprocess.Popen(command, text=True, env=environment, preexec_fn=bound,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=limit)
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return "does not end", out, err


class Swarm:
    """Judges slices of seeds; what the code fails without a mutant is known and does not count."""

    def __init__(self, kinds, seeds):
        [(_, _, self.program)] = cargo("test", "--no-run", "-p", "ackwright-swarm", "--test", "slice")
        self.kinds = kinds or run(self.program, "kinds", stdout=subprocess.PIPE).stdout.split()
        self.seeds, self.sound = seeds, {}

    def slices(self, folder):
        ends = [end for end in STEPS if end < self.seeds] + [self.seeds]
        for begin, end in zip(ends, ends[1:]):
            for kind in self.kinds:
                if NARROW.get(kind, folder) == folder:
                    yield kind, begin, end

    def judge(self, number, slice, more, limit):
        """[(seed, oracle)] of what fails, and the seconds it took."""
        kind, begin, end = slice
        began = time.monotonic()
        code, out, _ = watched([self.program, kind, f"{begin}..{end}", *more], number, limit)
        failed = [line.split("\t") for line in out.splitlines()]
        # An abort, or no memory left: the program itself is gone.
        died = [] if code in (0, 1) or failed else [(end, code if isinstance(code, str) else f"exit {code}")]
        return [(int(seed), oracle(*how)) for seed, *how in failed] + died, time.monotonic() - began

    def without(self, slice):
        """The seeds of a slice that fail as it is, and the seconds all take."""
        if slice not in self.sound:
            failed, seconds = self.judge(0, slice, ["all"], None)
            self.sound[slice] = [str(seed) for seed, _ in failed], seconds
        return self.sound[slice]

    def find(self, mutant):
        """The first seed that fails only with the mutant, and how."""
        number = mutant["number"]
        for slice in self.slices(mutant["folder"]):
            known, seconds = self.without(slice)
            failed, _ = self.judge(number, slice, known, 200 + 20 * seconds)
            if failed:
                seed, how = min(failed)
                return f"{slice[0]}: {how}, seed {seed}"
        return None


def oracle(name, what):
    """A panic is told by what it says, an oracle by its name."""
    return f'panic "{what[:60]}"' if name == "panic" else name


class Tests:
    """The tests that stood before, built when they are first needed."""

    def __init__(self, packages):
        self.packages, self.tests, self.sound = packages, None, {}

    def build(self):
        if not self.packages:
            return []
        packages = [word for name in self.packages for word in ("-p", f"ackwright-{name}")]
        built = cargo("test", "--no-run", *packages)
        tests = [(f"{folder.name} {target}", executable, folder)
                 for folder, target, executable in built if folder.name in self.packages]
        return sorted(tests, key=lambda test: self.packages.index(test[2].name))

    def failing(self, number, test, leave_out, limit):
        _, executable, folder = test
        skip = [word for left_out in leave_out for word in ("--skip", left_out)]
        began = time.monotonic()
        code, out, _ = watched([executable, *skip], number, limit, cwd=folder)
        failed = re.findall(r"^test (\S+)(?: - .*)? \.\.\. FAILED", out, re.MULTILINE)
        if code != 0 and not failed:
            failed = [f"({code})"]
        return failed, time.monotonic() - began

    def find(self, number, leave_out):
        self.tests = self.tests or self.build()
        for test in self.tests:
            if test not in self.sound:
                self.sound[test] = self.failing(0, test, [], None)
            known, seconds = self.sound[test]
            failed, _ = self.failing(number, test, leave_out, 60 + 10 * seconds)
            new = [name for name in failed if name not in known]
            if new:
                more = f" and {len(new) - 1} more" if len(new) > 1 else ""
                return f"test {test[0]}: {new[0]}{more}"
        return None


def results():
    """The last result of each mutant."""
    if not RESULTS.exists():
        return {}
    return {one["name"]: one for one in map(json.loads, RESULTS.read_text().splitlines())}


def chosen(mutants, words):
    names = {mutant["name"]: mutant for mutant in mutants}
    picked = []
    for word in words:
        if word in names:
            picked.append(names[word])
        elif match := re.fullmatch(r"(\d+)(?:\.\.(\d+))?", word):
            first, last = int(match[1]), int(match[2] or match[1])
            picked += [mutant for mutant in mutants if first <= mutant["number"] <= last]
        else:
            sys.exit(f"\"{word}\" is neither A..B, nor a number, nor the name of a mutant")
    return picked


def outcome(result, folder):
    if result is None:
        return "not run yet"
    kinds = ", ".join(kind for kind in result["kinds"] if NARROW.get(kind, folder) == folder)
    seeds = f"by {result['seeds']} seeds of {kinds}"
    return result["by"] or (f"**MISSED** {seeds} and all tests" if result["tests"] else f"not {seeds}; tests not run yet")


def table(mutants):
    known = results()
    print("| mutant | what is wrong | caught by |\n|---|---|---|")
    for mutant in mutants:
        result = known.get(mutant["name"])
        by = outcome(result, mutant["folder"]) if edits(mutant) else "the defect itself still stands"
        print(f"| {mutant['folder']} {mutant['name']} | {mutant['breaks']} | {by} |")
    runs = [known[m["name"]] for m in mutants if m["name"] in known and edits(m)]
    caught = sum(1 for one in runs if one["by"])
    swarm = sum(1 for one in runs if one["by"] and not one["by"].startswith("test "))
    print(f"\n{len(mutants)} mutants, {len(runs)} run: {swarm} caught by swarm, {caught - swarm} by tests "
          f"that stood before, {len(runs) - caught} not caught.")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("which", nargs="*", metavar="A..B")
    arguments.add_argument("--check", action="store_true", help="only look for the places")
    arguments.add_argument("--again", action="store_true", help="also what is caught already")
    arguments.add_argument("--seeds", type=int, default=STEPS[-1], help="seeds of each kind (10000)")
    arguments.add_argument("--kinds", nargs="*", help="these kinds of the swarm tester (all)")
    arguments.add_argument("--tests", nargs="*", default=PACKAGES, help=f"whose tests ({' '.join(PACKAGES)})")
    given = arguments.parse_args()
    mutants = listed()
    if given.check:
        places(mutants)
        waiting = sum(1 for mutant in mutants if not edits(mutant))
        return print(f"{len(mutants)} mutants, {waiting} of them wait for their defect to be mended")
    if not given.which:
        return table(mutants)
    known = results()
    todo = [m for m in chosen(mutants, given.which) if edits(m)]
    if not given.again:
        todo = [m for m in todo if not known.get(m["name"], {}).get("by")]
    plant(mutants)
    commit = git("rev-parse", "--short=9", "HEAD").strip()
    swarm, tests = Swarm(given.kinds, given.seeds), Tests(given.tests)
    for mutant in todo:
        began = time.monotonic()
        by = swarm.find(mutant) or tests.find(mutant["number"], mutant.get("leave_out", []))
        result = {"name": mutant["name"], "commit": commit, "by": by, "seeds": given.seeds,
                  "kinds": swarm.kinds, "tests": given.tests, "seconds": round(time.monotonic() - began)}
        with open(RESULTS, "a") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{mutant['number']} {mutant['name']}: {by or 'MISSED'} ({result['seconds']} s)", flush=True)


if __name__ == "__main__":
    main()
