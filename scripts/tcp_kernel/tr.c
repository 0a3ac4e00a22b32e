// tr CASE OUT: (inside the guest, after the name spaces are set up) plays one case: servers, senders, the box of rules, captures,
// samples of TCP_INFO; all times are virtual and count from T0, a full second. Nothing polls, and no system call fails: either would cost time.
// CASE lines: dur ns | flow cc start bytes nodelay | srv rcvbuf pause_at pause_ns | app chunk gap | sys NS name=value
//   | offl off|gso|tso | rcap 0|1 | rule DIR MATCH ACTION (../../crates/sim/src/rules.rs)
// OUT.log lines: O t0 realtime-offset | C flow t_call t_return rc | I flow t hex(tcp_info) | G flow t hex(cc info) | B box log | N ns name value
// OUT.s.pcap, OUT.v.pcap: what passed S's and V's interface, 128 bytes of each, ns.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <errno.h>
#include <time.h>
#include <sched.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
typedef long long i64;
typedef unsigned long long u64;
enum { TCP_NODELAY_ = 1, TCP_INFO_ = 11, TCP_CONGESTION_ = 13, TCP_CC_INFO_ = 26 };
enum { MAXF = 64, MAXR = 1024, SNAP = 128 };

static void die(const char *s) { fprintf(stderr, "tr: "); perror(s); exit(1); }
static i64 T0;
static FILE *out;
static pthread_mutex_t outlock = PTHREAD_MUTEX_INITIALIZER;
static i64 now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec - T0; }
static void until(i64 t)
{
	struct timespec ts = { (T0 + t) / 1000000000, (T0 + t) % 1000000000 };
	if (now() < t)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, 0);
}
static void enter(const char *ns)
{
	char p[64]; int f; snprintf(p, sizeof p, "/run/netns/%s", ns);
	if ((f = open(p, O_RDONLY)) < 0 || setns(f, CLONE_NEWNET)) die(p);
	close(f);
}
static pthread_t spawn(void *(*f)(void *), void *a)
{
	pthread_t t; pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setstacksize(&at, 1 << 20);
	if (pthread_create(&t, &at, f, a)) die("thread");
	return t;
}

// The case.
struct flow { char cc[16]; i64 start, bytes; int nodelay, fd; i64 called, returned; int rc; volatile int up, over; } F[MAXF];
struct rule { char dir, match[9], act[7]; i64 a, b, ns; u64 covered, hits; int idx; } R[MAXR];
static int nf, nr, rcap; static i64 dur, srv_rcvbuf, pause_at, pause_ns, chunk = 65536, gap;
static char offl[8] = "off", *sys_ns[256], *sys_kv[256]; static int nsys;

// Capture: a ring into which the kernel copies, so that the packet's memory is as if nobody looked.
struct ring { int fd; char *map; unsigned frames, size; };
static struct ring ring_open(const char *ns, const char *dev)
{
	struct ring r = { .size = 256 }; int v = TPACKET_V2; enter(ns);
	r.fd = socket(AF_PACKET, SOCK_RAW, 0); if (r.fd < 0) die("packet");
	if (setsockopt(r.fd, SOL_PACKET, PACKET_VERSION, &v, sizeof v)) die("version");
	struct tpacket_req q = { .tp_block_size = 1 << 20, .tp_frame_size = r.size, .tp_block_nr = 96 };
	r.frames = q.tp_frame_nr = q.tp_block_nr * (q.tp_block_size / q.tp_frame_size);
	if (setsockopt(r.fd, SOL_PACKET, PACKET_RX_RING, &q, sizeof q)) die("ring");
	r.map = mmap(0, (size_t)q.tp_block_nr * q.tp_block_size, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, 0);
	if (r.map == MAP_FAILED) die("mmap");
	struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(dev) };
	if (bind(r.fd, (void *)&a, sizeof a)) die("bind ring");
	return r;
}
static void ring_write(struct ring r, const char *name, i64 off)
{
	FILE *f = fopen(name, "w"); if (!f) die(name);
	uint32_t h[6] = { 0xa1b23c4d, 0x00040002, 0, 0, SNAP, 1 }; fwrite(h, 24, 1, f);
	for (unsigned i = 0; i < r.frames; i++) {
		struct tpacket2_hdr *t = (void *)(r.map + (size_t)i * r.size);
		if (!(t->tp_status & TP_STATUS_USER)) break;
		i64 at = t->tp_sec * 1000000000LL + t->tp_nsec - off - T0; unsigned n = t->tp_snaplen < SNAP ? t->tp_snaplen : SNAP;
		uint32_t p[4] = { at / 1000000000, at % 1000000000, n, t->tp_len }; fwrite(p, 16, 1, f);
		fwrite((char *)t + t->tp_mac, n, 1, f);
		if (i + 1 == r.frames) fprintf(stderr, "tr: the ring of %s is full\n", name);
	}
	fclose(f);
}

