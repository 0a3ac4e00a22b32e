#!/bin/sh
# As many inputs for each fuzz target as issues ask for, grown from the committed ones in a temporary
# copy; ends with a table, and fails when an input did.
#
#   scripts/fuzz.sh [TARGET...]          all targets that read files or run the swarm tester
#   INPUTS=5000 scripts/fuzz.sh route    another number of inputs
#   BUILT=yes scripts/fuzz.sh            what was built last time
#
# An input that fails is kept in fuzz/artifacts/TARGET/; the program of the target runs it again.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- hostile plan qdisc_tree replay route router segment syscalls world

if [ -z "${BUILT:-}" ]; then
  # Why these options: docs/HACKING.md.
  cargo +nightly fuzz build --release --debug-assertions --sanitizer none \
    --no-trace-compares || exit 1
fi
programs=$(echo fuzz/target/*/release)

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
export TMPDIR="$folder"

# run TARGET INPUTS LENGTH: the inputs of one target, and its line of the table.
run() {
  corpus=$folder/$1
  mkdir -p "$corpus" "fuzz/artifacts/$1"
  cp "fuzz/seeds/$1"/* "$corpus"
  begun=$(date +%s)
  "$programs/$1" -runs="$2" -max_len="$3" -timeout=30 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="fuzz/artifacts/$1/" "$corpus" 2> "$folder/log"
  result=$?
  seconds=$(($(date +%s) - begun))
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log")
  found=none
  if [ $result -ne 0 ]; then
    found=$(sed -n 's/.*Test unit written to //p' "$folder/log")
    grep -v -e '^#' -e '^INFO' -e NEW_FUNC "$folder/log" | head -40
  fi
  echo "$1|$inputs|$seconds s|$((inputs / (seconds > 0 ? seconds : 1)))|$found" | tee -a "$folder/table"
  return $result
}

failed=0
for target in "$@"; do
  # Longer inputs are larger cases, not other ones.
  case $target in
    plan) inputs=1000000 length=2500 ;;
    replay) inputs=1000000 length=600 ;;
    world) inputs=100000 length=600 ;;
    route | router) inputs=1000000 length=120 ;;
    hostile) inputs=1000000 length=600 ;;
    *) inputs=1000000 length=250 ;;
  esac
  run "$target" "${INPUTS:-$inputs}" "$length" || failed=1
done
echo
echo 'target|inputs|time|a second|failed' | cat - "$folder/table" | column -t -s '|'
exit $failed
