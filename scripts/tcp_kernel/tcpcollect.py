"""prepare CASES WORK: writes what a guest reads for each case and prints the names.
collect CASES WORK OUT SEED...: makes OUT/NAME.json.gz and OUT/NAME.s.pcap.gz (README.md) of what the guests wrote."""
import gzip, json, os, struct, sys

MAC = {d: "02:00:00:00:%02x:%02x" % p for d, p in dict(e0=(1, 2), m0=(9, 1), m1=(9, 2), r0=(1, 1), r1=(2, 1), d0=(2, 2), d1=(3, 1), v0=(3, 2)).items()}
DEFAULTS = dict(set="public", desc="", start=[0.1003], bytes=[0], dur=4, rate="10mbit", owd=20, bott="netem", limit=400, rev="", police="",
                rules=[], sysS=[], sysV=[], offl="off", srv="0", app="", rcap=False, nodelay=0, tcS=[], draw={})


def complete(case):
    case = {**DEFAULTS, **case}
    if "tc" in case:
        return case
    owd, limit, rate = case["owd"], case["limit"], case["rate"]
    tc = [f"D tc qdisc add dev d1 root netem delay {owd}ms limit 100000", f"D tc qdisc add dev d0 root netem delay {owd}ms limit 100000"] if owd else []
    bott = case["bott"]
    if bott == "netem":
        tc.append(f"R tc qdisc add dev r1 root netem rate {rate} limit {limit}")
    elif bott == "tbf":
        tc.append(f"R tc qdisc add dev r1 root tbf rate {rate} burst 3100 limit {limit}")
    elif bott == "cake":
        tc.append(f"R tc qdisc add dev r1 root cake bandwidth {rate} besteffort")
    elif bott:
        tc.append(f"R tc qdisc add dev r1 root {bott}")
    if case["rev"]:
        tc.append(f"R tc qdisc add dev r0 root {case['rev']}")
    if case["police"]:
        tc.append("R tc qdisc add dev r0 ingress")
        tc.append(f"R tc filter add dev r0 parent ffff: protocol ip prio 1 matchall action police {case['police']} mtu 2000 conform-exceed drop")
    case["tc"] = tc + [f"S tc {words}" for words in case["tcS"]]
    return case


def ns(seconds):
    return round(seconds * 1e9)


def prepare(case, work):
    c, name = case, case["name"]
    wire = lambda a, x, b, y: f"link add {x} netns {a} address {MAC[x]} type veth peer name {y} netns {b} address {MAC[y]}"
    links = [wire("S", "e0", "M", "m0"), wire("M", "m1", "R", "r0")] if c["rules"] else [wire("S", "e0", "R", "r0")]
    links += [wire("R", "r1", "D", "d0"), wire("D", "d1", "V", "v0")]
    ip = {"": links, "M": ["link set m0 up", "link set m1 up"] if c["rules"] else []}
    for n, dev, addr, peer, far in [("S", "e0", "10.0.1.2", "10.0.1.1", "r0"), ("R", "r0", "10.0.1.1", "10.0.1.2", "e0"), ("R", "r1", "10.0.2.1", "10.0.2.2", "d0"),
                                    ("D", "d0", "10.0.2.2", "10.0.2.1", "r1"), ("D", "d1", "10.0.3.1", "10.0.3.2", "v0"), ("V", "v0", "10.0.3.2", "10.0.3.1", "d1")]:
        ip.setdefault(n, []).extend([f"addr add {addr}/24 dev {dev}", f"link set {dev} up", f"neigh add {peer} lladdr {MAC[far]} dev {dev} nud permanent"])
    for n, r in [("S", "default via 10.0.1.1"), ("R", "10.0.3.0/24 via 10.0.2.2"), ("D", "10.0.1.0/24 via 10.0.2.1"), ("V", "default via 10.0.3.1")]:
        ip[n].append("route add " + r)
    tc = {}
    for line in c["tc"]:
        n, words = line.split(" tc ", 1)
        tc.setdefault(n, []).append(words)
    for kind, table in [("ip", ip), ("tc", tc)]:
        with open(f"{work}/{name}.{kind}", "w") as index:
            for i, (n, lines) in enumerate(table.items()):
                if lines:
                    index.write(f"{n or '-'} {i}\n")
                    open(f"{work}/{name}.{kind}{i}", "w").write("\n".join(lines) + "\n")
    lines = [f"dur {ns(c['dur'])}", f"offl {c['offl']}", f"rcap {int(c['rcap'])}"]
    lines += [f"flow {cc} {ns(s)} {b} {c['nodelay']}" for cc, s, b in zip(c["cc"], c["start"], c["bytes"])]
    srv = (c["srv"].split() + ["0", "0"])[:3]
    lines.append("srv " + " ".join(srv))
    if c["app"]:
        lines.append("app " + c["app"])
    for n in "SV":
        lines += [f"sys {n} {s}" for s in ["net.ipv4.tcp_no_metrics_save=1", *c["sys" + n]]]
    lines += ["rule " + r for r in c["rules"]] + [f"draw {k} {v}" for k, v in c["draw"].items()]
    open(f"{work}/{name}.case", "w").write("\n".join(lines) + "\n")


