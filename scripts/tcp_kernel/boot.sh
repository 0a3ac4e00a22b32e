#!/bin/bash
# boot.sh 'command': runs a shell command as root in the recorder's kernel and prints what it says. RSEED=n: the guest's random seed.
V=${REC:-$HOME/.cache/tcp-kernel}; cd "$V" || exit 1
ID=$(date +%H%M%S)-$$-$RANDOM; R=$V/run/$ID; mkdir -p "$R"; printf '%s\n' "$1" > "$R/cmd.sh"
RSEED=${RSEED:-1} LD_PRELOAD=$V/record/getrand.so timeout -k 3 "${TMO:-900}" "${KERNEL:-$V/linux.rec}" mem="${MEM:-1500}M" root=/dev/root rootfstype=hostfs rootflags=/ ro \
  init="$V/record/guest-init" time-travel=inf-cpu ipv6.disable_ipv6=1 panic=-1 con=null con0=fd:0,fd:1 ${UMLARGS-seccomp=auto} oracle="$V" runid="$ID" </dev/null > "$R/console" 2>&1
[ -n "$QUIET" ] || cat "$R/out"
rc=$(cat "$R/rc" 2>/dev/null || echo 99); [ "$rc" = 0 ] && rm -rf "$R" || echo "[run $ID rc=$rc]" >&2; exit "$rc"
