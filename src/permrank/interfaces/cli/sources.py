"""What the command line is pointed at: a data set by name, a file of rankings, items and users."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permrank.errors import ChoiceSetWarning, InputError, UnknownIdError
from permrank.interfaces.output import say

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings
    from permrank.rankings.vocabulary import Vocabulary


def open_rankings(source: str, **options: Any) -> Rankings:
    """Read a file, or load a data set by its name; warnings as one line each."""
    from permrank.files import datasets
    from permrank.files.formats.about import with_about
    from permrank.files.formats.readers import read
    from permrank.rankings.build import DUPLICATES

    given = {name: value for name, value in options.items() if value is not None}
    unlisted, duplicates = given.get("unlisted"), given.get("duplicates", "error")
    if unlisted not in ("ignore", "last", None):
        raise InputError(f"--unlisted {unlisted}, expected 'ignore' or 'last'")
    if given.get("kind", "interactions") != "interactions":
        raise InputError(f"--kind {given['kind']}, expected 'interactions', or leave it out")
    if duplicates not in DUPLICATES:
        raise InputError(f"--duplicates {duplicates}, expected one of {', '.join(DUPLICATES)}")
    if not Path(source).exists() and source in datasets.names():
        if duplicates != "error":
            raise InputError(f"--duplicates is for files; the data set {source} settles its own")
        if "kind" in given:
            raise InputError(f"--kind is for files; the data set {source} has its own")
        given.pop("duplicates", None)
        given.pop("unlisted", None)
        about = [given.pop(name, None) for name in ("items", "users", "links")]
        features = given.pop("features", False)
        rankings = datasets.load(source, **given)
        rankings = rankings.with_unlisted_last() if unlisted == "last" else rankings
        return with_about(rankings, *about, features=features)
    if not Path(source).exists() and not Path(source).suffix and not set("*?[") & set(source):
        raise UnknownIdError("file or data set", source, datasets.names())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChoiceSetWarning)
        rankings = read(source, **given)
    for warning in caught:
        say(f"warning: {warning.message}", err=True)
    return rankings


def parse_id(text: str, vocabulary: Vocabulary) -> str | int:
    """The id that a word of the command line means: an id as it is written, or a title."""
    if vocabulary.is_integer:
        try:
            return vocabulary[vocabulary.index(int(text))]
        except (ValueError, UnknownIdError):
            if vocabulary.titles is None:
                raise UnknownIdError(vocabulary.kind, text, vocabulary) from None
    return vocabulary[vocabulary.find(text)]


def parse_list(text: str, vocabulary: Vocabulary) -> list[Any]:
    """``a > b = c > d``, or ``a, b, c``, of ids or titles: best first; ``=`` joins ties.

    What is an id or a title as it stands is one, though it may hold a comma or an equals sign.
    """
    levels = text.split(">") if ">" in text else _between_commas(text, vocabulary)
    ranking: list[Any] = []
    seen: set[Any] = set()
    for level in levels:
        parts = [level] if _known(level, vocabulary) else level.split("=")
        if not all(part.strip() for part in parts):
            raise InputError(f"an empty place in the list {text!r}; write it as 'a > b > c', or 'a > b = c' for a tie")
        block = [parse_id(part.strip(), vocabulary) for part in parts]
        for name in block:
            if name in seen:
                raise InputError(f"{name!r} comes twice in the list {text!r}; name every item once")
            seen.add(name)
        ranking.append(block[0] if len(block) == 1 else set(block))
    return ranking


def _between_commas(text: str, vocabulary: Vocabulary) -> list[str]:
    """Parts between commas; as many of them as make an id or a title are one."""
    parts, found = text.split(","), []
    while parts:
        n = next((n for n in range(len(parts), 1, -1) if _known(",".join(parts[:n]), vocabulary)), 1)
        found.append(",".join(parts[:n]))
        parts = parts[n:]
    return found


def _known(text: str, vocabulary: Vocabulary) -> bool:
    if vocabulary.is_integer and vocabulary.titles is None:
        return False
    try:
        parse_id(text.strip(), vocabulary)
    except UnknownIdError:
        return False
    except InputError:  # the title of several
        return True
    return True
