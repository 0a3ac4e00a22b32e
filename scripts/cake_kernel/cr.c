// cr SCHED OUT : (inside the guest) play a packet schedule into v0, capture v1; exact virtual times. See README.
// SCHED lines:  F id hexheader | P t_ns frame len prio mark gso idx start-of-TCP is-IPv6 | X t_ns shell-command | T t_ns tc-batch-line (e.g. qdisc change ...) | Q t_ns label | S t_ns label | E t_ns
// The clock is read just before what is timed: a reading costs 1 ns, and 2 where the tick comes during it; sleeps end 1 ns early for that.
// OUT lines:    O mono T0 ns | A idx t_enq | R t len hex96 | S label t json-qdisc <TAB> json-class | X t rc cmd
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <time.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/if_ether.h>
typedef long long i64;
struct vh { unsigned char flags, gso_type; unsigned short hdr_len, gso_size, csum_start, csum_offset; } __attribute__((packed));
static i64 now(int c){struct timespec t;clock_gettime(c,&t);return t.tv_sec*1000000000LL+t.tv_nsec;}
static void die(const char*s){perror(s);exit(1);}
static unsigned char *F[4096]; static int FL[4096];
static int psock(const char*dev,int proto){int s=socket(AF_PACKET,SOCK_RAW,htons(proto)); if(s<0)die("socket"); struct sockaddr_ll a={.sll_family=AF_PACKET,.sll_protocol=htons(proto),.sll_ifindex=if_nametoindex(dev)}; if(bind(s,(void*)&a,sizeof a))die("bind"); return s;}
static void slurp(FILE*o,const char*cmd){FILE*p=popen(cmd,"r"); int c; while((c=fgetc(p))!=EOF) if(c!='\n')fputc(c,o); pclose(p);}
static i64 T0;
static FILE*tj,*tk,*tx_; // persistent `tc -batch -` processes: statistics (json), classes (text), changes: a command costs a few ns of virtual time
static void wait_us(int us){i64 t=now(CLOCK_MONOTONIC)+us*1000; struct timespec ts={t/1000000000,t%1000000000}; clock_nanosleep(CLOCK_MONOTONIC,TIMER_ABSTIME,&ts,0);}
static void snap(FILE*o,const char*l){ i64 t=now(CLOCK_MONOTONIC)-T0; fputs("qdisc show dev v0\n",tj); fflush(tj); fputs("class show dev v0\nqdisc show dev lo\n",tk); fflush(tk); wait_us(1); fprintf(o,"S %s %lld\n",l,t); }
static void dumpf(FILE*o,char k,const char*fn){ FILE*f=fopen(fn,"r"); int c; fprintf(o,"%c ",k); while(f&&(c=fgetc(f))!=EOF) fputc(c=='\n'?' ':c,o); fputc('\n',o); if(f)fclose(f);}
int main(int c,char**v){
 struct sched_param sp={.sched_priority=10}; sched_setscheduler(0,SCHED_FIFO|SCHED_RESET_ON_FORK,&sp); prctl(PR_SET_TIMERSLACK,1);
 FILE*f=fopen(v[1],"r"),*o=fopen(v[2],"w"); if(!f||!o)die("open");
 int tx=psock("v0",0),txg=psock("v0",0),rx=psock("v1",ETH_P_ALL),one=1,big=512<<20; setsockopt(txg,SOL_PACKET,PACKET_VNET_HDR,&one,4);
 if(setsockopt(rx,SOL_SOCKET,SO_RCVBUFFORCE,&big,4))die("rcvbuf"); setsockopt(rx,SOL_SOCKET,SO_TIMESTAMPNS,&one,4); setsockopt(tx,SOL_SOCKET,SO_SNDBUFFORCE,&big,4); setsockopt(txg,SOL_SOCKET,SO_SNDBUFFORCE,&big,4);
 tj=popen("exec tc -s -j -force -batch - >/tmp/cr.j 2>/tmp/cr.je","w"); tk=popen("exec tc -s -force -batch - >/tmp/cr.k 2>&1","w"); tx_=popen("exec tc -force -batch - >/tmp/cr.x 2>&1","w"); wait_us(1000);
 char *line=0; size_t ln=0; static unsigned char buf[70000]; i64 last=-1; int lp=0,lm=0; static i64 AT[200000]; static int AI[200000]; int na=0;
 i64 r=now(CLOCK_REALTIME),m=now(CLOCK_MONOTONIC); i64 off=r-(m-1);
 T0=(m/100000000+1)*100000000; fprintf(o,"O %lld %lld\n",T0,off);
 while(getline(&line,&ln,f)>0){ line[strcspn(line,"\n")]=0; i64 t; int k=0;
  if(line[0]=='F'){int id; sscanf(line,"F %d %n",&id,&k); char*h=line+k; int n=strlen(h)/2; free(F[id]); F[id]=malloc(n); FL[id]=n; for(int i=0;i<n;i++){unsigned x; sscanf(h+2*i,"%2x",&x); F[id][i]=x;} continue;}
  if(line[0]=='P'){int id,len,prio,mark,gso,idx,l4,v6; sscanf(line,"P %lld %d %d %d %d %d %d %d %d",&t,&id,&len,&prio,&mark,&gso,&idx,&l4,&v6);
   unsigned char*b=buf+sizeof(struct vh); memset(b,0,len); memcpy(b,F[id],FL[id]<len?FL[id]:len);
   int s=gso?txg:tx; if(prio!=lp){setsockopt(tx,SOL_SOCKET,SO_PRIORITY,&prio,4);setsockopt(txg,SOL_SOCKET,SO_PRIORITY,&prio,4);lp=prio;} if(mark!=lm){setsockopt(tx,SOL_SOCKET,SO_MARK,&mark,4);setsockopt(txg,SOL_SOCKET,SO_MARK,&mark,4);lm=mark;}
   if(gso){struct vh*h=(void*)buf; *h=(struct vh){.flags=1,.gso_type=v6?4:1,.hdr_len=l4+(b[l4+12]>>4)*4,.gso_size=gso,.csum_start=l4,.csum_offset=16};}
   if(t!=last){struct timespec ts={(T0+t-1)/1000000000,(T0+t-1)%1000000000}; clock_nanosleep(CLOCK_MONOTONIC,TIMER_ABSTIME,&ts,0); last=t;}
   i64 a=now(CLOCK_MONOTONIC)-T0; int n= gso? send(s,buf,len+sizeof(struct vh),0):send(s,b,len,0); int e=errno; if(n<0&&e!=ENOBUFS)fprintf(o,"! send idx %d errno %d\n",idx,e); AT[na]=a; AI[na++]=idx; continue;}
  if(sscanf(line+1,"%lld %n",&t,&k)<1)continue; struct timespec ts={(T0+t-1)/1000000000,(T0+t-1)%1000000000}; clock_nanosleep(CLOCK_MONOTONIC,TIMER_ABSTIME,&ts,0); last=-1;
  if(line[0]=='X'){fflush(o); i64 a=now(CLOCK_MONOTONIC)-T0; int rc=system(line+1+k); i64 b=now(CLOCK_MONOTONIC)-T0; fprintf(o,"X %lld %lld %d %s\n",a,b,rc,line+1+k);}
  if(line[0]=='T'){i64 a=now(CLOCK_MONOTONIC)-T0; fprintf(tx_,"%s\n",line+1+k); fflush(tx_); wait_us(1); fprintf(o,"T %lld %s\n",a,line+1+k);}
  if(line[0]=='Q'){ i64 t=now(CLOCK_MONOTONIC)-T0; fprintf(o,"Q %s %lld ",line+1+k,t); fflush(o); slurp(o,"tc -s -j qdisc show dev v0"); fputc('\n',o);}
  if(line[0]=='S')snap(o,line+1+k);
  if(line[0]=='E'){snap(o,"end"); break;}
 }
 pclose(tj); pclose(tk); pclose(tx_); dumpf(o,'J',"/tmp/cr.j"); dumpf(o,'K',"/tmp/cr.k"); dumpf(o,'Y',"/tmp/cr.x"); dumpf(o,'Z',"/tmp/cr.je");
 for(int i=0;i<na;i++)fprintf(o,"A %d %lld\n",AI[i],AT[i]);
 for(;;){ char ctl[256]; struct sockaddr_ll sl; struct iovec iv={buf,96}; struct msghdr mh={.msg_name=&sl,.msg_namelen=sizeof sl,.msg_iov=&iv,.msg_iovlen=1,.msg_control=ctl,.msg_controllen=sizeof ctl};
  int n=recvmsg(rx,&mh,MSG_DONTWAIT|MSG_TRUNC); if(n<0)break; if(sl.sll_pkttype==PACKET_OUTGOING)continue; i64 t=0; for(struct cmsghdr*h=CMSG_FIRSTHDR(&mh);h;h=CMSG_NXTHDR(&mh,h)) if(h->cmsg_level==SOL_SOCKET){struct timespec*q=(void*)CMSG_DATA(h); t=q->tv_sec*1000000000LL+q->tv_nsec-off-T0;}
  fprintf(o,"R %lld %d ",t,n); for(int i=0;i<n&&i<96;i++)fprintf(o,"%02x",buf[i]); fputc('\n',o);}
 fclose(o); return 0;}
