#!/bin/bash
# Runs every example program; each must end with success. A server, which does not end by itself, is asked
# something in a network namespace of its own, and stopped.
set -euo pipefail

# The echo server on a TUN device: what it gives back is what was said.
ask_echo() {
  local own=(unshare --net)
  [ "$(id -u)" = 0 ] || own=(unshare --map-root-user --net)
  if ! [ -c /dev/net/tun ] || ! "${own[@]}" true 2>/dev/null; then
    echo "SKIPPED: example echo: no TUN device or no network namespace can be made here"
    return
  fi
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

for source in crates/*/examples/*.rs; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .rs)
  echo "example $name"
  case $name in
    echo) ask_echo "target/debug/examples/$name" ;;
    *) "target/debug/examples/$name" >/dev/null ;;
  esac
done
