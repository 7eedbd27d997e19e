"""Side information of items and users: titles, attributes, features and links."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from permrank.checks import require_int
from permrank.errors import InputError, UnknownIdError, shown
from permrank.rankings.attributes import AttributeKind, Attributes, attributes_of
from permrank.rankings.features import Features
from permrank.rankings.links import Links, links_of, links_of_groups, links_of_similar
from permrank.rankings.selection import with_catalogue
from permrank.rankings.vocabulary import Vocabulary

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings


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
    vocabulary = rankings._ids_of(kind)
    given = attributes.frame[kind]
    if len(vocabulary) and not given.is_in(vocabulary.ids.implode()).any():
        raise InputError(
            f"no {kind} of the rankings is in the frame of {kind}s: it has for example {shown(given.first())}, and the "
            f"rankings {shown(vocabulary[0])}; call the column that has the same ids {kind!r}"
        )
    return attached(rankings, **{f"{kind}s": attributes})


def attached(rankings: Rankings, *, items: Attributes | None = None, users: Attributes | None = None) -> Rankings:
    """The same rankings, with attributes that have been checked."""
    user_ids, item_ids = rankings.user_ids.with_attributes(users), rankings.item_ids.with_attributes(items)
    return rankings._with(user_ids=user_ids, item_ids=item_ids)


# What models learn from

KINDS = ("features of items", "features of users", "links")
"""What may be learnt from beside rankings."""

Chosen: TypeAlias = object
"""A frame, names of columns that are known, None for all that are known, or False for none."""


def with_features(self: Rankings, items: Chosen = None, users: Chosen = None) -> Rankings:
    """The same rankings, with attributes of items and users that models learn from.

    Titles and attributes that came with the data (`with_items`, `with_users`, `permrank.read`) are for people until
    this says that they are features; nothing is given twice. Ids that are in the frames alone are cold-start items and
    users: models that learn from features know them, though nobody has ranked them. See docs/features.md for what each
    column becomes.

    Parameters
    ----------
    items, users : frame, sequence of str, None or False
        A frame is added to what is known, and all of it is learnt from; names choose among the columns that are known;
        None takes all of them, and False none.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["c", "a"]})
    >>> dishes = {"item": list("abcd"), "heat": [0.1, 0.5, 0.9, 0.3], "fish": [True, False, True, False]}
    >>> rankings.with_features(items=dishes).features("item").names
    ['heat', 'fish']
    """
    of_kind: dict[str, Attributes | None] = {}
    nothing_known = []
    kinds: tuple[tuple[AttributeKind, Chosen], ...] = (("item", items), ("user", users))
    for kind, given in kinds:
        rankings = self
        chosen: list[str] | None = None
        if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
            chosen = list(given)
        elif given is not None and given is not False:
            rankings = with_items(self, given) if kind == "item" else with_users(self, given)
        attributes = rankings._ids_of(kind).attributes
        columns = [] if attributes is None else attributes.frame.columns[1:]
        for name in chosen or ():
            if name not in columns:
                raise UnknownIdError(f"attribute of {kind}s", name, columns)
        if attributes is None or given is False or not columns:
            nothing_known.append(kind)
            of_kind[f"{kind}s"] = attributes if attributes is None else replace(attributes, features=None)
        else:
            of_kind[f"{kind}s"] = replace(attributes, features=tuple(columns if chosen is None else chosen))
    if len(nothing_known) == len(of_kind) and items is not False and users is not False:
        raise InputError("nothing is known of items or users; pass a frame: with_features(items=, users=)")
    return _replaced(self, of_kind["items"], of_kind["users"])


def with_links(
    self: Rankings,
    frame: object = None,
    *,
    user: str | None = None,
    friend: str | None = None,
    weight: str | None = None,
    groups: str | None = None,
    similar: int | None = None,
) -> Rankings:
    """The same rankings, with links between users that models learn from: friends, trust, the same class.

    Parameters
    ----------
    frame : any Arrow-speaking frame, dict of columns, or False, optional
        One row for each link; a friendship may be given once or in both directions. Left out, the links that came
        with the data are learnt from; with False they are not.
    user, friend, weight : str, optional
        Columns of who is linked, with whom, and how strongly (above 0; 1 if there is none). Left out, they are
        recognised.
    groups : str, optional
        An attribute of users instead of a frame: all who have the same value are linked.
    similar : int, optional
        A number instead of a frame: everybody is linked with so many users whose attributes are nearest, those that
        models learn from (`with_features`), or all. See docs/features.md.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["b", "a"], "cat": ["a"]})
    >>> friends = {"user": ["ann", "bob"], "friend": ["bob", "cat"]}
    >>> rankings.with_links(friends).links
    shape: (2, 3)
    ┌──────┬────────┬────────┐
    │ user ┆ friend ┆ weight │
    │ ---  ┆ ---    ┆ ---    │
    │ str  ┆ str    ┆ f64    │
    ╞══════╪════════╪════════╡
    │ ann  ┆ bob    ┆ 1.0    │
    │ bob  ┆ cat    ┆ 1.0    │
    └──────┴────────┴────────┘
    >>> people = {"user": ["ann", "bob", "cat"], "age": [20, 21, 60]}
    >>> rankings.with_users(people).with_links(similar=1).links.select("user", "friend").rows()
    [('ann', 'bob'), ('bob', 'ann'), ('cat', 'bob')]
    """
    if self.anonymous:
        raise InputError("these are ballots without voters, who cannot be linked; leave the links out")
    own = self.user_ids.attributes
    if sum(each is not None for each in (frame, groups, similar)) > 1:
        raise InputError("give a frame of links, groups= or similar=, one of them")
    if similar is not None:
        require_int("similar", similar, 1)
        if own is None or own.frame.width < 2:
            raise InputError("nothing is known of users by which they could be similar; add it by with_users(frame)")
        given: Links | None = links_of_similar(own, int(similar))
    elif groups is not None:
        columns = [] if own is None else own.frame.columns[1:]
        if own is None or groups not in columns:
            raise UnknownIdError("attribute of users", groups, columns)
        given = links_of_groups(own.frame["user"], own.frame[groups])
    elif frame is None or frame is False:
        given = None if own is None else own.links
        if given is None and frame is None:
            raise InputError("no links came with these rankings; pass a frame: with_links(frame)")
        given = None if given is None else Links(given.frame, frame is None)
    else:
        given = links_of(frame, user=user, friend=friend, weight=weight, like=self.user_ids.ids)
    return attached_links(self, given)


def attached_links(rankings: Rankings, links: Links | None) -> Rankings:
    """The same rankings with these links instead of others."""
    ids = rankings.user_ids.ids
    attributes = rankings.user_ids.attributes or Attributes(pl.DataFrame({"user": ids[:0]}), None)
    return _replaced(rankings, rankings.item_ids.attributes, replace(attributes, links=links))


def _replaced(rankings: Rankings, items: Attributes | None, users: Attributes | None) -> Rankings:
    return rankings._with(
        user_ids=Vocabulary(rankings.user_ids.ids, "user", users),
        item_ids=Vocabulary(rankings.item_ids.ids, "item", items),
    )


def features(self: Rankings, kind: AttributeKind) -> Features | None:
    """What models learn from, of ``"item"`` or ``"user"``: how each attribute is encoded; None if nothing is."""
    return Features.learnt_from(self._ids_of(kind).attributes)


def links(self: Rankings) -> pl.DataFrame | None:
    """Who is linked with whom, by id: ``user``, ``friend``, ``weight``; None without links."""
    attributes = self.user_ids.attributes
    return None if attributes is None or attributes.links is None else attributes.links.frame


def to_learn_from(rankings: Rankings) -> tuple[str, ...]:
    """Which of `KINDS` models learn from in these rankings; nothing is computed."""
    items, users = rankings.item_ids.attributes, rankings.user_ids.attributes
    learnt = (
        items is not None and bool(items.features),
        users is not None and bool(users.features),
        users is not None and users.links is not None and users.links.learnt,
    )
    return tuple(kind for kind, there in zip(KINDS, learnt, strict=True) if there)


def with_featured(rankings: Rankings) -> Rankings:
    """The same rankings over more ids: those of which features, or links, are known though they rank nothing."""
    extra: dict[str, pl.Series | None] = {}
    for ids in (rankings.user_ids, rankings.item_ids):
        attributes = ids.attributes
        parts = []
        features = Features.learnt_from(attributes)
        if features is not None and features.columns:
            parts.append(features.attributes.frame[ids.kind])
        if attributes is not None and attributes.links is not None and attributes.links.learnt:
            parts += [attributes.links.frame["user"], attributes.links.frame["friend"].rename("user")]
        some = pl.concat(parts).unique() if parts else None
        extra[ids.kind] = None if some is None else some.filter(~some.is_in(ids.ids.implode()))
    if all(some is None or not len(some) for some in extra.values()):
        return rankings
    return with_catalogue(rankings, extra["user"], extra["item"])
