"""A zip file, as small as deflate gets it.

Place in the flow: `scripts/package.py wheel` has the members and writes what comes out.
In:   the members' contents by path, and which of them are programs.
Out:  the bytes of a zip file, the same each time.

`zipfile` compresses with zlib alone, whose best level leaves a binary 4 in a hundred larger than libdeflate's. The form is
that of PKWARE's APPNOTE 6.3, 4.3: a header before each member, the list of all at the end.
"""

import struct
import zlib

import deflate

# libdeflate's best, which takes seconds for the host.
LEVEL = 12
# Deflate, as of version 2.0 of the format; made on Unix.
VERSION, UNIX, DEFLATED = 20, 3 << 8, 8
# The names are UTF-8.
FLAGS = 1 << 11
# 1980-01-01, midnight: the earliest moment that a zip file can tell.
TIME, DATE = 0, 1 << 5 | 1


def smallzip(members: dict[str, bytes], programs: set[str]) -> bytes:
    """The zip file of `members` in their order; those in `programs` may be executed. Less than 4 GiB in all."""
    body, directory = bytearray(), bytearray()
    for path, content in members.items():
        name, packed = path.encode(), deflate.deflate_compress(content, LEVEL)
        mode = 0o100755 if path in programs else 0o100644
        common = struct.pack(
            "<5H3L2H", VERSION, FLAGS, DEFLATED, TIME, DATE, zlib.crc32(content), len(packed), len(content), len(name), 0
        )
        directory += b"PK\x01\x02" + struct.pack("<H", UNIX | VERSION) + common
        directory += struct.pack("<3H2L", 0, 0, 0, mode << 16, len(body)) + name
        body += b"PK\x03\x04" + common + name + bytes(packed)
    count = len(members)
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + end)
