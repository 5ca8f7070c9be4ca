"""Verifies an export: it has a CRC32C for each 8 KiB, and one of these checksums and the footer (docs/reference/parquet.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.unsignedinteger[Any]]

_BLOCK = 8 << 10
# Blocks to verify at a time.
_BLOCKS = 4096
_TRAILER = 8
# The key and the bytes between it and its value: the type of the next field, a string, and its length.
_KEY = b"trackiops.crc32c\x18\x08"
_DIGITS = 8
# The program's name in the footer. Other programs that rewrite the file put their own names there.
_WRITER = re.compile(rb"\x18[\x14-\x40]trackiops version \d")


def _table() -> _Numbers:
    crc: _Numbers = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = (crc >> np.uint32(1)) ^ ((crc & np.uint32(1)) * np.uint32(0x82F63B78))
    return crc


_TABLE = _table()


def crc32c(blocks: _Numbers) -> _Numbers:
    """The CRC32C of each row."""
    crc = np.full(len(blocks), 0xFFFFFFFF, dtype=np.uint32)
    for column in np.ascontiguousarray(blocks.T):
        crc = _TABLE[(crc ^ column) & 0xFF] ^ (crc >> 8)
    return ~crc


def _crc32c_of(content: bytes) -> int:
    # A Python list is faster here: one block has no rows to vectorise over.
    table, crc = _TABLE.tolist(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def verify(path: Path) -> None:
    """Raises ValueError if TrackIOps wrote the file and it is not as it was written."""
    with path.open("rb") as file:
        length = file.seek(0, 2)
        if length < _TRAILER:
            return
        file.seek(length - _TRAILER)
        trailer = file.read(_TRAILER)
        footer_at = length - _TRAILER - int.from_bytes(trailer[:4], "little")
        if trailer[4:] != b"PAR1" or footer_at < 4:
            return
        count = -(-(footer_at - 4) // (_BLOCK + 4))
        data = footer_at - 4 - 4 * count
        file.seek(max(data, 0))
        tail = file.read()
        footer = tail[footer_at - max(data, 0) :]
        if not _WRITER.search(footer):
            return
        if data < 0 or not _matches(tail):
            raise _damaged(path, "its footer does not match its checksum")
        sums = np.frombuffer(tail, dtype="<u4", count=count)
        for first in range(0, count, _BLOCKS):
            file.seek(first * _BLOCK)
            content = file.read(min(_BLOCKS * _BLOCK, data - first * _BLOCK))
            whole = len(content) // _BLOCK
            blocks = np.frombuffer(content, dtype=np.uint8, count=whole * _BLOCK).reshape(whole, _BLOCK)
            found = crc32c(blocks).tolist()
            if len(content) % _BLOCK:
                found.append(_crc32c_of(content[whole * _BLOCK :]))
            if found != sums[first : first + len(found)].tolist():
                raise _damaged(path, "its rows do not match their checksums")


def _matches(tail: bytes) -> bool:
    place = tail.rfind(_KEY) + len(_KEY)
    digits = tail[place : place + _DIGITS]
    found = _crc32c_of(tail[:place] + b"0" * _DIGITS + tail[place + _DIGITS :])
    return place >= len(_KEY) and digits == b"%08x" % found


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(f"{path} is damaged: {why}; export it again, or restore it from a copy")
