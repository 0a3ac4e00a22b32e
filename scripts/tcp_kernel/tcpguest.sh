# tcpguest.sh DIR SEED NAMES...: inside the guest, plays the cases DIR/NAME.case on the path of DIR/NAME.ip and DIR/NAME.tc
D=$1; RUN=$2; shift 2
ulimit -n 4096
cd /proc/sys/net
echo "$(<ipv4/tcp_available_congestion_control)" > ipv4/tcp_allowed_congestion_control
for p in all default; do echo 0 > ipv4/conf/$p/rp_filter; echo 1 > ipv4/conf/$p/forwarding; done
echo 1 > core/devconf_inherit_init_net; echo 1 > ipv4/ip_forward
echo 1 > /sys/module/kernel/parameters/free_clock
cd "$ORACLE"
for n in "$@"; do
  for k in bbr cdg nv; do v=$(sed -n "s/^draw $k //p" "$D/$n.case"); [ -z "$v" ] || echo "$v" > /sys/module/tcp_$k/parameters/draw; done
  for k in ts_off:kernel/parameters/ts_off cake:sch_cake/parameters/draw; do
    v=$(sed -n "s/^draw ${k%%:*} //p" "$D/$n.case"); echo "${v:-0}" > "/sys/module/${k#*:}"
  done
  printf 'netns add %s\n' S M R D V | ip -batch - || { echo "ERR netns $n"; continue; }
  ok=1
  while read -r ns f; do [ "$ns" = - ] && ip -batch "$D/$n.ip$f" || ip -n "$ns" -batch "$D/$n.ip$f" || ok=; done < "$D/$n.ip"
  while read -r ns f; do tc -n "$ns" -batch "$D/$n.tc$f" || ok=; done < "$D/$n.tc"
  [ -n "$ok" ] || echo "ERR set-up of $n"
  [ -z "$ok" ] || record/tr "$D/$n.case" "$D/$n.$RUN" || echo "ERR tr $n"
  [ -z "$ok" ] || for ns in S R D; do echo "Q $ns $(tc -n $ns -s -j qdisc show)"; done >> "$D/$n.$RUN.log"
  printf 'netns del %s\n' S M R D V | ip -batch -
done
