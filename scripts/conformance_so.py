#!/usr/bin/env python3
"""Two runners judge one stack: `ackwright drill`, and Google's packetdrill with the shared object.

usage: conformance_so.py [--ip-version VERSION]... [--json] PACKETDRILL FOLDER [ACKWRIGHT SHARED-OBJECT]

Runs every script below FOLDER through both and prints those on which they disagree. No shell
command of a script is run: the shared object is preloaded, and interprets them. packetdrill locks
its memory and asks for a real-time priority, so it wants root or generous limits.

Exit code 1 if there is any: a bug of ours until docs/conformance.md explains it.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

# As the suites' own runner calls packetdrill.
VARIANTS = {
    "ipv4": "--ip_version=ipv4 --local_ip=192.168.0.1 --gateway_ip=192.168.0.1 "
            "--netmask_ip=255.255.0.0 --remote_ip=192.0.2.1 -D TFO_COOKIE=3021b9d889017eeb "
            "-D TFO_COOKIE_ZERO=b7c12350a90dc8f5 -D CODE=host_unreachable "
            "-D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR",
    "ipv6": "--ip_version=ipv6 --mtu=1520 --local_ip=fd3d:0a0b:17d6::1 "
            "--gateway_ip=fd3d:0a0b:17d6:8888::1 --remote_ip=fd3d:fa7b:d17d::1 "
            "-D TFO_COOKIE=c1d1e9742a47a9bc -D TFO_COOKIE_ZERO=82af1a8f9a205c34 "
            "-D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR",
    "ipv4-mapped-ipv6": "--ip_version=ipv4-mapped-ipv6 --local_ip=192.168.0.1 "
            "--gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1 "
            "-D TFO_COOKIE=3021b9d889017eeb -D TFO_COOKIE_ZERO=b7c12350a90dc8f5 "
            "-D CODE=host_unreachable -D CMSG_LEVEL_IP=SOL_IPV6 "
            "-D CMSG_TYPE_RECVERR=IPV6_RECVERR",
}

# What a script sets for the stack, which packetdrill does not tell its shared object.
OF_THE_STACK = re.compile(r"^\s*(--(?:mss|mtu)=\d+)", re.MULTILINE)

SECONDS = 20


def packetdrill(args, script, version):
    """What packetdrill says of one script: pass, fail or skip, and its last words."""
    with open(script, encoding="utf-8", errors="replace") as file:
        flags = " ".join([f"--ip_version={version}", f"--root={os.path.realpath(args.root)}"]
                         + OF_THE_STACK.findall(file.read()))
    command = [args.packetdrill, "--send_omit_free", *VARIANTS[version].split(),
               f"--so_filename={args.shared_object}", f"--so_flags={flags}",
               os.path.basename(script)]
    environment = dict(os.environ, LD_PRELOAD=args.shared_object)
    try:
        done = subprocess.run(command, cwd=os.path.dirname(script), env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "fail", f"not ended after {SECONDS} s"
    if done.returncode == 0:
        return "pass", ""
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    for line in lines:
        if "ackwright: skipped: " in line:
            return "skip", line.partition("ackwright: skipped: ")[2]
    telling = [line for line in lines if ".pkt:" in line or "Error" in line] or lines[-1:]
    return "fail", telling[0] if telling else f"status {done.returncode}"


def drill(args):
    """What `ackwright drill` says of every script, by name and variant."""
    found = {}
    for version in args.ip_version:
        command = [args.ackwright, "drill", args.root, "--ip-version", version, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr)
        for one in json.loads(done.stdout)["scripts"]:
            found[one["path"], version] = (one["result"], one["reason"] or "", one["line"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ip-version", action="append", choices=list(VARIANTS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("packetdrill", type=os.path.realpath)
    parser.add_argument("root")
    parser.add_argument("ackwright", nargs="?", default="target/release/ackwright")
    parser.add_argument("shared_object", nargs="?", type=os.path.realpath,
                        default=os.path.realpath("target/release/libackwright_so.so"))
    args = parser.parse_args()
    args.ip_version = args.ip_version or ["ipv4", "ipv6"]
    for path in (args.packetdrill, args.ackwright, args.shared_object, args.root):
        if not os.path.exists(path):
            sys.exit(f"{path}: no such file")

    ours = drill(args)
    jobs = {key: os.path.realpath(os.path.join(args.root, key[0])) for key in ours}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        theirs = {key: pool.submit(packetdrill, args, path, key[1]) for key, path in jobs.items()}
        theirs = {key: future.result() for key, future in theirs.items()}

    table, disagreements, elsewhere = {}, [], []
    for key, (result, reason, line) in ours.items():
        verdict, words = theirs[key]
        counts = table.setdefault(key[1], {})
        counts[result, verdict] = counts.get((result, verdict), 0) + 1
        place = re.search(r"\.pkt:(\d+):", words)
        if result == verdict == "fail" and place and line and int(place[1]) != line:
            elsewhere.append((key, line, reason, words))
        # What is skipped here is no verdict.
        if result not in ("skip", verdict):
            disagreements.append({
                "path": key[0], "ip_version": key[1], "drill": result, "drill_reason": reason,
                "drill_line": line, "packetdrill": verdict, "packetdrill_reason": words})

    if args.json:
        print(json.dumps({"scripts": len(ours), "disagreements": disagreements}, indent=1))
        return 1 if disagreements else 0
    print(f"{'':18}{'drill':>8}{'packetdrill':>13}{'scripts':>9}")
    for version, counts in table.items():
        for (result, verdict), count in sorted(counts.items()):
            mark = "" if result in ("skip", verdict) else "  <"
            print(f"{version:18}{result:>8}{verdict:>13}{count:>9}{mark}")
    for one in disagreements:
        print(f"\n{one['path']} [{one['ip_version']}]")
        print(f"  drill       {one['drill']} {one['drill_reason']}")
        print(f"  packetdrill {one['packetdrill']} {one['packetdrill_reason']}")
    for (name, version), line, reason, words in elsewhere:
        print(f"\n{name} [{version}]: both fail, at another line")
        print(f"  drill       {line}: {reason}")
        print(f"  packetdrill {words}")
    print(f"\n{len(ours)} runs, {len(disagreements)} disagreements, "
          f"{len(elsewhere)} failures at another line")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
