"""cakecollect.py DIRECTORY FILE.jsonl.gz: one line for each recorded scenario."""
import glob
import gzip
import json
import os
import re
import sys

from frames import *

CLASS = re.compile(
    r"class cake \S+?:([0-9a-f]+) parent \S+\s+\(dropped (\d+), overlimits \d+ requeues \d+\)\s+"
    r"backlog (\S+) (\d+)p requeues \d+\s+(.*?)(?=class cake|$)"
)


def classes(text):
    """`tc -s class show` as it prints no JSON."""
    found = []
    for minor, dropped, backlog, qlen, cobalt in CLASS.findall(text):
        minor = int(minor, 16)
        found.append(dict(minor=minor, tin=minor - 1 >> 10, dropped=int(dropped), backlog=backlog, qlen=int(qlen), cobalt=cobalt.strip()))
    return sorted(found, key=lambda one: one["minor"])


def dumps(text):
    """The objects that `tc -j` printed one after the other."""
    decoder, found, text = json.JSONDecoder(), [], text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value[0])
        text = text[end:].strip()
    return found


def collect(about, path):
    packets, zero = about["packets"], 0
    delays, out, commands, labels, shown, listed = [0] * len(packets), [], [], [], [], []
    for line in open(path):
        kind, _, rest = line.partition(" ")
        if kind == "O":
            zero = int(rest.split()[0])
        elif kind == "A":
            index, time = map(int, rest.split())
            delays[index] = time - packets[index][0]
        elif kind == "R":
            time, length, text = rest.split()
            frame = bytes.fromhex(text)
            index = index_of(frame)
            came = bytes.fromhex(packets[index][1])
            changed = tos_of(frame) if tos_of(frame) != tos_of(came.ljust(96, b"\0")) else None
            entry = [int(time), index, changed, int(length)]
            # The receiving end has taken the outermost tag off, and says so by the length.
            out.append(entry if entry[3] != packets[index][2] else entry[:3] if changed is not None else entry[:2])
        elif kind == "S":
            label, time = rest.split()
            labels.append((label, int(time)))
        elif kind == "T":
            time, command = rest.strip().split(" ", 1)
            commands.append([int(time), "tc " + command])
        elif kind == "J":
            shown = dumps(rest)
        elif kind == "K":
            listed = [classes(part) for part in rest.split("qdisc noqueue")]
        elif kind in ("Y", "Z", "!") and rest.strip():
            return None, f"{kind} {rest.strip()[:200]}"
    if not labels or labels[-1][0] != "end" or len(shown) != len(labels) or len(listed) < len(labels):
        return None, f"incomplete: {len(labels)} labels, {len(shown)} dumps, {len(listed)} lists"
    snapshots = [dict(label=label, t=time, qdisc=qdisc, classes=listed[at]) for at, ((label, time), qdisc) in enumerate(zip(labels, shown))]
    about = dict(about, enq=delays if any(delays) else 0, draws="fixed", hash_key=[f"0x{word:016x}" for word in HASH_KEY], stable=True, prompt=True)
    return dict(about, variants=[dict(t0=zero, out=out, snaps=snapshots, cmds=commands)]), None


def main(directory, output):
    count = 0
    with gzip.open(output, "wt", 9) as file:
        for path in sorted(glob.glob(directory + "/*.json")):
            recorded = path.removesuffix(".json") + ".out"
            if not os.path.exists(recorded):
                print("not played:", path)
                continue
            line, problem = collect(json.load(open(path)), recorded)
            if problem:
                print(path, problem)
                continue
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
            count += 1
    print(count, "scenarios in", output)


main(*sys.argv[1:])
