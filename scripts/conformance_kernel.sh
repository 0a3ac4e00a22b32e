#!/bin/sh
# Runs our scripts against the kernel of this machine under Google's packetdrill, so that a script
# that the kernel rejects is known as ours to mend. Needs root and a built packetdrill.
# usage: scripts/conformance_kernel.sh PATH-OF-PACKETDRILL [FOLDER]
set -u
packetdrill=$(realpath "${1:?the path of packetdrill is missing}")
folder=$(realpath "${2:-conformance/tcp}")
passed=0
failed=0
# A name space may only have the congestion controls that all may use, and scripts want CUBIC.
allowed=$(sysctl -n net.ipv4.tcp_allowed_congestion_control)
sysctl -q -w net.ipv4.tcp_allowed_congestion_control="$allowed cubic"
trap 'sysctl -q -w net.ipv4.tcp_allowed_congestion_control="$allowed"' EXIT
quiet="sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
for script in $(find "$folder" -name '*.pkt' | sort); do
  cd "$(dirname "$script")" || exit 1
  if grep -q '^--ip_version=ipv6' "$script"; then
    prepare=true
    variant="--ip_version=ipv6 --mtu=1520 --local_ip=fd3d:0a0b:17d6::1 --remote_ip=fd3d:fa7b:d17d::1
      --gateway_ip=fd3d:0a0b:17d6:8888::1 -D TFO_COOKIE=c1d1e9742a47a9bc"
  else
    # packetdrill takes a packet out of its device for each that it sees; IPv6's own, sent before it looks, would
    # leave as many of TCP's there, and a packet that somebody still holds is not joined to others.
    prepare="$quiet"
    variant="--ip_version=ipv4 --local_ip=192.168.0.1 --remote_ip=192.0.2.1
      --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0 -D TFO_COOKIE=3021b9d889017eeb"
  fi
  # A busy machine is late now and then: a script fails if it does so three times.
  verdict=FAIL
  for attempt in 1 2 3; do
    if unshare -n sh -c "ip link set lo up; $prepare; timeout 60 $packetdrill $(echo $variant) $script" \
      > /tmp/conformance-kernel.$$ 2>&1; then
      verdict=OK
      break
    fi
  done
  if [ $verdict = OK ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL ${script#"$folder"/}"
    tail -3 /tmp/conformance-kernel.$$
  fi
done
rm -f /tmp/conformance-kernel.$$
echo "$passed passed, $failed failed on $(uname -r)"
[ $failed -eq 0 ]
