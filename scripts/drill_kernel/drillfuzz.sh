#!/bin/bash
# drillfuzz.sh OUT TOPICS FIRST COUNT: plays random scripts to the kernel of $ORACLE and puts what it did into the folder OUT.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "$1"); mkdir -p "$out"
tar=$ORACLE/run/drill-$$.tar
UMLARGS=${UMLARGS:-seccomp=auto} "${BOOT:-$ORACLE/boot73.sh}" "
  export PYTHONDONTWRITEBYTECODE=1
  mkdir /run/out && python3 $here/play.py /run/out '$2' $3 $4; tar cf $tar -C /run/out ." >&2
tar xf "$tar" -C "$out" && rm "$tar"
