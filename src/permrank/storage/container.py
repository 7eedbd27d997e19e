"""The container of model files and checkpoints: safetensors with a header and a checksum, read without trust.

The header holds the kind of file, its format version, what the writer adds, and a SHA-256 over the whole file (taken
with the digits of the digest itself set to zero). Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import save as dump_tensors

from permrank.errors import FormatError
from permrank.storage.atomic import atomic_write
from permrank.types import Named

FORMAT_VERSION = "1"
_BLANK = "0" * 64
# What to do about a file that is none: by kind.
_REMEDY = {"model": "save the model again", "checkpoint": "remove it to begin anew"}


def write(path: str | Path, kind: str, tensors: Named, header: dict[str, str]) -> None:
    """Write arrays and a header; the file appears whole or not at all."""
    whole = {"format": FORMAT_VERSION, "kind": kind, **header, "sha256": _BLANK}
    content = dump_tensors({name: _tensor(value) for name, value in tensors.items()}, metadata=whole)
    digest = hashlib.sha256(content).hexdigest()
    with atomic_write(path) as file:
        file.write(content.replace(_BLANK.encode(), digest.encode(), 1))


def read_bytes(path: Path) -> bytes:
    """Content of a file; one that cannot be read raises a `FormatError`."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a ValueError for a name with a NUL in it
        raise FormatError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_header(content: bytes, path: Path, kind: str = "model") -> Named:
    """Header of a file, after its checksum has been found right."""
    name = "model file" if kind == "model" else kind
    spoiled = FormatError(f"{path} is not a permrank {name}, or it is damaged; {_REMEDY[kind]}")
    if len(content) < 8:
        raise spoiled
    (length,) = struct.unpack("<Q", content[:8])
    if length > len(content) - 8:
        raise spoiled
    try:
        header = json.loads(content[8 : 8 + length])["__metadata__"]
        version, digest = str(header["format"]), str(header["sha256"])
        found = str(header.get("kind", "model"))
        signature = digest.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise spoiled from error
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{path} has format {version[:20]!r}; this permrank reads format {FORMAT_VERSION!r}: "
            "use the version that wrote it"
        )
    blanked = content.replace(signature, _BLANK.encode(), 1) if len(signature) == 64 else b""
    if hashlib.sha256(blanked).hexdigest() != digest:
        raise spoiled
    if found != kind:
        raise FormatError(f"{path} is a permrank {found[:20]}, not a {kind}; give another file")
    return dict(header)


def as_json(value: Named) -> str:
    """Parameters as text."""
    return json.dumps(value, default=_plain)


def _tensor(value: Any) -> Any:
    return np.ascontiguousarray(value) if np.ndim(value) else np.array(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "get_params"):  # a model that is a parameter of another one
        return {"model": type(value).__name__, "parameters": value.get_params()}
    if hasattr(value, "__arrow_c_stream__"):
        return pl.DataFrame(value).to_dict(as_series=False)
    if hasattr(value, "__dataframe__"):
        return pl.from_dataframe(value).to_dict(as_series=False)
    raise TypeError(f"parameter {value!r} cannot be written to a model file; use numbers, strings, lists or frames")
