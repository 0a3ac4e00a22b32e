#!/bin/sh
# Cargo calls this in place of rustc (.cargo/config.toml): $1 is the compiler, the rest its arguments.
# Optimised builds of our crates get the recorded profile; everything else passes through as it is. ACKWRIGHT_RECORD=DIR makes builds that record a profile into DIR instead,
# ACKWRIGHT_RECORD=none builds that do without.
case " $* " in
*" --emit="*link*" opt-level=3 "*) ;;
*) exec "$@" ;;
esac
case "$CARGO_PKG_NAME" in
ackwright | ackwright-*) ;;
*) exec "$@" ;;
esac
if [ "${ACKWRIGHT_RECORD:-none}" != none ]; then
  exec "$@" "-Cprofile-generate=$ACKWRIGHT_RECORD"
fi
profile=$(dirname "$0")/hot.profdata
# An older LLVM cannot read the file.
llvm=$("$1" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if [ "${ACKWRIGHT_RECORD+set}" = set ] || [ ! -f "$profile" ] || [ "${llvm:-0}" -lt 22 ]; then
  exec "$@"
fi
exec "$@" "-Cprofile-use=$profile" -Cllvm-args=-no-pgo-warn-mismatch
