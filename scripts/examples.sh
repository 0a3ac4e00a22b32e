#!/bin/bash
# Runs every example program; each must end with success.
set -euo pipefail
for source in crates/*/examples/*.rs; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .rs)
  echo "example $name"
  "target/debug/examples/$name" >/dev/null
done
