"""tcpcases.py hand CC...        the families made by hand, for each of these congestion controls
tcpcases.py random COUNT SEED [CC...]   COUNT random cases, each of which depends on its seed alone (SEED, SEED+1, ...)

Prints one JSON object a line, for record.sh. A case names what differs from DEFAULTS in tcpcollect.py."""
import json, random, sys

CCS = ["cubic", "reno", "bbr", "dctcp", "bic", "westwood", "htcp", "highspeed", "hybla", "vegas", "nv", "scalable", "lp", "veno", "yeah", "illinois", "cdg"]
FQ = "qdisc add dev e0 root fq"


def hand(cc):
    """The same topics for every module; a draw of its own for each case that has draws."""
    cases = [
        ("alone", dict(dur=4)),
        ("shallow", dict(dur=4, limit=20)),
        ("deep", dict(dur=4, limit=2000)),
        ("fast", dict(dur=2, rate="100mbit", owd=5, limit=200)),
        ("slow", dict(dur=6, rate="1mbit", owd=30, limit=50)),
        ("long", dict(dur=14, rate="5mbit", owd=10, limit=100)),
        ("tbf", dict(dur=4, bott="tbf", limit=60000)),
        ("cake", dict(dur=4, bott="cake")),
        ("gso", dict(dur=3, rate="50mbit", offl="gso", limit=300)),
        ("tso", dict(dur=3, rate="50mbit", offl="tso", limit=100)),
        ("fq", dict(dur=4, tcS=[FQ])),
        ("fqtso", dict(dur=3, rate="50mbit", offl="tso", limit=100, tcS=[FQ])),
        ("loss", dict(dur=4, rules=["f every 100 57 drop"])),
        ("loss5", dict(dur=4, rules=["f every 20 31 drop"])),
        ("burst", dict(dur=4, rules=[f"f data {n} drop" for n in range(150, 170)])),
        ("reorder", dict(dur=4, rules=["f every 60 40 delay 8000000"])),
        ("dup", dict(dur=3, rules=["f every 50 30 dup 5000000"])),
        ("spike", dict(dur=4, rules=["f time 1000000000 1600000000 hold"])),
        ("outage", dict(dur=5, rules=["f time 1000000000 1700000000 drop", "r time 1000000000 1700000000 drop"])),
        ("stretch", dict(dur=4, rules=["r ackevery 2 40 drop", "r ackevery 3 41 drop"])),
        ("ackburst", dict(dur=4, rules=["r time %d %d hold" % (t, t + 15_000_000) for t in range(500_000_000, 3_800_000_000, 40_000_000)])),
        ("ackloss", dict(dur=4, rev="netem rate 200kbit limit 5")),
        ("police", dict(dur=6, rate="50mbit", police="rate 5mbit burst 20000")),
        ("police2", dict(dur=8, rate="20mbit", owd=10, police="rate 2mbit burst 100000")),
        ("app", dict(dur=5, app="40000 120000000")),
        ("idle", dict(dur=8, app="400000 2500000000")),
        ("chunks", dict(dur=3, app="1000 2000000", nodelay=1)),
        ("short", dict(dur=3, bytes=[200000])),
        ("tail", dict(dur=4, bytes=[144800], rules=["f off 141904 1 drop", "f off 143352 1 drop"])),
        ("nosack", dict(dur=4, sysS=["net.ipv4.tcp_sack=0"], rules=["f every 90 57 drop"])),
        ("nots", dict(dur=4, sysS=["net.ipv4.tcp_timestamps=0"])),
        ("rwnd", dict(dur=4, srv="32768")),
        ("pause", dict(dur=4, srv="65536 500000 700000000")),
        ("beside", dict(cc=["cubic", cc], start=[0.1003, 0.3007], bytes=[0, 0], dur=6, limit=60)),
        ("two", dict(cc=[cc, cc], start=[0.1003, 1.1007], bytes=[0, 0], dur=6, limit=60)),
    ]
    for name, case in cases:
        case = {"cc": [cc], **case}
        if cc == "lp" and name != "nots":  # It measures delays by the peer's timestamps, which else have a random number added.
            case |= {end: [*case.get(end, []), "net.ipv4.tcp_timestamps=2"] for end in ("sysS", "sysV")}
        yield dict(name=f"{name}_{cc}", draw=draws(case["cc"], random.Random(f"{name} {cc}")), **case)


def draws(ccs, rng):
    d = {}
    if "bbr" in ccs:
        d["bbr"] = rng.randrange(7)
    if "cdg" in ccs:
        d["cdg"] = rng.randrange(1, 1 << 32)
    if "nv" in ccs:
        d["nv"] = rng.randrange(1, 256)
    return d


