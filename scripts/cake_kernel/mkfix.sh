#!/bin/bash
# mkfix.sh : second kernel linux.fix = linux.vec with what chance decides in CAKE made constant: dither get_random_u16() -> 0x8000,
# BLUE get_random_u32() -> 0x01800000, and the key of the flow hash (hashrnd of the flow dissector).
cd ${VEC:-$HOME/.cache/linux-vectors}/src/linux; t=/tmp/fix.$$; mkdir -p $t; cp net/sched/sch_cake.c net/core/flow_dissector.c $t
sed -i 's/get_random_u32()/((u32)0x01800000)/; /dithering/b; s/get_random_u16())/((u16)0x8000))/' net/sched/sch_cake.c
sed -i 's/net_get_random_once(&hashrnd, sizeof(hashrnd));/hashrnd.key[0] = 0x0123456789abcdefULL; hashrnd.key[1] = 0xfedcba9876543210ULL;/' net/core/flow_dissector.c
diff $t/sch_cake.c net/sched/sch_cake.c; diff $t/flow_dissector.c net/core/flow_dissector.c
make ARCH=um -j2 linux >/dev/null 2>&1; cp linux ../../linux.fix; cp $t/sch_cake.c net/sched/; cp $t/flow_dissector.c net/core/; ls -la ../../linux.fix
