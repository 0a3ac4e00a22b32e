#!/bin/bash
# cakefuzz.sh COUNT FIRST_SEED: makes COUNT random CAKE scenarios, plays them in the kernel in which nothing is left to chance, and
# writes $VEC/public/wFIRST.jsonl.gz, which `ackwright vectors` compares.
set -e
export VEC=${VEC:-$HOME/.cache/linux-vectors}; here=$(cd "$(dirname "$0")" && pwd)
w=$VEC/work/w$2; mkdir -p "$w" "$VEC/public"
python3 "$here/cakefuzz.py" "$w" "$1" "$2"
KERNEL=$VEC/linux.fix RSEED=501 TMO=${TMO:-3000} "$here/boot.sh" "bash record/cakeguest.sh $w" >"$w.log"
python3 "$here/cakecollect.py" "$w" "$VEC/public/w$2.jsonl.gz"
