"""What the factored model makes of features and links when it answers: known users, new users, and effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from permrank.checks import require_between
from permrank.data.rankings import Rankings
from permrank.errors import InputError
from permrank.models.factored.estimate import FactoredEstimate, Said
from permrank.models.priors.co_listing import user_coordinates
from permrank.models.priors.known import Known
from permrank.models.priors.links import linked_with, weights_of_new
from permrank.models.users import NewUser, new_user
from permrank.ragged import frozen
from permrank.types import Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.models.factored.model import FactoredPlackettLuce
    from permrank.models.ranker import Ranker


class Acquaintance(NamedTuple):
    """Features and links of the users of a fitted model, and all that their prior means depend on.

    Attributes
    ----------
    known : Known
    coordinates : float64 (n_users, n_dimensions + n_features)
    """

    known: Known
    coordinates: Float64Array

    @classmethod
    def of(cls, estimate: FactoredEstimate, rankings: Rankings) -> Acquaintance:
        """Made once for each set of rankings that a model keeps."""
        found = rankings.__dict__.get("_acquaintance")
        if found is None or found[0] is not estimate:
            known = Known.of(rankings)
            table = np.asarray(estimate.co_listing, np.float64)
            listed = user_coordinates(table, *frozen(rankings.user_bounds, rankings.items))
            found = rankings.__dict__["_acquaintance"] = (estimate, cls(known, np.hstack((listed, known.users))))
        made: Acquaintance = found[1]
        return made


def said_by(model: FactoredPlackettLuce, rankings: Rankings, user: int | None) -> Said:
    """What is known of one user: the rankings, and of a user of the training data features and friends."""
    said = Said(rankings, model._aligned_items(rankings))
    if user is None or model.method == "point":
        return said
    about = Acquaintance.of(model.estimate_, model.rankings_)
    if about.known.users.shape[1]:
        said = said._replace(features=about.known.users[user : user + 1])
    if about.known.graph is not None:
        said = said._replace(pull=_pull(model, about, *about.known.graph.friends_of(user)))
    return said


def said_by_new(
    model: FactoredPlackettLuce,
    rankings: Rankings,
    features: Mapping[str, Any] | None,
    friends: Iterable[object] | Mapping[Any, float] | None,
) -> Said:
    """What is known of somebody new."""
    said = Said(rankings, model._aligned_items(rankings))
    if features is not None:
        encoder = model.rankings_.features("user")
        if encoder is None or not model.estimate_.n_user_features:
            raise InputError("the model has learnt from no features of users; fit it to rankings.with_features(users=)")
        said = said._replace(features=encoder.of_row(features)[None])
    if friends is not None:
        about = Acquaintance.of(model.estimate_, model.rankings_)
        if about.known.graph is None or not np.size(model.estimate_.link_strength):
            raise InputError("the model has learnt from no links; fit it to rankings.with_links(frame)")
        who, weights = linked_with(friends, model.user_ids)
        if who.size:
            scaled = weights_of_new(about.known.graph, who, weights)
            said = said._replace(pull=_pull(model, about, who, scaled))
    return said


def modes_of_many(estimate: FactoredEstimate, users: Int64Array) -> Float64Array:
    """About the modes of users of the training data under every draw: (n_kept, n_users, n_columns)."""
    factors = estimate.user_factors[users].astype(np.float64)
    return np.stack([estimate.near_modes(each) for each in factors], axis=1)


def _pull(model: FactoredPlackettLuce, about: Acquaintance, friends: Int64Array, weights: Float64Array) -> Float64Array:
    """What friends say under every draw: τ Σ_v a_v (W_v - mean_v) / (1 + τ Σ a), and s (1 + τ Σ a)."""
    estimate = model.estimate_
    tau = float(np.mean(estimate.link_strength)) if np.size(estimate.link_strength) else 0.0
    strength = 1.0 + tau * float(weights.sum())
    slopes = np.asarray(estimate.user_slopes, np.float64)
    away = modes_of_many(estimate, friends) - np.einsum("uj,djk->duk", about.coordinates[friends], slopes)
    mean = tau * np.einsum("u,duk->dk", weights, away) / strength
    scale = 1.0 if about.known.graph is None or not weights.size else float(about.known.graph.scale(tau))
    return np.column_stack((mean, np.full(len(mean), scale * strength)))


def fold_in(
    self: FactoredPlackettLuce,
    said: object,
    *,
    features: Mapping[str, Any] | None = None,
    friends: Iterable[object] | Mapping[Any, float] | None = None,
) -> NewUser:
    """Make a new user from a list, or from a dict of item to rating: the items stay as they are.

    Parameters
    ----------
    said : list or dict
        Empty for somebody who has said nothing.
    features : dict, optional
        Attributes of the user, where the model has learnt from such features.
    friends : ids of users, or dict of id to weight, optional
        Users of the training data with whom the user is linked, where the model has learnt from links.
    """
    self._require_fitted()
    made = new_user(said, self.rankings_)
    about = said_by_new(self, made.rankings, features, friends)
    modes = np.asarray(self._law.fold_in(self.estimate_, about))
    state = {"modes": modes[0], "factors": self.estimate_.mean_factors(modes)[0]}
    known = {"features": about.features, "pull": about.pull}
    return NewUser(made.rankings, state | {name: part for name, part in known.items() if part is not None})


def warm_items(self: FactoredPlackettLuce) -> Int64Array:
    """Items that the model knows by their features alone."""
    if self.method == "point" or self.rankings_.features("item") is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.bincount(self.rankings_.items, minlength=self.rankings_.n_items) == 0)


def effects(self: Ranker, level: float = 0.9) -> pl.DataFrame:
    """What features and links are worth, with intervals.

    Parameters
    ----------
    level : float
        Probability with which an effect lies between ``low`` and ``high``.

    Returns
    -------
    polars.DataFrame
        Columns ``of``, ``item_feature``, ``user_feature``, ``mean``, ``deviation``, ``low``, ``high``. Rows ``score``
        are what a feature of an item adds to its score: for everybody, or, with a feature of a user, for those who have
        it beyond that. Of `FactoredPlackettLuce` they are log-odds as the likelihood has them, before the weights under
        which held-out pairs come true; of `FactoredThurstone` they are in deviations of the noise. Numbers count by
        standard deviations, categories against not having them. Rows ``share`` are the parts of the variance of
        personal scores that an attribute explains, and the row ``links`` is
        τ, which is 0 if friends have nothing in common.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> sizes = {"item": rankings.item_ids.ids, "size": [float(n % 5) for n in range(20)]}
    >>> model = pr.FactoredPlackettLuce(n_factors=2, max_iter=30).fit(rankings.with_features(items=sizes))
    >>> model.effects().select("of", "item_feature").rows()
    [('score', 'size'), ('share', 'size')]
    """
    self._require_fitted()
    require_between("level", level, 0.0, 1.0)
    estimate: Any = self.estimate_
    items, users = self.rankings_.features("item"), self.rankings_.features("user")
    item_names = items.names if items is not None else []
    user_names = users.names if users is not None else []
    rows: list[tuple[str, str | None, str | None, Float64Array]] = []
    if np.ndim(estimate.item_effects) == 2:
        rows += [("score", name, None, draws) for name, draws in zip(item_names, estimate.item_effects.T, strict=True)]
        for user, of_user in zip(user_names, np.moveaxis(estimate.pair_effects, 0, -1), strict=True):
            rows += [("score", item, user, draws) for item, draws in zip(item_names, of_user, strict=True)]
        for features, shares in ((items, estimate.item_shares), (users, estimate.user_shares)):
            attributes = [] if features is None else dict.fromkeys(column.attribute for column in features.columns)
            for name, draws in zip(attributes, shares.T, strict=True):
                rows.append(("share", *((name, None) if features is items else (None, name)), draws))
        if Known.of(self.rankings_).graph is not None:
            rows.append(("links", None, None, estimate.link_strength))
    ends = ((1.0 - level) / 2.0, (1.0 + level) / 2.0)
    # By Weibull's rule: 1 / (n + 1) of the posterior lies between one of n draws and the next. The usual quantiles of
    # sixteen draws are a sixth too near.
    told = [
        (of, item, user, float(np.mean(d)), float(np.std(d)), *np.quantile(d, ends, method="weibull").tolist())
        for of, item, user, draws in rows
        for d in (np.asarray(draws, np.float64),)
    ]
    words: dict[str, Any] = dict.fromkeys(("of", "item_feature", "user_feature"), pl.String)
    numbers: dict[str, Any] = dict.fromkeys(("mean", "deviation", "low", "high"), pl.Float64)
    return pl.DataFrame(told, schema=words | numbers, orient="row")
