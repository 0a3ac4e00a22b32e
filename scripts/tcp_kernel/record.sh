#!/bin/bash
# record.sh CASES.jsonl OUT [SEED...]: plays the cases (one JSON object a line, see tcpcases.py) once for each guest seed (1 and 2
# unless said) and writes OUT/NAME.json.gz and OUT/NAME.s.pcap.gz. JOBS: guests at a time (1); PER: cases a guest (20).
set -e
export REC=${REC:-$HOME/.cache/tcp-kernel}; here=$(cd "$(dirname "$0")" && pwd); cases=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2"); shift 2; [ $# -gt 0 ] || set -- 1 2
work=$(mktemp -d "$REC/work.XXXXXX"); [ -n "$KEEP" ] || trap 'rm -rf "$work"' EXIT
python3 "$here/tcpcollect.py" prepare "$cases" "$work" > "$work/names"
for seed in "$@"; do echo "$seed"; done | while read -r seed; do xargs -n "${PER:-20}" < "$work/names" | sed "s/^/$seed /"; done |
  xargs -P "${JOBS:-1}" -I{} bash -c 'set -- {}; seed=$1; shift; RSEED=$seed "$REC/record/boot.sh" "bash record/tcpguest.sh '"$work"' $seed $*"'
python3 "$here/tcpcollect.py" collect "$cases" "$work" "$out" "$@"
