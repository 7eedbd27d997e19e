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
from numpy.typing import ArrayLike

from permrank.errors import FormatError
from permrank.files.atomic import atomic_write
from permrank.types import Array, Named

FORMAT_VERSION = "1"
_BLANK = "0" * 64
# Types of numbers, as NumPy and as the format names them.
_DTYPES = {
    "f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8", "u8": "U64",
    "u4": "U32", "u2": "U16", "u1": "U8", "b1": "BOOL",
}  # fmt: skip
# What to do about a file that is none: by kind.
_REMEDY = {"model": "save the model again", "checkpoint": "remove it to begin anew"}


def write(path: str | Path, kind: str, tensors: Named, header: dict[str, str]) -> None:
    """Write arrays and a header; the file appears whole or not at all.

    Arrays go to the file from where they are: writing takes no memory beside them.
    """
    whole = {"format": FORMAT_VERSION, "kind": kind, **header}
    # Wider numbers first, so that every array is aligned; little-endian, as the format has it.
    arrays = sorted(
        ((name, _tensor(value)) for name, value in tensors.items()), key=lambda named: (-named[1].itemsize, named[0])
    )
    blank = _beginning(arrays, whole | {"sha256": _BLANK})
    digest = hashlib.sha256(blank)
    for _, array in arrays:
        digest.update(_bytes_of(array))
    with atomic_write(path) as file:
        file.write(_beginning(arrays, whole | {"sha256": digest.hexdigest()}))
        for _, array in arrays:
            file.write(_bytes_of(array))


def _beginning(arrays: list[tuple[str, Array]], header: dict[str, str]) -> bytes:
    """What stands before the arrays in a safetensors file: the length of a JSON object, and it."""
    described: Named = {"__metadata__": header}
    end = 0
    for name, array in arrays:
        begin, end = end, end + array.nbytes
        if array.dtype.str[1:] not in _DTYPES:
            raise TypeError(f"{name} is an array of {array.dtype}, which a file of numbers cannot hold")
        described[name] = {"dtype": _DTYPES[array.dtype.str[1:]], "shape": array.shape, "data_offsets": (begin, end)}
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


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
        stated = str(header.get("kind", "model"))
        signature = digest.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise spoiled from error
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{path} has format {version[:20]!r}; this permrank reads format {FORMAT_VERSION!r}: "
            "use the version that wrote it"
        )
    begin = content[: 8 + length]
    blanked = hashlib.sha256(begin.replace(signature, _BLANK.encode(), 1) if len(signature) == 64 else b"")
    blanked.update(memoryview(content)[len(begin) :])
    if blanked.hexdigest() != digest:
        raise spoiled
    if stated != kind:
        raise FormatError(f"{path} is a permrank {stated[:20]}, not a {kind}; give another file")
    return dict(header)


def as_json(value: Named) -> str:
    """Parameters as text."""
    return json.dumps(value, default=_plain)


def _tensor(value: ArrayLike) -> Array:
    array = np.asarray(value)
    return np.array(array, array.dtype.newbyteorder("<"), order="C", copy=None)  # np.ascontiguousarray makes 0-d 1-d


def _plain(value: Any) -> object:
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
