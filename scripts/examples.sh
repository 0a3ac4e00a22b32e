#!/bin/bash
# Runs every example program; each must end with success. A server, which does not end by itself, is asked
# something in a network namespace of its own, and stopped. None is longer than a hundred lines.
set -euo pipefail

own=(unshare --net)
[ "$(id -u)" = 0 ] || own=(unshare --map-root-user --net)

# Whether there are TUN devices and network namespaces here; says so if not.
can_ask() {
  if [ -c /dev/net/tun ] && "${own[@]}" true 2>/dev/null; then return 0; fi
  echo "SKIPPED: $1: no TUN device or no network namespace can be made here"
  return 1
}

# The echo server on a TUN device: what it gives back is what was said.
ask_echo() {
  can_ask "example echo" || return 0
  timeout 60 "${own[@]}" python3 - "$1" <<'PYTHON'
import socket, subprocess, sys

with subprocess.Popen([sys.argv[1]], stdout=subprocess.PIPE, text=True) as server:
    try:
        host, port = server.stdout.readline().split()[-1].rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=20) as stream:
            said = bytes(range(256)) * 100
            stream.sendall(said)
            stream.shutdown(socket.SHUT_WR)
            heard = b"".join(iter(lambda: stream.recv(65536), b""))
        assert heard == said, f"{len(heard)} bytes came back of {len(said)}"
    finally:
        server.kill()
PYTHON
}

# The bump in the wire between two TAP devices: at the end of its input it says what it has passed.
run_bump() {
  can_ask "example bump" || return 0
  "${own[@]}" timeout 60 "$1" tap:one tap:two "cake bandwidth 1gbit" pfifo </dev/null | grep -q directions
}

for source in crates/*/examples/*.rs; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .rs)
  echo "example $name"
  if [ "$(wc -l <"$source")" -gt 100 ]; then
    echo "$source is longer than 100 lines" >&2
    exit 1
  fi
  case $name in
    echo) ask_echo "target/debug/examples/$name" ;;
    bump) run_bump "target/debug/examples/$name" ;;
    *) "target/debug/examples/$name" >/dev/null ;;
  esac
done