INFO = [("B", "state ca_state retransmits probes backoff options wscales flags"),
        ("I", "rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar"
              " snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans"),
        ("Q", "pacing_rate max_pacing_rate bytes_acked bytes_received"), ("I", "segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out"),
        ("Q", "delivery_rate busy_time rwnd_limited sndbuf_limited"), ("I", "delivered delivered_ce"), ("Q", "bytes_sent bytes_retrans"),
        ("I", "dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash")]
NAMES = [n for _, names in INFO for n in names.split()]
FORMAT = "<" + "".join(k * len(names.split()) for k, names in INFO)
CC = {"bbr": ("<5I", "bbr_bw_lo bbr_bw_hi bbr_min_rtt bbr_pacing_gain bbr_cwnd_gain"), "dctcp": ("<HHIII", "dctcp_enabled dctcp_ce_state dctcp_alpha dctcp_ab_ecn dctcp_ab_tot"),
      None: ("<4I", "vegas_enabled vegas_rttcnt vegas_rtt vegas_minrtt")}


def read_pcap(name):
    """Normalised packets: (time, length of the frame, bytes)."""
    data, at, out, first, stamps = open(name, "rb").read(), 24, [], {}, {}
    while at < len(data):
        sec, nsec, n, wire = struct.unpack_from("<4I", data, at)
        f = bytearray(data[at + 16:at + 16 + n])
        at += 16 + n
        if f[12:14] != b"\x08\x00" or f[23] != 6:
            continue
        ihl = (f[14] & 15) * 4
        t, flow = 14 + ihl, (bytes(f[26:34]), bytes(f[14 + ihl:18 + ihl]))
        back = (f[30:34] + f[26:30], f[t + 2:t + 4] + f[t:t + 2])
        back = (bytes(back[0]), bytes(back[1]))
        f[:12], f[18:20], f[24:26], f[t + 16:t + 18] = bytes(12), bytes(2), bytes(2), bytes(2)
        seq, ack = struct.unpack_from(">II", f, t + 4)
        if f[t + 13] & 2:
            first[flow] = seq
        sub = lambda v, key: (v - first.get(key, 0)) & 0xffffffff
        struct.pack_into(">I", f, t + 4, sub(seq, flow))
        if f[t + 13] & 16:
            struct.pack_into(">I", f, t + 8, sub(ack, back))
        o, end = t + 20, t + (f[t + 12] >> 4) * 4
        while o < min(end, len(f)) and f[o]:
            if f[o] == 1:
                o += 1
                continue
            if f[o] == 8:
                val, ecr = struct.unpack_from(">II", f, o + 2)
                stamps.setdefault(flow, val)
                rel = lambda v, key: (v - stamps.get(key, v) + 1000) & 0xffffffff
                struct.pack_into(">II", f, o + 2, rel(val, flow), rel(ecr, back) if ecr else 0)
            elif f[o] == 5:
                for b in range(o + 2, o + f[o + 1], 4):
                    struct.pack_into(">I", f, b, sub(struct.unpack_from(">I", f, b)[0], back))
            o += max(f[o + 1], 2)
        out.append((sec * 10**9 + nsec, wire, bytes(f[:end])))
    return out


