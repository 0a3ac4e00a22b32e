#!/usr/bin/env python3
"""A random sample of cargo-mutants' mutants, judged by short runs of the swarm tester.

  cargo install cargo-mutants --locked
  scripts/mutants_sample.py             40 mutants of tcp/, host/, qdisc/ and fib/, going on where it ended
  scripts/mutants_sample.py --table     what is known, as the table of docs/TESTING.md

cargo-mutants only lists what it would change. As in scripts/mutants.py, all are built at once: each function with
a mutant holds its body twice, and a variable says which is run. So a function that is const or returns `impl Trait`
is not drawn, nor are the judges that stand among the judged (check.rs). What does not compile is drawn, told, and left out.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys

import mutants

RESULTS = mutants.WORK / "sample.jsonl"
JUDGES = re.compile(r"/(check|tests|laws)(\.rs|/)")


def drawn(seed, count):
    """`count` mutants, the same for the same seed and code."""
    files = [word for folder in ("tcp", "host", "qdisc", "fib") for word in ("-f", f"{mutants.FOLDERS[folder]}/**")]
    listed = mutants.run("cargo", "mutants", "--list", "--json", *files, cwd=mutants.ROOT, stdout=subprocess.PIPE).stdout
    every = [one for one in json.loads(listed) if one["function"] and not JUDGES.search(one["file"])]
    every.sort(key=lambda one: one["name"])
    random.Random(seed).shuffle(every)
    sample, functions = [], {}
    for one in every:
        if len(sample) == count:
            break
        try:
            begin, end = body(one)
        except ValueError:
            continue
        others = functions.setdefault(one["file"], [])
        if all(end <= b or e <= begin or (b, e) == (begin, end) for b, e in others):
            others.append((begin, end))
            sample.append(one)
    folder = lambda file: next(name for name, path in mutants.FOLDERS.items() if file.startswith(path + "/"))
    return [one | {"number": number, "folder": folder(one["file"])} for number, one in enumerate(sample, 1)]


def offset(text, place):
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1


def body(one):
    """Where the block of the mutant's function begins and ends, if it may stand there twice."""
    text = (mutants.ROOT / one["file"]).read_text()
    at, end = (offset(text, one["function"]["span"][side]) for side in ("start", "end"))
    depth, begin = 0, at
    while depth or text[begin] != "{":
        depth += (text[begin] in "([") - (text[begin] in ")]")
        begin += 1
    if re.search(r"\bconst fn\b|-> impl\b", text[at:begin]) or text[end - 1] != "}":
        raise ValueError("no place for a condition")
    return begin, end


def planted(sample):
    """file -> its text with the mutants in it."""
    texts = {file: "#![allow(warnings)]\n" + (mutants.ROOT / file).read_text() for file in mutants.LIBRARIES}
    texts[mutants.LIBRARIES[0]] += mutants.SWITCH
    places = {}
    for one in sample:
        places.setdefault((one["file"], *body(one)), []).append(one)
    for (file, begin, end), made in sorted(places.items(), reverse=True):
        original = (mutants.ROOT / file).read_text()
        arms = ""
        for one in made:
            start, stop = (offset(original, one["span"][side]) for side in ("start", "end"))
            mutated = original[begin:start] + one["replacement"] + original[stop:end]
            arms += f"if crate::mutants::on({one['number']}) {mutated} else "
        texts[file] = (text := texts.get(file, original))[:begin] + "{ " + arms + text[begin:end] + " }" + text[end:]
    return texts


def compiling(sample):
    """The sample without what does not compile, and the names of that. Leaves the rest in the work tree."""
    unviable = []
    while True:
        mutants.planted = lambda _: planted(sample)
        mutants.plant(sample)
        command = ["cargo", "check", "--locked", "-p", "ackwright-datapath", "--message-format", "json"]
        environment = os.environ | {"CARGO_TARGET_DIR": str(mutants.WORK / "check")}
        checked = subprocess.run(command, cwd=mutants.TREE, env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        messages = [json.loads(line).get("message") or {} for line in checked.stdout.splitlines()]
        spans = [span for message in messages if message.get("level") == "error" for span in message["spans"]]
        if checked.returncode == 0:
            return sample, unviable
        wrong = {one["number"] for one in sample for span in spans if in_arm(one, span)}
        if not wrong:
            sys.exit("\n".join(message.get("rendered", "") for message in messages if message.get("level") == "error"))
        unviable += [one["name"] for one in sample if one["number"] in wrong]
        sample = [one for one in sample if one["number"] not in wrong]


def in_arm(one, span):
    """Whether an error lies in the mutant's copy of its function."""
    text = (mutants.TREE / one["file"]).read_text()
    if span["file_name"] != one["file"]:
        return False
    begin = text.index(f"if crate::mutants::on({one['number']}) ")
    # Offsets of errors are in bytes.
    at = len(text.encode()[: span["byte_start"]].decode(errors="ignore"))
    start, end = body(one)
    return begin <= at < begin + end - start + 60


def table(known):
    print("| mutant | caught by |\n|---|---|")
    for one in known.values():
        name = one["name"].removeprefix("crates/datapath/src/").replace("|", "\\|")
        print(f"| `{name}` | {one['by'] or '**missed**'} |")
    caught = sum(1 for one in known.values() if one["by"])
    print(f"\n{len(known)} mutants run, {caught} caught, {len(known) - caught} not caught.")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--count", type=int, default=40)
    arguments.add_argument("--draw", type=int, default=1, help="which sample (1)")
    arguments.add_argument("--seeds", type=int, default=300,
                           help="seeds of each kind (300); what fewer have missed is judged again")
    arguments.add_argument("--table", action="store_true")
    given = arguments.parse_args()
    known = {one["name"]: one for one in map(json.loads, RESULTS.read_text().splitlines())} if RESULTS.exists() else {}
    if given.table:
        return table(known)
    commit = mutants.git("rev-parse", "--short=9", "HEAD").strip()
    sample, unviable = compiling(drawn(given.draw, given.count))
    print(f"{commit}: {len(sample)} mutants; do not compile: {unviable}", flush=True)
    swarm = mutants.Swarm(None, given.seeds)
    for one in sample:
        before = known.get(one["name"])
        if before and (before["by"] or before["seeds"] >= given.seeds):
            continue
        by = swarm.find(one)
        with open(RESULTS, "a") as file:
            file.write(json.dumps({"name": one["name"], "commit": commit, "by": by, "seeds": given.seeds}) + "\n")
        print(f"{one['number']} {one['name']}: {by or 'missed'}", flush=True)


if __name__ == "__main__":
    main()
