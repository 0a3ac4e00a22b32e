#!/bin/bash
# Installs what some tests need beyond Rust and Python: flent into .venv, and ip(8) where we are root
# on a Debian. What cannot be had is told, and the tests that want it say that they were skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
if [ ! -x .venv/bin/flent ]; then
  python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check flent==2.3.0 numpy==2.3.4 ||
    echo "flent could not be installed"
fi
if ! command -v ip >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get install --yes --quiet iproute2 >/dev/null || { apt-get update --quiet >/dev/null && apt-get install --yes --quiet iproute2 >/dev/null; } ||
    echo "iproute2 could not be installed"
fi
exit 0
