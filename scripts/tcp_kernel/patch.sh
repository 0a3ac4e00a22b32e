#!/bin/bash
# patch.sh SOURCE: what the recorder changes in a tree of Linux. Three things of the User-Mode port: 1,000 ticks a second, a clock
# of 1 ns whose timers fire at their time, and (after `echo 1 > /sys/module/kernel/parameters/free_clock`) reading it costs
# nothing. A timer with slack fires at the end of it: how much earlier depends on what else interrupts the machine, which is no
# property of TCP. And where a congestion control draws, /sys/module/tcp_{bbr,cdg,nv}/parameters/draw gives what it draws;
# /sys/module/kernel/parameters/ts_off the offset of time stamps, /sys/module/sch_cake/parameters/draw what CAKE draws (0: the
# kernel's own).
set -e
cd "$1"; [ ! -e .recorder ] || exit 0
sed -i '/^config HZ$/,/default 100$/s/default 100$/default 1000/' arch/um/Kconfig
sed -i 's/define TIMER_MULTIPLIER.*/define TIMER_MULTIPLIER 1/; s/define TIMER_MIN_DELTA.*/define TIMER_MIN_DELTA 1/' arch/um/include/linux/time-internal.h
sed -i 's/^\tdelta += 1;/\tif (time_travel_mode == TT_MODE_OFF)\n\t\tdelta += 1;/' arch/um/kernel/time.c
sed -i 's/^static u64 timer_read(struct clocksource \*cs)/static int free_clock;\ncore_param(free_clock, free_clock, int, 0644);\n&/
  s/^\t\tif (!irqs_disabled() && !in_interrupt() && !in_softirq() &&/\t\tif (!free_clock \&\& !irqs_disabled() \&\& !in_interrupt() \&\& !in_softirq() \&\&/' arch/um/kernel/time.c
sed -i 's/^#include <linux\/delay.h>/&\n#include <linux\/moduleparam.h>/' arch/um/kernel/time.c
sed -i 's/^\t\t\tum_udelay(1);/\t\t\tum_ndelay(1);/' arch/um/kernel/skas/syscall.c          # a failed system call takes 1 ns, not 1 us
sed -i 's/if (basenow < hrtimer_get_softexpires(timer))/if (basenow < hrtimer_get_expires(timer))/' kernel/time/hrtimer.c
sed -i 's/^#include <net\/secure_seq.h>/&\n#include <linux\/moduleparam.h>\nstatic unsigned int ts_off;\ncore_param(ts_off, ts_off, uint, 0644);/
  s/^\tif (READ_ONCE(net->ipv4.sysctl_tcp_timestamps) != 1)/\tif (ts_off)\n\t\tst.ts_off = ts_off;\n&/' net/core/secure_seq.c
one() { [ "$(grep -c "$2" "net/ipv4/$1.c")" = 1 ] || { echo "$1: no single draw" >&2; exit 1; }; }
sed -i 's/^\t\tget_random_u16()) >> 16;/\t\t(draw ? draw >> 16 : get_random_u16())) >> 16;/; s/get_random_u32() < vars->p_drop/(draw ? draw : get_random_u32()) < vars->p_drop/' net/sched/sch_cake.c
one tcp_bbr 'get_random_u32_below(bbr_cycle_rand)'; one tcp_cdg 'get_random_u32()'; one tcp_nv 'get_random_bytes(&rand, 1)'
sed -i 's/get_random_u32_below(bbr_cycle_rand)/(draw < bbr_cycle_rand ? draw : get_random_u32_below(bbr_cycle_rand))/' net/ipv4/tcp_bbr.c
sed -i 's/get_random_u32()/(draw ? draw : get_random_u32())/' net/ipv4/tcp_cdg.c
sed -i 's/get_random_bytes(&rand, 1)/if (draw) rand = draw; else get_random_bytes(\&rand, 1)/' net/ipv4/tcp_nv.c
for m in ipv4/tcp_bbr:1000 ipv4/tcp_cdg:0 ipv4/tcp_nv:0 sched/sch_cake:0; do
  f=net/${m%:*}.c; n=$(grep -n '^#include <net/tcp.h>' $f | cut -d: -f1)
  sed -i "${n}a static unsigned int draw = ${m#*:};\nmodule_param(draw, uint, 0644);" $f
done
touch .recorder
