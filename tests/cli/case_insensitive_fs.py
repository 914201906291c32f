"""Mounts a read-only file system that ignores the case of names, as those of other systems do: FILES... in a folder.

Speaks the kernel's FUSE protocol by itself, version 7.31, and ends when the folder is unmounted. Needs root.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable

folder, files = sys.argv[1], sys.argv[2:]
ROOT = 1
nodes: dict[int, str | None] = {ROOT: None, **dict(enumerate(files, 2))}

device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"ignoring-case", folder.encode(), b"fuse.ignoring-case", 0, options) != 0:
    sys.exit(f"cannot mount {folder}: {os.strerror(ctypes.get_errno())}")
print("mounted", flush=True)


def content(node: int) -> bytes:
    return f"content of {nodes[node]}\n".encode()


def attributes(node: int) -> bytes:
    is_root = node == ROOT
    mode, size = (stat.S_IFDIR | 0o755, 0) if is_root else (stat.S_IFREG | 0o644, len(content(node)))
    return struct.pack("=QQQQQQIIIIIIIIII", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def lookup(node: int, body: bytes) -> bytes:
    wanted = body.split(b"\0")[0].decode().lower()
    for number, name in nodes.items():
        if name and name.lower() == wanted:
            return struct.pack("=QQQQII", number, 0, 60, 60, 0, 0) + attributes(number)
    raise OSError(errno.ENOENT, wanted)


def read_folder(node: int, body: bytes) -> bytes:
    _, offset, size = struct.unpack_from("=QQI", body)
    answer = b""
    for number, name in list(nodes.items())[offset:]:
        encoded = (name or ".").encode()
        kind = stat.S_IFDIR if number == ROOT else stat.S_IFREG
        entry = struct.pack("=QQII", number, number, len(encoded), kind >> 12) + encoded
        entry += b"\0" * (-len(entry) % 8)
        if len(answer) + len(entry) > size:
            break
        answer += entry
    return answer


def read(node: int, body: bytes) -> bytes:
    _, offset, size = struct.unpack_from("=QQI", body)
    return content(node)[offset : offset + size]


OPENED = struct.pack("=QII", 1, 0, 0)
FORGET, BATCH_FORGET = 2, 42
operations: dict[int, Callable[[int, bytes], bytes]] = {
    1: lookup,
    3: lambda node, body: struct.pack("=QII", 60, 0, 0) + attributes(node),
    14: lambda node, body: OPENED,
    15: read,
    17: lambda node, body: struct.pack("=QQQQQIIII24x", 1, 0, 0, 2, 0, 4096, 255, 4096, 0),
    18: lambda node, body: b"",
    25: lambda node, body: b"",
    26: lambda node, body: struct.pack("=IIIIHHIIHHII24x", 7, 31, 65536, 0, 12, 10, 65536, 1, 0, 0, 0, 0),
    27: lambda node, body: OPENED,
    28: read_folder,
    29: lambda node, body: b"",
}

while True:
    try:
        request = os.read(device, 1 << 20)
    except OSError as error:
        if error.errno == errno.ENODEV:
            break
        raise
    length, operation, unique, node = struct.unpack_from("=IIQQ", request)
    if operation in (FORGET, BATCH_FORGET):
        continue
    failure, answer = 0, b""
    try:
        if operation not in operations:
            raise OSError(errno.ENOSYS, "no such operation")
        answer = operations[operation](node, request[40:])
    except OSError as error:
        failure = -(error.errno or errno.EIO)
    os.write(device, struct.pack("=IiQ", 16 + len(answer), failure, unique) + answer)
