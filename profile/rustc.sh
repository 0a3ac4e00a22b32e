#!/bin/sh
# Cargo calls this in place of rustc for the crates of this workspace where RUSTC_WORKSPACE_WRAPPER names
# it, as the Makefile does: $1 is the compiler, the rest its arguments. Optimised programs and libraries
# get the recorded profile, or record one into the folder that ACKWRIGHT_RECORD names.
case " $* " in
*" --emit="*link*" opt-level=3 "*) ;;
*) exec "$@" ;;
esac
# A profile names functions by symbol, and Cargo would put into the symbols where this repository lies and with what flags
# it is built. Within a program each of these crates is there once, so that its name alone is enough. Symbols of version 0
# do not change with the layout of types, either.
set -- "$@" -Csymbol-mangling-version=v0
for word; do
  shift
  case "$word" in
  metadata=*) word=metadata=ackwright ;;
  esac
  set -- "$@" "$word"
done
if [ -n "${ACKWRIGHT_RECORD:-}" ]; then
  exec "$@" "-Cprofile-generate=$ACKWRIGHT_RECORD"
fi
profile=$(dirname "$0")/hot.profdata
# An older LLVM cannot read the file.
llvm=$("$1" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if [ ! -f "$profile" ] || [ "${llvm:-0}" -lt 22 ]; then
  exec "$@"
fi
set -- "$@" "-Cprofile-use=$profile" -Cllvm-args=-no-pgo-warn-mismatch
# Blocks that are hardly ever run go elsewhere, and functions that are often called lie together: what a packet
# runs through is about as large as the instruction cache.
case " $* " in
*" --target "*) ;;
*)
  if [ "$(uname -sm)" = "Linux x86_64" ]; then
    set -- "$@" -Cllvm-args=-enable-split-machine-functions -Clink-arg=-Wl,-z,keep-text-section-prefix
  fi
  ;;
esac
exec "$@"
