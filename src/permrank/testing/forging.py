"""Model files that somebody with bad intentions could write."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as dump_tensors

from permrank.types import Named


def header_of(path: Path) -> dict[str, str]:
    """What a model file says of itself; its parts lie in any order, so that the checksum may be another."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])["__metadata__"]
    return {key: value for key, value in header.items() if key != "sha256"}


def resigned(path: Path, change_header: dict[str, str] | None = None, change_tensors: Named | None = None) -> None:
    """Give a file other content and a right checksum."""
    content = path.read_bytes()
    header = header_of(path) | {"sha256": "0" * 64} | (change_header or {})
    tensors = dict(load_tensors(content))
    for name, value in (change_tensors or {}).items():
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value
    made = dump_tensors(tensors, metadata=header)
    path.write_bytes(made.replace(b"0" * 64, hashlib.sha256(made).hexdigest().encode(), 1))
