"""`Rankings.with_items` and `Rankings.with_users`: what items are called, and what else is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from permrank.data.attributes import AttributeKind, Attributes, attributes_of
from permrank.data.vocabulary import Vocabulary
from permrank.errors import InputError, shown

if TYPE_CHECKING:
    from permrank.data.rankings import Rankings


def with_items(self: Rankings, frame: object, *, item: str | None = None, title: str | None = None) -> Rankings:
    """The same rankings with titles and attributes of items, beside what is known already.

    They travel with the data and with the models that learn from them: answers have a column ``title``, and
    `Ranker.recommend` takes filters (``where=``).

    Parameters
    ----------
    frame : any Arrow-speaking frame, or a dict of columns
        One row for each item; items without a row, and rows of items that nobody ranked, do no harm. Columns are
        numbers, text, truth values, dates, lists of text; text such as ``Comedy|Drama`` becomes a list. Titles that end
        in a year, such as ``Heat (1995)``, make a column ``year``, unless there is one.
    item, title : str, optional
        Columns of the ids and of the titles; left out, they are recognised (``item``, ``movieId``, ``id`` ...;
        ``title``, ``name`` ...).

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": [7, 8], "bob": [8, 9]})
    >>> films = {"movieId": [7, 8, 9], "title": ["Heat (1995)", "Alien (1979)", "Big (1988)"]}
    >>> rankings.with_items(films).item_attributes.rows()[0]
    (7, 'Heat (1995)', 1995)
    """
    return _with(self, "item", attributes_of(frame, "item", column=item, title=title, like=self.item_ids.ids))


def with_users(self: Rankings, frame: object, *, user: str | None = None, title: str | None = None) -> Rankings:
    """The same rankings with names and attributes of users, beside what is known already.

    Parameters
    ----------
    frame : any Arrow-speaking frame, or a dict of columns
        One row for each user; as for `with_items`.
    user, title : str, optional
        Columns of the ids and of what people are called; left out, they are recognised.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["b"]})
    >>> rankings.with_users({"user": ["ann"], "age": [31]}).user_attributes["age"].to_list()
    [31, None]
    """
    if self.anonymous:
        raise InputError("these are ballots without voters, of whom nothing can be known; leave the users out")
    return _with(self, "user", attributes_of(frame, "user", column=user, title=title, like=self.user_ids.ids))


def _with(rankings: Rankings, kind: AttributeKind, attributes: Attributes) -> Rankings:
    vocabulary = rankings.item_ids if kind == "item" else rankings.user_ids
    given = attributes.frame[kind]
    if len(vocabulary) and not given.is_in(vocabulary.ids.implode()).any():
        raise InputError(
            f"no {kind} of the rankings is in the frame of {kind}s: it has for example {shown(given.first())}, and the "
            f"rankings {shown(vocabulary[0])}; call the column that has the same ids {kind!r}"
        )
    return attached(rankings, **{f"{kind}s": attributes})


def attached(rankings: Rankings, *, items: Attributes | None = None, users: Attributes | None = None) -> Rankings:
    """The same rankings, with attributes that have been checked."""
    named: dict[str, Vocabulary] = {
        "user_ids": rankings.user_ids.with_attributes(users),
        "item_ids": rankings.item_ids.with_attributes(items),
    }
    return type(rankings)._trusted(
        rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights,
        **named, **rankings._attached(),
    )  # fmt: skip
