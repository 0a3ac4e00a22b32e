#!/bin/bash
# Usage: determinism.sh DEBUG_BINARY RELEASE_BINARY
# The same experiment and seed give the same bytes in debug and release, event by event and with any number of threads.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Everything that a run writes and prints, in a folder of its own: see BINARY NAME EXPERIMENT OPTION...
see() {
    local binary=$1 folder=$work/$2 experiment=experiments/$3.toml
    shift 3
    mkdir -p "$folder"
    "$binary" run "$experiment" --jobs 1 "$@" --out "$folder/out" --view --tc-stats --ss-at 30ms --ss-at end \
        --trace "$folder/trace" --qlog "$folder/qlog" | sed "s|$folder|.|" >"$folder/printed"
}

for experiment in determinism determinism-threads; do
    see "$1" "$experiment/first" "$experiment" --grouping one
    for build in debug release; do
        [ $build = debug ] && binary=$1 || binary=$2
        for grouping in one adaptive finest; do
            for threads in 1 2 3 8; do
                [ $grouping = one ] && [ $threads != 1 ] && continue
                see "$binary" "$experiment/then" "$experiment" --grouping $grouping --threads $threads
                diff -r "$work/$experiment/first" "$work/$experiment/then" ||
                    { echo "determinism: $experiment differs: $build, $grouping, $threads threads"; exit 1; }
                rm -r "$work/$experiment/then"
            done
        done
    done
done
# Whatever a case does but take time: hops, flows, goodput.
for threads in 1 2 3 8; do
    "$2" bench ft-4 --here --threads "$threads" |
        sed -E 's/"(threads|peak_rss_bytes|[a-z_]*seconds?)":[^,}]*[,}]//g' >"$work/bench-$threads"
    diff "$work/bench-1" "$work/bench-$threads"
done
echo "determinism: $(find "$work"/determinism*/first -type f | wc -l) files of two worlds are the same event by event and with 1, 2, 3 and 8 threads, in debug and release"
