#!/bin/bash
# Records profile/hot.profdata anew: builds a program that counts, lets it do what users do, merges
# the counts. Needs llvm-profdata of the LLVM that rustc is built with.
set -euo pipefail
cd "$(dirname "$0")/.."
vectors=${1:?usage: profile/record.sh VECTORS (the folder of the recorded traces)}
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
profdata=$(command -v "llvm-profdata-$llvm" || echo "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/llvm-profdata")
[ -x "$profdata" ] || { echo "llvm-profdata of LLVM $llvm is needed: rustup component add llvm-tools, or the package llvm-$llvm" >&2; exit 1; }
work=$PWD/target/record
rm -rf "$work/counts" "$work/bench" "$work/out"
export ACKWRIGHT_RECORD=$work/counts RUSTC_WORKSPACE_WRAPPER=$PWD/profile/rustc.sh
cargo build --release --locked -p ackwright --target-dir "$work"
program=$work/release/ackwright
run() { "$program" "$@" >/dev/null; }
of_bench() { LLVM_PROFILE_FILE=$work/bench/%p-%m.profraw run "$@"; }
of_bench bench a b d-10 c-100 c-1000 c-10000 ft-4 --rounds 1
for case in a c-1000; do
  "$program" bench "$case" --print-toml >"$work/$case.toml"
  of_bench run "$work/$case.toml" --set duration=3s --out "$work/out"
done
run run experiments/fat-tree-web-search.toml --set duration=5ms --set measure.sample=5ms --out "$work/out"
run run experiments/dctcp-incast.toml --set case=dctcp --set mtu=1500 --set time=3s --runs 1 --out "$work/out"
run reproduce cake-ack-filter --quick --out "$work/out"
run reproduce multipath --quick --out "$work/out"
run reproduce lost-retransmit --quick --out "$work/out"
run vectors "$vectors" || true
# Much of the rest is done once in each run, or by rare kinds of worlds: what every packet needs counts for more, and lies
# closer together.
"$profdata" merge --sparse -o profile/hot.profdata --weighted-input=64,"$work/bench" --weighted-input=1,"$work/counts"
ls -l profile/hot.profdata
