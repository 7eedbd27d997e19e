"""Model files: one safetensors file, written atomically, read without trust (container.py).

Layout: the tensors of the model and of its training data (what is known of users and items as JSON), and a header with
the class, its parameters, the library's version and the fingerprint of the data.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from permrank.core.fitted import Fitted, Trace
from permrank.core.ranker import Ranker
from permrank.core.registry import find_among, takes_a_built_in_name
from permrank.errors import FormatError, InputError, PermrankError, UnknownIdError, shown
from permrank.files.container import as_json, read_bytes, read_header, write
from permrank.processes import refuse_after_fork
from permrank.ragged import indptr_of
from permrank.rankings.attributes import AttributeKind, Attributes
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Named

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
_DATA = ("user_indptr", "indptr", "items", "levels", "weights", "ratings", "counts")


def save(fitted: Fitted, path: str | Path) -> None:
    """Write a fitted model; the file appears whole or not at all."""
    from permrank import __version__

    model = fitted.settings
    if takes_a_built_in_name(type(model)):  # the file would be read back as the other class
        raise InputError(
            f"a file names its model by the class, and {fitted.name!r} is a built-in one; rename this class"
        )
    tensors: Named = fitted.estimate.tensors()
    tensors["history_"] = np.array(fitted.trace.history, np.float64)
    tensors["validation_"] = fitted.trace.validation
    for name in _DATA:
        if getattr(fitted.rankings, name) is not None:
            tensors[f"data.{name}"] = getattr(fitted.rankings, name)
    for kind in ("user_ids", "item_ids"):
        tensors |= _pack_ids(f"data.{kind}", getattr(fitted.rankings, kind))
        about = getattr(fitted.rankings, kind).attributes
        if about is not None:
            tensors[f"data.{kind}.attributes"] = np.frombuffer(about.to_json().encode(), np.uint8)
    parts = {name: part.fitted_ for name in model.parts if (part := getattr(fitted.estimate, name)) is not None}
    for name, part in parts.items():
        tensors |= {f"{name}.{own}": value for own, value in part.estimate.tensors().items()}
        tensors[f"{name}.history_"] = np.array(part.trace.history, np.float64)
    header = {
        **{f"part.{name}": _about_part(part) for name, part in parts.items()},
        "class": fitted.name,
        "parameters": as_json(model.get_params()),
        "library": __version__,
        "fingerprint": fitted.rankings.fingerprint,
        "fit": as_json(_about_fit(fitted.trace) | {"anonymous": fitted.rankings.anonymous}),
    }
    write(path, "model", tensors, header)


def _about_fit(trace: Trace) -> Named:
    return {"converged": trace.converged, "seconds": trace.seconds, "best_iter": trace.best_iter}


def _about_part(part: Fitted) -> str:
    """What a header says about a model inside another one; it has learnt from the same data."""
    return as_json({"class": part.name, "parameters": part.settings.get_params(), "fit": _about_fit(part.trace)})


def load(path: str | Path, *, models: Iterable[type[Ranker]] = ()) -> Ranker:
    """Read a model that `Ranker.save` has written.

    A file names a class and holds arrays. Nothing in it is run or unpickled, and no module is imported because the file
    names it: the class is looked up among ``models``, the models of this package, those that were registered
    (`permrank.register`), and those that installed packages offer (entry points of the group ``permrank.models``).

    Parameters
    ----------
    path : str or Path
    models : iterable of classes
        Models of your own that this file may hold, if they are not registered.

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
    refuse_after_fork()
    path = Path(path).expanduser()
    content = read_bytes(path)
    header = read_header(content, path)
    kind = class_of(header, path, models)
    try:
        tensors = load_tensors(content)
        return _rebuild(kind, header, tensors, list(models))
    except _SPOILED as error:
        raise FormatError(f"{path} is not a whole permrank model: {error}") from error


def class_of(header: Named, path: Path, models: Iterable[type[Ranker]] = ()) -> type[Ranker]:
    """The class that a file names; one that is not known is refused."""
    name = header.get("class")
    if not isinstance(name, str):
        raise FormatError(f"{path} is not a whole permrank model: it names no class")
    try:
        return find_among(name, models)
    except UnknownIdError:
        raise FormatError(
            f"{path} holds a model whose class {shown(name)} is not known; import the class and call "
            "permrank.register(Class), or load(path, models=[Class]); on the command line add -m module:Class"
        ) from None