def rules(r, dur_ns):
    n = 1448
    out = []
    for _ in range(r.choice([0, 0, 1, 1, 2, 3])):
        k = r.randrange(10, 300)
        out.append(r.choice([
            lambda: f"f data {k} drop", lambda: f"f every {r.randrange(5, 200)} {k} drop", lambda: f"f off {k * n} {r.randrange(1, 3)} drop",
            lambda: f"f every {r.randrange(10, 100)} {k} delay {r.randrange(1, 20) * 1_000_000}", lambda: f"f every {r.randrange(10, 100)} {k} dup {r.randrange(0, 10) * 1_000_000}",
            lambda: f"r ackevery {r.randrange(2, 20)} {r.randrange(5, 60)} drop", lambda: f"r ackevery {r.randrange(2, 20)} {r.randrange(5, 60)} delay {r.randrange(1, 10) * 1_000_000}",
            lambda: "f time %d %d %s" % ((a := r.randrange(dur_ns * 3 // 4)), a + r.randrange(1, 600) * 1_000_000, r.choice(["hold", "drop"])),
            lambda: "r time %d %d %s" % ((a := r.randrange(dur_ns * 3 // 4)), a + r.randrange(1, 400) * 1_000_000, r.choice(["hold", "drop"])),
            lambda: f"f every {r.randrange(5, 60)} {k} ce",
        ])())
        if out[-1].endswith("drop") and out[-1].startswith("f data") and r.random() < 0.5:
            out += [f"f data {k + j} drop" for j in range(1, r.randrange(2, 30))]
    return out


def one(seed, ccs):
    r = random.Random(seed)
    flows = r.choice([1, 1, 1, 1, 2, 3])
    cc = [r.choice(ccs) if i == 0 or r.random() < 0.5 else r.choice(["cubic", "reno"]) for i in range(flows)]
    dur = r.choice([2, 3, 4, 6])
    mbit = r.choice([1, 2, 5, 10, 10, 20, 50, 100])
    bott = r.choice(["netem", "netem", "netem", "tbf", "cake"])
    bdp = mbit * 1_000_000 / 8 * 0.04
    case = dict(
        name=f"r{seed}", cc=cc, start=[round(0.1 + i * r.choice([0, 0.0007, 0.3, 1.0]) + r.randrange(100) / 1e6, 6) for i in range(flows)],
        bytes=[r.choice([0, 0, 0, r.randrange(1000, 2_000_000)]) for _ in range(flows)], dur=dur, rate=f"{mbit}mbit", owd=r.choice([1, 5, 10, 20, 40]), bott=bott,
        limit=max(int(bdp * r.choice([0.3, 1, 2, 5])), 6000) if bott == "tbf" else max(int(bdp / 1500 * r.choice([0.3, 1, 2, 5])), 6),
        offl=r.choice(["off", "off", "gso", "tso"]), rules=rules(r, dur * 10**9), nodelay=r.choice([0, 0, 1]), draw=draws(cc, r))
    if r.random() < 0.25:
        case["app"] = f"{r.choice([100, 1000, 5000, 14480, 60000, 300000])} {r.choice([1, 2, 10, 30, 100, 300, 1200]) * 1_000_000}"
    if r.random() < 0.15:
        case["police"] = f"rate {max(mbit // r.choice([2, 4, 10]), 1)}mbit burst {r.choice([5000, 20000, 100000])}"
    if r.random() < 0.2:
        case["rev"] = r.choice(["netem rate 100kbit limit 10", "netem rate 500kbit limit 20", "tbf rate 300kbit burst 1600 limit 10000"])
    if r.random() < 0.15 and flows == 1:
        case["srv"] = r.choice(["16384", "65536", f"{r.choice([8192, 65536, 262144])} {r.randrange(20000, 600000)} {r.randrange(50, 900) * 1_000_000}"])
    if r.random() < 0.25:
        case["tcS"] = [FQ]
    s = []
    for p, words in [(0.1, "tcp_sack=0"), (0.08, "tcp_timestamps=0"), (0.06, "tcp_ecn=1"), (0.05, "tcp_recovery=0"), (0.05, "tcp_early_retrans=0"), (0.05, "tcp_slow_start_after_idle=0"),
                     (0.04, "tcp_min_tso_segs=4"), (0.05, "tcp_wmem=4096 16384 %d" % r.choice([32768, 131072, 1048576])), (0.04, "tcp_notsent_lowat=16384")]:
        if r.random() < p:
            s.append("net.ipv4." + words)
    case["sysS"] = s
    case["sysV"] = [w for w in s if "ecn" in w]
    if r.random() < 0.1:
        case["sysV"].append(r.choice(["net.ipv4.tcp_comp_sack_nr=0", "net.ipv4.tcp_sack=0", "net.ipv4.tcp_rmem=4096 32768 65536"]))
    if "dctcp" in cc:
        case["sysV"].append("net.ipv4.tcp_congestion_control=dctcp")
        if bott == "netem":
            case["bott"] = "cake"
    case["draw"] |= dict(ts_off=r.randrange(1, 1 << 32), cake=r.randrange(1, 1 << 32))
    return case


def main():
    if sys.argv[1:2] == ["hand"] and len(sys.argv) > 2:
        cases = [c for cc in sys.argv[2:] for c in hand(cc)]
    elif sys.argv[1:2] == ["random"] and len(sys.argv) > 3:
        count, first, ccs = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] or CCS
        cases = [one(seed, ccs) for seed in range(first, first + count)]
    else:
        sys.exit(__doc__)
    for case in cases:
        print(json.dumps(case))


main()
