#!/bin/sh
# What every script of this folder begins with. `ackwright drill` interprets these lines; under
# packetdrill they are run.
sysctl -q net.ipv4.tcp_rmem="4096 540000 $((15 * 1024 * 1024))"
sysctl -q net.ipv4.tcp_wmem="4096 $((256 * 1024)) 4194304"
sysctl -q net.ipv4.tcp_congestion_control=cubic
sysctl -q net.ipv4.tcp_slow_start_after_idle=0
sysctl -q net.ipv4.tcp_ecn=0
sysctl -q net.ipv4.tcp_timestamps=1 net.ipv4.tcp_sack=1 net.ipv4.tcp_dsack=1
sysctl -q net.ipv4.tcp_window_scaling=1
sysctl -q net.ipv4.tcp_early_retrans=4 net.ipv4.tcp_recovery=1 net.ipv4.tcp_frto=2
sysctl -q net.ipv4.tcp_syn_retries=5 net.ipv4.tcp_synack_retries=5
sysctl -q net.ipv4.tcp_fastopen=1
sysctl -q net.ipv4.tcp_fastopen_key=a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4
ip tcp_metrics flush all > /dev/null 2>&1
tc qdisc replace dev tun0 root pfifo