// The box: two threads between m0 and m1; what waits lies in a list ordered by time.
struct vnet { unsigned char flags, gso_type; unsigned short hdr_len, gso_size, csum_start, csum_offset; } __attribute__((packed));
struct held { i64 at; int len; char *frame; struct held *next; };
static int box_fd[2];
struct seen { uint16_t sp, dp; uint32_t isn; };
struct side { int in, outfd; char dir; u64 data, acks, syns; struct seen flows[MAXF]; int n; struct held *wait; int timer; };
static void forward(int fd, const char *b, int n) { if (send(fd, b, n, 0) < 0) fprintf(stderr, "tr: box: %s\n", strerror(errno)); }
static void hold(struct side *s, i64 at, const char *b, int n)
{
	struct held *h = malloc(sizeof *h), **p = &s->wait; h->at = at; h->len = n; h->frame = malloc(n); memcpy(h->frame, b, n);
	while (*p && (*p)->at <= at) p = &(*p)->next;
	h->next = *p; *p = h;
}
static void arm(struct side *s)
{
	struct itimerspec it = { 0 };
	if (s->wait) { i64 t = T0 + s->wait->at; it.it_value.tv_sec = t / 1000000000; it.it_value.tv_nsec = t % 1000000000; }
	timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &it, 0);
}
static void mark(unsigned char *ip)
{
	if (!(ip[1] & 3) || (ip[1] & 3) == 3) return;
	ip[1] |= 3; ip[10] = ip[11] = 0; uint32_t c = 0;
	for (int i = 0; i < (ip[0] & 15) * 4; i += 2) c += ip[i] << 8 | ip[i + 1];
	while (c >> 16) c = (c & 65535) + (c >> 16);
	c = ~c; ip[10] = c >> 8; ip[11] = c;
}
static int each(u64 c, i64 n, i64 k) { return c >= (u64)k && (c - k) % n == 0; }
static void judge(struct side *s, char *b, int n)
{
	unsigned char *ip = (void *)(b + sizeof(struct vnet) + 14), *t = ip + (ip[0] & 15) * 4; i64 at = now();
	int len = (ip[2] << 8 | ip[3]) - (ip[0] & 15) * 4 - (t[12] >> 4) * 4, syn = t[13] & 2, ack = !len && !syn, known = 0; uint32_t rel = 0;
	if (ip[9] != 6) { forward(s->outfd, b, n); return; }
	uint16_t sp = t[0] << 8 | t[1], dp = t[2] << 8 | t[3]; uint32_t seq = (uint32_t)t[4] << 24 | t[5] << 16 | t[6] << 8 | t[7];
	if (syn) { int i; for (i = 0; i < s->n && (s->flows[i].sp != sp || s->flows[i].dp != dp); i++); if (i == s->n) s->n++; s->flows[i] = (struct seen){ sp, dp, seq }; }
	for (int i = 0; i < s->n; i++) if (s->flows[i].sp == sp && s->flows[i].dp == dp) { known = 1; rel = seq - s->flows[i].isn - 1; }
	s->data += len > 0; s->acks += ack; s->syns += !!syn;
	struct rule *hit = 0;
	for (int i = 0; i < nr; i++) {
		struct rule *r = &R[i]; int m = 0; if (r->dir != s->dir) continue;
		if (!strcmp(r->match, "data")) m = len > 0 && s->data == (u64)r->a;
		else if (!strcmp(r->match, "every")) m = len > 0 && each(s->data, r->a, r->b);
		else if (!strcmp(r->match, "off")) { int c = known && (uint32_t)r->a - rel < (uint32_t)len; r->covered += c; m = c && r->covered == (u64)r->b; }
		else if (!strcmp(r->match, "ack")) m = ack && s->acks == (u64)r->a;
		else if (!strcmp(r->match, "ackevery")) m = ack && each(s->acks, r->a, r->b);
		else if (!strcmp(r->match, "syn")) m = syn && s->syns == (u64)r->a;
		else if (!strcmp(r->match, "time")) m = at >= r->a && at < r->b;
		if (m && !hit) hit = r;
	}
	if (hit) {
		hit->hits++; pthread_mutex_lock(&outlock);
		fprintf(out, "B %lld %c rule=%d rel=%u len=%d\n", at, s->dir, hit->idx, rel, len); pthread_mutex_unlock(&outlock);
	}
	if (hit && !strcmp(hit->act, "drop")) return;
	if (hit && !strcmp(hit->act, "delay")) { hold(s, at + hit->ns, b, n); return; }
	if (hit && !strcmp(hit->act, "hold")) { hold(s, hit->b, b, n); return; }
	if (hit && !strcmp(hit->act, "dup")) hold(s, at + (hit->ns ? hit->ns : 1), b, n);
	if (hit && !strcmp(hit->act, "ce")) mark(ip);
	forward(s->outfd, b, n);
}
static void *box(void *p)
{
	struct side *s = p; static __thread char b[70000]; struct pollfd q[2] = { { s->in, POLLIN, 0 }, { s->timer, POLLIN, 0 } };
	for (;;) {
		poll(q, 2, -1);
		if (q[1].revents) { u64 x; if (read(s->timer, &x, 8) < 0) die("timer"); }
		while (s->wait && s->wait->at <= now()) { struct held *h = s->wait; s->wait = h->next; forward(s->outfd, h->frame, h->len); free(h->frame); free(h); }
		if (q[0].revents) { int n = recv(s->in, b, sizeof b, 0); if (n > 0) judge(s, b, n); }
		arm(s);
	}
	return 0;
}
static int box_socket(const char *dev)
{
	int one = 1, big = 256 << 20, s = socket(AF_PACKET, SOCK_RAW, 0); if (s < 0) die("box");
	setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one); setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
	setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big); setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof big);
	struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = if_nametoindex(dev) };
	if (bind(s, (void *)&a, sizeof a)) die("bind box");
	return s;
}

