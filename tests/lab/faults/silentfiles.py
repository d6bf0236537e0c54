"""Mounts a file system by FUSE, and answers only the kernel's greeting: `NAMESPACE FOLDER`, of mounts."""

import ctypes
import os
import struct
import sys

INIT, HEAD = 26, struct.Struct("<IIQQIIII")
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
if libc.setns(os.open(sys.argv[1], os.O_RDONLY), 0):
    raise OSError(ctypes.get_errno(), "setns")
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"silent", os.fsencode(sys.argv[2]), b"fuse.silent", 0, options):
    raise OSError(ctypes.get_errno(), "mount")
while True:
    asked = os.read(device, 1 << 20)
    _, what, unique, *_ = HEAD.unpack_from(asked)
    if what == INIT:
        body = struct.pack("<IIIIHHIIHHIIIIIIII", 7, 31, 0, 0, 8, 4, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)[:64]
        os.write(device, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
        print("ready", flush=True)
