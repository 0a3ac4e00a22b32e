# cakeguest.sh DIRECTORY: inside the guest, plays every scenario of DIRECTORY; what it saw goes to NAME.out
D=$1; V=$ORACLE; sysctl -qw net.core.rmem_max=1000000000
for p in /proc/sys/net/ipv6/conf/{all,default}/disable_ipv6; do [ -e $p ] && echo 1 > $p; done
for f in $D/*.sched; do
  n=${f%.sched}; IFS='|' read -r cake handle rest < $n.cfg
  printf 'link add v0 type veth peer name v1\nlink set v0 up\nlink set v1 up\n' | ip -batch - || exit 1
  tc qdisc add dev v0 root $handle cake $cake || echo "ERR $n"
  $V/record/cr $n.sched $n.out || echo "ERR cr $n"
  ip link del v0
done