// Servers and senders.
static i64 paused_until;
static void *reader(void *p)
{
	int fd = (intptr_t)p; static __thread char b[262144]; i64 got = 0, n;
	while (until(paused_until), (n = recv(fd, b, sizeof b, 0)) > 0) {
		got += n;
		if (pause_at && got >= pause_at) { pause_at = 0; paused_until = now() + pause_ns; }
	}
	close(fd); return 0;
}
static void *acceptor(void *p) { int l = (intptr_t)p; for (;;) { int c = accept(l, 0, 0); if (c < 0) die("accept"); spawn(reader, (void *)(intptr_t)c); } return 0; }
static void *sender(void *p)
{
	struct flow *f = p; static const char zero[1 << 20]; i64 left = f->bytes ? f->bytes : 1LL << 62;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(5001) }; inet_aton("10.0.3.2", &a.sin_addr);
	until(f->start); f->called = now(); f->rc = connect(f->fd, (void *)&a, sizeof a); f->returned = now();
	if (f->rc) { f->rc = errno; return 0; }
	f->up = 1;
	while (left > 0 && !f->over) {
		i64 began = now(), n = left < chunk ? left : chunk;
		for (i64 done = 0; done < n; ) { i64 k = n - done < (i64)sizeof zero ? n - done : (i64)sizeof zero, r = send(f->fd, zero, k, MSG_NOSIGNAL); if (r <= 0) return 0; done += r; }
		left -= n; if (gap && left > 0) until(began + gap);
	}
	if (f->over) return 0;
	f->over = 1; shutdown(f->fd, SHUT_WR);
	char b[4096]; while (recv(f->fd, b, sizeof b, 0) > 0);
	f->up = 0; close(f->fd); return 0;
}
static void hex(char k, int i, i64 t, const unsigned char *b, int n)
{
	pthread_mutex_lock(&outlock); fprintf(out, "%c %d %lld ", k, i, t);
	for (int j = 0; j < n; j++) fprintf(out, "%02x", b[j]);
	fputc('\n', out); pthread_mutex_unlock(&outlock);
}
static void *sampler(void *p)
{
	i64 next[MAXF]; unsigned char b[512]; (void)p;
	for (int i = 0; i < nf; i++) next[i] = F[i].start + 5000000;
	for (;;) {
		int m = 0; for (int i = 1; i < nf; i++) if (next[i] < next[m]) m = i;
		if (next[m] >= dur) return 0;
		until(next[m]);
		if (F[m].up) {
			i64 t = now(); socklen_t n = sizeof b; if (!getsockopt(F[m].fd, IPPROTO_TCP, TCP_INFO_, b, &n)) hex('I', m, t, b, n);
			n = sizeof b; if (!getsockopt(F[m].fd, IPPROTO_TCP, TCP_CC_INFO_, b, &n) && n) hex('G', m, t, b, n);
		}
		next[m] += 10000000;
	}
}

