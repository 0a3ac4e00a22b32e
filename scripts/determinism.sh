#!/bin/bash
# Usage: determinism.sh DEBUG_BINARY RELEASE_BINARY
# The same experiment and seed give the same bytes in debug and release, with any number of threads.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" run experiments/determinism.toml --jobs 2 --out "$work/debug" >/dev/null
"$2" run experiments/determinism.toml --jobs 1 --out "$work/release" >/dev/null
diff -r "$work/debug" "$work/release"
for threads in 1 2 3 8; do
    "$2" run experiments/determinism.toml --runs 1 --jobs 1 --threads "$threads" --out "$work/$threads" >/dev/null
    diff -r "$work/1" "$work/$threads"
done
# Whatever a case does but take time: hops, flows, goodput. A fat tree has enough to do to be divided.
for threads in 1 2 3 8; do
    "$2" bench ft-4 --here --threads "$threads" |
        sed -E 's/"(threads|peak_rss_bytes|[a-z_]*seconds?)":[^,}]*[,}]//g' >"$work/bench-$threads"
    diff "$work/bench-1" "$work/bench-$threads"
done
echo "determinism: $(find "$work/debug" -type f | wc -l) files are the same in debug and release, runs with 1, 2, 3 and 8 threads, too"