def _rebuild(kind: type[Ranker], header: Named, tensors: Named, models: list[type[Ranker]]) -> Ranker:
    fit = json.loads(header["fit"])
    arrays = {key: tensors[f"data.{key}"] for key in _DATA if f"data.{key}" in tensors}
    for key, array in arrays.items():
        if array.dtype.kind != ("f" if key in ("weights", "ratings", "counts") else "i") or array.ndim != 1:
            raise FormatError(f"{key} of the training data is {array.ndim}-dimensional {array.dtype}")
    rankings = Rankings(
        **arrays,
        user_ids=_unpack_ids(tensors, "data.user_ids", "user"),
        item_ids=_unpack_ids(tensors, "data.item_ids", "item"),
        anonymous=fit["anonymous"],
    )
    if rankings.fingerprint != header["fingerprint"]:
        raise FormatError("the training data do not match their fingerprint")
    parts = {}
    for name in (name for name in kind.parts if f"part.{name}" in header):
        about, prefix = json.loads(header[f"part.{name}"]), f"{name}."
        own = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        inner = find_among(str(about["class"]), models)
        parts[name] = _fitted(inner, about["parameters"], about["fit"], own, rankings, {}, models)
    return _fitted(kind, json.loads(header["parameters"]), fit, tensors, rankings, parts, models)


def _fitted(
    kind: type[Ranker],
    parameters: Named,
    fit: Named,
    tensors: Named,
    rankings: Rankings,
    parts: Named,
    models: list[type[Ranker]],
) -> Ranker:
    """A model from its parameters and tensors, which are checked."""
    settings = kind(**{name: _parameter(value, models) for name, value in parameters.items()})
    settings._validate()
    learned = {name: tensors[name] for name in settings.estimate_type.names()}
    learned = {name: value if value.ndim else value.item() for name, value in learned.items()}
    history = np.atleast_1d(tensors["history_"]).astype(np.float64)
    if history.ndim != 1 or not np.isfinite(history).all():
        raise FormatError("history_ is not a list of finite numbers")
    curve = tensors.get("validation_", np.zeros((0, 2)))
    if curve.ndim != 2 or curve.shape[1] != 2 or not np.isfinite(curve).all():
        raise FormatError("validation_ is not a curve of sweeps and scores")
    best = int(fit.get("best_iter", history.size))
    trace = Trace(history.tolist(), bool(fit["converged"]), float(fit["seconds"]), curve, best)
    estimate = settings.estimate_type.of(learned, settings._rules() | parts)
    fitted = Fitted(settings, rankings, estimate, trace)
    settings._check(fitted)
    return fitted.as_model()


def _parameter(value: object, models: list[type[Ranker]]) -> object:
    """A parameter as it was given: one that is a model was written as its class and parameters."""
    if not (isinstance(value, dict) and set(value) == {"model", "parameters"}):
        return value
    inner = find_among(str(value["model"]), models)
    return inner(**value["parameters"])


def _pack_ids(name: str, vocabulary: Vocabulary) -> Named:
    """Integers as they are, strings as UTF-8 bytes with offsets."""
    if vocabulary.is_integer:
        return {name: np.ascontiguousarray(vocabulary.ids.to_numpy())}
    offsets = indptr_of(vocabulary.ids.str.len_bytes().to_numpy())
    return {f"{name}.bytes": np.frombuffer("".join(vocabulary.ids).encode(), np.uint8), f"{name}.offsets": offsets}


def _unpack_ids(tensors: Named, name: str, kind: AttributeKind) -> Vocabulary:
    if name in tensors:
        ids = pl.Series(kind, tensors[name], dtype=pl.Int64)
    else:
        raw, offsets = tensors[f"{name}.bytes"].tobytes(), tensors[f"{name}.offsets"].tolist()
        if not offsets or offsets[0] != 0 or offsets[-1] != len(raw) or offsets != sorted(offsets):
            raise FormatError(f"offsets of {kind} ids do not fit their bytes")
        ids = pl.Series(kind, [raw[a:b].decode() for a, b in itertools.pairwise(offsets)], dtype=pl.String)
    if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
        raise FormatError(f"{kind} ids are not sorted")
    about = tensors.get(f"{name}.attributes")
    attributes = None if about is None else Attributes.from_json(about.astype(np.uint8).tobytes(), kind)
    return Vocabulary(ids, kind).with_attributes(attributes)