static void features(const char *ns, const char *dev)
{
	enter(ns); int s = socket(AF_INET, SOCK_DGRAM, 0); int tso = !strcmp(offl, "tso"), gso = strcmp(offl, "off") != 0;
	struct { uint32_t cmd, on; } set[] = { { ETHTOOL_SGRO, 0 }, { ETHTOOL_STSO, tso }, { ETHTOOL_SGSO, gso }, { ETHTOOL_SSG, gso }, { ETHTOOL_STXCSUM, gso }, { ETHTOOL_SRXCSUM, gso },
		{ ETHTOOL_STXCSUM, gso }, { ETHTOOL_SSG, gso }, { ETHTOOL_SGSO, gso }, { ETHTOOL_STSO, tso } };
	for (unsigned i = 0; i < sizeof set / sizeof *set; i++) {
		struct ethtool_value v = { set[i].cmd, set[i].on }; struct ifreq r = { 0 }; strcpy(r.ifr_name, dev); r.ifr_data = (void *)&v;
		ioctl(s, SIOCETHTOOL, &r);
	}
	close(s);
}
static void counters(const char *ns)
{
	static char a[65536], b[65536]; enter(ns);
	for (int k = 0; k < 2; k++) {
		FILE *f = fopen(k ? "/proc/thread-self/net/netstat" : "/proc/thread-self/net/snmp", "r"); if (!f) die("snmp");
		while (fgets(a, sizeof a, f) && fgets(b, sizeof b, f)) {
			char *sa, *sb, *x = strtok_r(a, " \n", &sa), *y = strtok_r(b, " \n", &sb), pre[32]; snprintf(pre, sizeof pre, "%.*s", (int)strcspn(x, ":"), x);
			while ((x = strtok_r(0, " \n", &sa)) && (y = strtok_r(0, " \n", &sb))) if (strcmp(y, "0")) fprintf(out, "N %s %s%s %s\n", ns, pre, x, y);
		}
		fclose(f);
	}
}
static void read_case(const char *name)
{
	FILE *f = fopen(name, "r"); char l[512], a[64], b[256]; i64 x, y, z; if (!f) die(name);
	while (fgets(l, sizeof l, f)) {
		if (sscanf(l, "dur %lld", &x) == 1) dur = x;
		else if (sscanf(l, "flow %15s %lld %lld %lld", a, &x, &y, &z) == 4) { struct flow *w = &F[nf++]; strcpy(w->cc, a); w->start = x; w->bytes = y; w->nodelay = z; }
		else if (sscanf(l, "srv %lld %lld %lld", &x, &y, &z) == 3) { srv_rcvbuf = x; pause_at = y; pause_ns = z; }
		else if (sscanf(l, "app %lld %lld", &x, &y) == 2) { chunk = x; gap = y; }
		else if (sscanf(l, "sys %63s %255[^\n]", a, b) == 2) { sys_ns[nsys] = strdup(a); sys_kv[nsys++] = strdup(b); }
		else if (sscanf(l, "offl %7s", offl) == 1 || sscanf(l, "rcap %d", &rcap) == 1) continue;
		else if (!strncmp(l, "rule ", 5)) {
			struct rule *r = &R[nr]; r->idx = nr++; char *s, *w = strtok_r(l + 5, " \n", &s); r->dir = *w; strcpy(r->match, strtok_r(0, " \n", &s));
			r->a = atoll(strtok_r(0, " \n", &s)); w = strtok_r(0, " \n", &s);
			if (w && *w >= '0' && *w <= '9') { r->b = atoll(w); w = strtok_r(0, " \n", &s); }
			strcpy(r->act, w); w = strtok_r(0, " \n", &s); r->ns = w ? atoll(w) : 0;
		}
	}
	fclose(f);
}
int main(int argc, char **argv)
{
	if (argc != 3) return 2;
	struct sched_param sp = { .sched_priority = 10 }; sched_setscheduler(0, SCHED_FIFO, &sp);
	char name[512]; snprintf(name, sizeof name, "%s.log", argv[2]); read_case(argv[1]); if (!(out = fopen(name, "w"))) die(name);
	static char buf[1 << 20]; setvbuf(out, buf, _IOFBF, sizeof buf);
	int boxed = nr > 0;
	for (int i = 0; i < nsys; i++) {
		char p[300] = "/proc/sys/", *q = p + 10, *v = strchr(sys_kv[i], '='); int f; if (!v) die("sysctl"); *v++ = 0; enter(sys_ns[i]);
		for (char *s = sys_kv[i]; *s; s++) *q++ = *s == '.' ? '/' : *s;
		*q = 0; if ((f = open(p, O_WRONLY)) < 0 || write(f, v, strlen(v)) < 0) die(p);
		close(f);
	}
	features("S", "e0"); features("R", "r0"); features("R", "r1"); features("D", "d0"); features("D", "d1"); features("V", "v0");
	if (boxed) { features("M", "m0"); features("M", "m1"); box_fd[0] = box_socket("m0"); box_fd[1] = box_socket("m1"); }
	struct ring s_ring = ring_open("S", "e0"), v_ring = { 0 }; if (rcap) v_ring = ring_open("V", "v0");
	enter("V"); int one = 1, l = socket(AF_INET, SOCK_STREAM, 0); setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (srv_rcvbuf) { int v = srv_rcvbuf; setsockopt(l, SOL_SOCKET, SO_RCVBUF, &v, sizeof v); }
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(5001) }; if (bind(l, (void *)&a, sizeof a) || listen(l, 1024)) die("listen");
	enter("S");
	for (int i = 0; i < nf; i++) {
		int fd = F[i].fd = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in b = { .sin_family = AF_INET, .sin_port = htons(40001 + i) }; inet_aton("10.0.1.2", &b.sin_addr);
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION_, F[i].cc, strlen(F[i].cc))) die(F[i].cc);
		if (F[i].nodelay) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY_, &one, sizeof one);
		if (bind(fd, (void *)&b, sizeof b)) die("bind");
	}
	i64 r, m; struct timespec t; clock_gettime(CLOCK_REALTIME, &t); r = t.tv_sec * 1000000000LL + t.tv_nsec; m = now();
	T0 = (m / 1000000000 + 2) * 1000000000;
	fprintf(out, "O %lld %lld now %lld\n", T0, r - m, m);
	static struct side sides[2];
	if (boxed) for (int i = 0; i < 2; i++) { sides[i] = (struct side){ .in = box_fd[i], .outfd = box_fd[!i], .dir = "fr"[i], .timer = timerfd_create(CLOCK_MONOTONIC, 0) }; spawn(box, &sides[i]); }
	spawn(acceptor, (void *)(intptr_t)l);
	for (int i = 0; i < nf; i++) spawn(sender, &F[i]);
	spawn(sampler, 0);
	until(dur);
	for (int i = 0; i < nf; i++) if (F[i].up && !F[i].over) { F[i].over = 1; shutdown(F[i].fd, SHUT_WR); }
	until(dur + 100);
	pthread_mutex_lock(&outlock);
	snprintf(name, sizeof name, "%s.s.pcap", argv[2]); ring_write(s_ring, name, r - m);
	if (rcap) { snprintf(name, sizeof name, "%s.v.pcap", argv[2]); ring_write(v_ring, name, r - m); }
	for (int i = 0; i < nf; i++) fprintf(out, "C %d %lld %lld %d\n", i, F[i].called, F[i].returned, F[i].rc);
	for (int i = 0; i < nr; i++) fprintf(out, "B # rule %d hits %llu\n", i, R[i].hits);
	counters("S"); counters("V"); fprintf(out, "E\n"); fclose(out); _exit(0);
}