def write_pcap(name, packets):
    with gzip.GzipFile(name, "wb", 9, mtime=0) as f:
        f.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 128, 1))
        for at, wire, b in packets:
            f.write(struct.pack("<4I", at // 10**9, at % 10**9, len(b), wire) + b)


def read_log(name, case):
    """The json's parts that one run gives; None if the run did not end."""
    log = dict(box_log=[], nstat={"S": {}, "V": {}}, qdisc_end={}, flows=[dict(rows={}) for _ in case["cc"]])
    ended = False
    for line in open(name):
        k, rest = line[0], line[2:].rstrip("\n")
        if k == "O":
            log["t0"] = int(rest.split()[0])
        elif k == "B":
            log["box_log"].append(rest)
        elif k == "N":
            n, what, v = rest.split()
            log["nstat"][n][what] = int(v)
        elif k == "Q":
            n, v = rest.split(" ", 1)
            for q in json.loads(v):
                if q["dev"] != "lo":
                    log["qdisc_end"].setdefault(f"{n}.{q.pop('dev')}", []).append(q)
        elif k == "C":
            i, *v = map(int, rest.split())
            log["flows"][i]["connect"] = v
        elif k in "IG":
            i, t, h = rest.split()
            b = bytes.fromhex(h)
            row = log["flows"][int(i)]["rows"].setdefault(int(t), {"t": int(t)})
            if k == "I":
                row.update(zip(NAMES, struct.unpack_from(FORMAT, b)))
            else:
                form, names = CC.get(case["cc"][int(i)], CC[None])
                if len(b) >= struct.calcsize(form):
                    row.update(zip(names.split(), struct.unpack_from(form, b)))
        elif k == "E":
            ended = True
    for f in log["flows"]:
        rows = [f["rows"][t] for t in sorted(f["rows"])]
        cols = list(rows[0]) if rows else ["t"]
        f["const"] = {c: rows[0][c] for c in cols if c != "t" and all(r.get(c) == rows[0][c] for r in rows)} if rows else {}
        f["cols"] = [c for c in cols if c not in f["const"]]
        f["rows"] = [[r.get(c) for c in f["cols"]] for r in rows]
    return log if ended else None


def collect(case, work, out, seeds):
    name, runs = case["name"], []
    for s in seeds:
        base = f"{work}/{name}.{s}"
        log = read_log(base + ".log", case) if os.path.exists(base + ".log") else None
        if log is None:
            print("NO RUN", name, s)
            continue
        runs.append((s, log, read_pcap(base + ".s.pcap"), read_pcap(base + ".v.pcap") if case["rcap"] else None))
    if not runs:
        return False
    _, log, sent, received = runs[0]
    determinism = []
    for _, other, packets, _ in runs[1:]:
        same = 0
        while same < min(len(sent), len(packets)) and sent[same][1:] == packets[same][1:]:
            same += 1
        determinism.append(dict(equal_packets=same, len=[len(sent), len(packets)], max_dt_ns=max((abs(a[0] - b[0]) for a, b in zip(sent, packets[:same])), default=0)))
    alike = all(d["equal_packets"] == d["len"][0] == d["len"][1] and d["max_dt_ns"] == 0 for d in determinism)
    t0 = log.pop("t0")
    record = dict(case=case, kernel=os.environ.get("KVER", "7.3"), prompt=True, slack="used", tc=case["tc"], jiffies_t0=4294667296 + t0 // 10**6, **log, police=case["police"],
                  packets=dict(s=len(sent), **({"v": len(received)} if received is not None else {})), seeds=list(seeds), deterministic=alike, determinism=determinism)
    with gzip.GzipFile(f"{out}/{name}.json.gz", "wb", 9, mtime=0) as f:
        f.write(json.dumps(record, separators=(",", ":")).encode())
    write_pcap(f"{out}/{name}.s.pcap.gz", sent)
    if received is not None:
        write_pcap(f"{out}/{name}.v.pcap.gz", received)
    if not alike:
        print("NOT ALIKE", name, determinism)
    return True


def main():
    what, cases, work = sys.argv[1:4]
    cases = [complete(json.loads(line)) for line in open(cases) if line.strip()]
    if what == "prepare":
        for case in cases:
            prepare(case, work)
            print(case["name"])
    else:
        done = sum(collect(case, work, sys.argv[4], sys.argv[5:]) for case in cases)
        print(f"{done} of {len(cases)} cases recorded")


main()
