"""Model files: one safetensors file, written atomically, read without trust.

Layout: the tensors of the model and of its training data, and a header with the format version, the
class, its parameters, the library's version, the fingerprint of the data and a SHA-256 over the whole
file (taken with the digits of the digest itself set to zero). Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as dump_tensors

from permrank.data.atomic import atomic_write
from permrank.data.frames import as_frame
from permrank.data.rankings import Rankings
from permrank.data.vocabulary import Vocabulary
from permrank.errors import FormatError, PermrankError
from permrank.models import MODELS
from permrank.models.base import Ranker

FORMAT_VERSION = "1"
_BLANK = "0" * 64
# What content that lies about itself can raise on the way to a model.
_SPOILED = (
    SafetensorError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    PermrankError,
    pl.exceptions.PolarsError,
)
_DATA = ("user_indptr", "indptr", "items", "levels", "weights", "ratings")


def save(model: Ranker, path: str | Path) -> None:
    """Write a fitted model; the file appears whole or not at all."""
    from permrank import __version__

    tensors: dict[str, Any] = {name: _tensor(getattr(model, name)) for name in model.learned}
    tensors["history_"] = np.array(model.history_, np.float64)
    for name in _DATA:
        if getattr(model.rankings_, name) is not None:
            tensors[f"data.{name}"] = np.ascontiguousarray(getattr(model.rankings_, name))
    for kind in ("user_ids", "item_ids"):
        tensors |= _pack_ids(f"data.{kind}", getattr(model.rankings_, kind))
    header = {
        "format": FORMAT_VERSION,
        "class": type(model).__name__,
        "parameters": _json(model.get_params()),
        "library": __version__,
        "fingerprint": model.rankings_.fingerprint,
        "fit": _json(
            {
                "converged": model.converged_,
                "seconds": model.fit_seconds_,
                "anonymous": model.rankings_.anonymous,
            }
        ),
        "sha256": _BLANK,
    }
    content = dump_tensors(tensors, metadata=header)
    digest = hashlib.sha256(content).hexdigest()
    with atomic_write(path) as file:
        file.write(content.replace(_BLANK.encode(), digest.encode(), 1))


def load(path: str | Path) -> Ranker:
    """Read a model that `Ranker.save` has written.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Ranker
        A fitted model of the class that was saved, with its training data.

    Examples
    --------
    >>> import tempfile, pathlib, permrank as pr
    >>> rankings = pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["a", "b"]])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.permrank"
    >>> pr.PlackettLuce().fit(rankings).save(path)
    >>> pr.load(path).rank(None, ["a", "b"])["item"].to_list()
    ['a', 'b']
    """
    path = Path(path).expanduser()
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # a ValueError for a name with a NUL in it
        raise FormatError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    header = read_header(content, path)
    try:
        tensors = load_tensors(content)
        return _rebuild(header, tensors)
    except _SPOILED as error:
        raise FormatError(f"{path} is not a whole permrank model: {error}") from error


def read_header(content: bytes, path: Path) -> dict[str, Any]:
    """Header of a model file, after its checksum has been found right."""
    spoiled = FormatError(f"{path} is not a permrank model file, or it is damaged; save the model again")
    if len(content) < 8:
        raise spoiled
    (length,) = struct.unpack("<Q", content[:8])
    if length > len(content) - 8:
        raise spoiled
    try:
        header = json.loads(content[8 : 8 + length])["__metadata__"]
        version, digest = str(header["format"]), str(header["sha256"])
        signature = digest.encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise spoiled from error
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{path} has format {version[:20]!r}; this permrank reads format {FORMAT_VERSION!r}: "
            "use the version that wrote it"
        )
    blanked = content.replace(signature, _BLANK.encode(), 1) if len(signature) == 64 else b""
    if hashlib.sha256(blanked).hexdigest() != digest:
        raise spoiled
    return dict(header)


def _rebuild(header: dict[str, Any], tensors: dict[str, Any]) -> Ranker:
    name = header["class"]
    if name not in MODELS:
        raise FormatError(f"class {name!r} is not known to this version of permrank")
    model: Ranker = getattr(importlib.import_module(MODELS[name]), name)(**json.loads(header["parameters"]))
    model._validate()
    fit = json.loads(header["fit"])
    arrays = {key: tensors[f"data.{key}"] for key in _DATA if f"data.{key}" in tensors}
    for key, array in arrays.items():
        if array.dtype.kind != ("f" if key in ("weights", "ratings") else "i") or array.ndim != 1:
            raise FormatError(f"{key} of the training data is {array.ndim}-dimensional {array.dtype}")
    ratings = arrays.pop("ratings", None)
    rankings = Rankings(
        **arrays,
        user_ids=_unpack_ids(tensors, "data.user_ids", "user"),
        item_ids=_unpack_ids(tensors, "data.item_ids", "item"),
        ratings=ratings,
        anonymous=fit["anonymous"],
    )
    if rankings.fingerprint != header["fingerprint"]:
        raise FormatError("the training data do not match their fingerprint")
    for attribute in model.learned:
        value = tensors[attribute]
        setattr(model, attribute, value if value.ndim else value.item())
    model.rankings_ = rankings
    model.history_ = np.atleast_1d(tensors["history_"]).tolist()
    model.n_iter_ = len(model.history_)
    model.converged_, model.fit_seconds_ = bool(fit["converged"]), float(fit["seconds"])
    model._check_learned()
    return model


def _pack_ids(name: str, vocabulary: Vocabulary) -> dict[str, Any]:
    """Integers as they are, strings as UTF-8 bytes with offsets."""
    if vocabulary.is_integer:
        return {name: np.ascontiguousarray(vocabulary.ids.to_numpy())}
    encoded = [str(value).encode() for value in vocabulary]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(encoded), np.uint8), f"{name}.offsets": offsets}


def _unpack_ids(tensors: dict[str, Any], name: str, kind: str) -> Vocabulary:
    if name in tensors:
        ids = pl.Series(kind, tensors[name], dtype=pl.Int64)
    else:
        raw, offsets = tensors[f"{name}.bytes"].tobytes(), tensors[f"{name}.offsets"].tolist()
        if not offsets or offsets[0] != 0 or offsets[-1] != len(raw) or offsets != sorted(offsets):
            raise FormatError(f"offsets of {kind} ids do not fit their bytes")
        ids = pl.Series(kind, [raw[a:b].decode() for a, b in itertools.pairwise(offsets)], dtype=pl.String)
    if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
        raise FormatError(f"{kind} ids are not sorted")
    return Vocabulary(ids, kind)


def _tensor(value: Any) -> Any:
    return np.ascontiguousarray(value) if np.ndim(value) else np.array(value)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__dataframe__"):
        return as_frame(value).to_dict(as_series=False)
    raise TypeError(f"parameter {value!r} cannot be written to a model file; use numbers, strings, lists or frames")
