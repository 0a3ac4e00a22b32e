"""Topics: how often each action of `play.Play` is taken, and what is set up before."""

SHRINK = (0.5, ["net.ipv4.tcp_shrink_window=1"])
SMALL_RMEM = (0.5, ["net.ipv4.tcp_rmem=4096 4096 50000", "net.ipv4.tcp_rmem=4096 16000 64000", "net.ipv4.tcp_rmem=4096 131072 6291456",
                    "net.ipv4.tcp_rmem=1024 20000 20000"])
MIXED = dict(write=4, data=4, ack=4, ack_all=2, read=3, sack_some=2, gap=1, data_again=1, pause=4, look_around=2)

TOPICS = {
    "handshake": (dict(data=2, write=2, ack=2, odd_segment=1, pause=2, look_around=1, pause_long=0.5),
                  dict(odd=0.2, client=0.4, sysctls=[(0.1, ["net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_sack=0", "net.ipv4.tcp_window_scaling=0",
                                                            "net.ipv4.tcp_syncookies=2", "net.ipv4.tcp_abort_on_overflow=1"])])),
    "close": (dict(MIXED, shutdown=2, close=3, fin=4, rst=0.7, odd_segment=1, pause_long=1, beyond=0.3), dict()),
    "receiver": (dict(data=6, gap=4, data_again=2, read=3, pause=4, ack_all=1, write_small=1, beyond=0.7, flood=1, look_around=2), dict()),
    "sender": (dict(write=5, write_small=2, ack=5, ack_all=2, sack_some=5, pause=4, pause_long=0.7, look_around=2, data=0.5),
               dict(sysctls=[(0.1, ["net.ipv4.tcp_sack=0", "net.ipv4.tcp_min_tso_segs=1", "net.ipv4.tcp_recovery=0", "net.ipv4.tcp_early_retrans=0"])])),
    "calls": (dict(MIXED, write_more=3, recv=3, setsockopt=4, getsockopt=2, poll=0, shutdown=0.5, close=0.2, fin=0.5, look_around=4), dict(odd=0.15)),
    "icmp": (dict(write=5, ack=3, ack_all=2, icmp=5, pause=3, sack_some=1, look_around=2, data=0.5, pause_long=0.3),
             dict(sysctls=[(0.2, ["net.ipv4.tcp_mtu_probing=1", "net.ipv4.tcp_mtu_probing=2"])])),
    "options": (dict(MIXED, bad_ts=3, setsockopt=2, gap=2),
                dict(odd=0.2, client=0.4, sysctls=[(0.3, ["net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_timestamps=2", "net.ipv4.tcp_sack=0", "net.ipv4.tcp_dsack=0",
                                                          "net.ipv4.tcp_window_scaling=0", "net.ipv4.tcp_adv_win_scale=2"])])),
    "accecn": (dict(MIXED, flood=0.5, pause_long=0.3), dict(accecn=0.9, ecn=1, client=0.5, odd=0.08,
               sysctls=[(0.3, ["net.ipv4.tcp_ecn_option=0", "net.ipv4.tcp_ecn_option=1", "net.ipv4.tcp_ecn_option=2", "net.ipv4.tcp_ecn_option_beacon=1"])])),
    "ecn": (dict(MIXED, flood=0.5, pause_long=0.3), dict(ecn=1, client=0.5, odd=0.08)),
    "memory": (dict(data=5, flood=4, gap=3, data_again=1, read=2, rcvbuf=0.7, beyond=2, pause=3, write=1, ack_all=1, look_around=4, sndbuf=0.2, fin=0.2),
               dict(memory=0.7, sysctls=[(0.4, SHRINK[1]), SMALL_RMEM])),
    "zerowindow": (dict(write=4, ack_all=2, ack=2, window_zero=4, window_open=2, pause=3, pause_long=3, data=1, fin=0.3, shutdown=0.3, look_around=2,
                        close=0.1), dict()),
    "fullwindow": (dict(data=3, flood=5, beyond=4, read=1, fin=0.5, gap=1, odd_segment=1, pause=3, look_around=3, write_small=0.5),
                   dict(memory=0.9, sysctls=[(0.4, SHRINK[1]), SMALL_RMEM])),
    "rst": (dict(MIXED, rst=1.5, odd_segment=4, bad_ack=3), dict(odd=0.1)),
    "ts": (dict(MIXED, bad_ts=5, bad_ack=1, odd_segment=1), dict(client=0.3)),
    "urgent": (dict(MIXED, urgent=4, write_oob=4, recv=4, setsockopt=0.5, pause_long=0.5), dict()),
    "zerocopy": (dict(zerocopy=6, errqueue=4, write=2, ack=3, ack_all=3, pause=2, sack_some=1, data=1, look_around=1, shutdown=0.1, rst=0.1, close=0.05),
                 dict()),
    "afterclose": (dict(data=3, gap=2, write=1, close=4, fin=1, ack=3, data_again=1, pause=2, pause_long=0.3, read=2, odd_segment=0.5, flood=0.5), dict()),
    "push": (dict(write=4, write_small=5, write_more=5, ack=3, ack_all=3, sack_some=2, pause=3, setsockopt=1, pause_long=0.5), dict(odd=0.1)),
}
