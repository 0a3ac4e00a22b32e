#!/usr/bin/env python3
"""strip.py FROM TO: scripts without their code blocks, so that packets and calls alone are compared."""
import sys,os,glob
src,dst=sys.argv[1:3]
os.makedirs(dst,exist_ok=True)
for f in glob.glob(src+'/*.pkt'):
    out=[];inb=False
    for l in open(f).read().split('\n'):
        if l.endswith('%{'): inb=True
        if not inb: out.append(l)
        if l=='}%': inb=False
    open(dst+'/'+os.path.basename(f),'w').write('\n'.join(out))
