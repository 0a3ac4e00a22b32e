#!/bin/bash
# Usage: determinism.sh DEBUG_BINARY RELEASE_BINARY
# The same experiment and seed give the same bytes in debug and release, with any number of threads.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" run experiments/determinism.toml --jobs 2 --out "$work/debug" >/dev/null
"$2" run experiments/determinism.toml --jobs 1 --out "$work/release" >/dev/null
diff -r "$work/debug" "$work/release"
echo "determinism: $(find "$work/debug" -type f | wc -l) files are the same in debug and release"
