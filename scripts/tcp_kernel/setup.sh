#!/bin/bash
# setup.sh: builds what recording needs in $REC: a Linux of Debian's (KSUITE, KVER) as a user-mode process in virtual time, and the
# programs. Root, apt; 10 to 20 minutes. SRC: an unpacked source tree to take instead; CONFIG: a fragment of .config to start from.
# The machine's own suites are left as they are: the source comes from KSUITE of the same archive, by lists of apt's in $REC.
set -e
here=$(cd "$(dirname "$0")" && pwd); export REC=${REC:-$HOME/.cache/tcp-kernel}; V=${KVER:-7.3}; mkdir -p "$REC"/{run,record,src}
if [ ! -x "$REC/linux.rec" ]; then
  cd "$REC/src"
  if [ -z "$SRC" ]; then
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends gcc libc6-dev make flex bison bc libelf-dev xz-utils iproute2 python3
    uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)' | awk '$3=="main" && $4=="Packages" && $2!~/-/ && $1~/debian\/?$/ {print $1; exit}')
    mkdir -p "$REC"/apt/{lists,cache/archives}/partial
    printf '%s\n' 'Types: deb' "URIs: $uri" "Suites: ${KSUITE:-trixie-backports}" 'Components: main' 'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' > "$REC/apt/k.sources"
    printf '%s "%s";\n' Dir::Etc::SourceList "$REC/apt/k.sources" Dir::Etc::SourceParts /dev/null Dir::State::Lists "$REC/apt/lists" Dir::Cache "$REC/apt/cache" APT::Sandbox::User root > "$REC/apt/k.conf"
    export APT_CONFIG=$REC/apt/k.conf
    [ -e "linux-source-$V/.unpacked" ] || { apt-get -qq update && apt-get download "linux-source-$V" && dpkg -x linux-source-"$V"_*.deb . && tar xf "usr/src/linux-source-$V.tar.xz" && touch "linux-source-$V/.unpacked"; }
    SRC=$REC/src/linux-source-$V
  fi
  bash "$here/patch.sh" "$SRC"; cd "$SRC"
  make ARCH=um defconfig; ARCH=um scripts/kconfig/merge_config.sh -m .config "$here/uml.frag.config"; make ARCH=um olddefconfig
  make ARCH=um -j"$(nproc)" linux; cp linux "$REC/linux.rec"
fi
cp "$here"/{boot.sh,guest-init,tcpguest.sh} "$REC/record/"; chmod +x "$REC"/record/{boot.sh,guest-init}
gcc -O2 -Wall -o "$REC/record/tr" "$here/tr.c" -lpthread; gcc -O2 -shared -fPIC -o "$REC/record/getrand.so" "$here/getrand.c"
"$REC/record/boot.sh" 'uname -r; cat /sys/module/tcp_bbr/parameters/draw; ip link add v0 type veth peer name v1; tc qdisc add dev v0 root fq && tc qdisc show dev v0'
