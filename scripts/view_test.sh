#!/bin/bash
# The viewer: is what the crate holds what web/ makes, and does a real browser show what the files say?
# usage: scripts/view_test.sh ACKWRIGHT [TEST...]
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "$1")
shift
skip() {
  echo "SKIPPED: view-test: $1"
  exit 0
}
command -v node >/dev/null || skip "there is no Node (20 or later)"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "Node is older than 20"
cd "$root/web" || exit 1
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --no-audit --no-fund --silent || skip "the packages of web/ could not be installed"
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
npx tsc --noEmit || exit 1
VIEWER_OUT="$made" npx vite build --logLevel warn || exit 1
for file in viewer.js viewer.css; do
  cmp "$made/$file" "$root/crates/view/assets/$file" || {
    echo "crates/view/assets/$file is not what web/ makes: run make web" >&2
    exit 1
  }
done
echo "the page that the crate holds is what web/ makes"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "there is no chromium"
[ $# -gt 0 ] || set -- test/view.test.mjs test/pictures.test.mjs
CHROMIUM="$browser" ACKWRIGHT="$program" node --test --test-concurrency=1 --test-reporter=spec "$@"
