"""Side information (features, links) in answers: what is known of a person beside lists, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from permrank.checks import require_between
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.errors import InputError
from permrank.families.factored.estimate import FactoredEstimate, Said
from permrank.posterior.co_listing import user_coordinates
from permrank.posterior.known import Known
from permrank.posterior.links import linked_with, weights_of_new
from permrank.posterior.problem import one_user
from permrank.ragged import frozen
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array


def said_by(fitted: Fitted[FactoredEstimate], person: Person) -> Said:
    """What is known of a person: rankings, features and friends."""
    if person.rankings is not None:
        known = (person.state.get(name) for name in ("features", "pull"))
        return Said(person.rankings, fitted.aligned(person.rankings), *known)
    index, about = person.index or 0, Known.of(fitted.rankings)
    rankings = one_user(fitted.rankings, index)
    said = Said(rankings, rankings.items)
    if about.users.shape[1]:
        said = said._replace(features=about.users[index : index + 1])
    return _linked(fitted, said, *about.graph.friends_of(index)) if about.graph is not None else said


def said_by_new(
    fitted: Fitted[FactoredEstimate],
    rankings: Rankings,
    features: Mapping[str, Any] | None = None,
    friends: Iterable[object] | Mapping[Any, float] | None = None,
) -> Said:
    """What is known of somebody new."""
    said = Said(rankings, fitted.aligned(rankings))
    if features is not None:
        encoder = fitted.rankings.features("user")
        if encoder is None or not fitted.estimate.n_user_features:
            raise InputError("the model has learnt from no features of users; fit it to rankings.with_features(users=)")
        said = said._replace(features=encoder.of_row(features)[None])
    if friends is not None:
        graph = Known.of(fitted.rankings).graph
        if graph is None or not np.size(fitted.estimate.link_strength):
            raise InputError("the model has learnt from no links; fit it to rankings.with_links(frame)")
        who, weights = linked_with(friends, fitted.user_ids)
        said = _linked(fitted, said, who, weights_of_new(graph, who, weights))
    return said


def factors_of(fitted: Fitted[FactoredEstimate], person: Person) -> Float64Array:
    """Of a person in the mean scores."""
    if person.index is None:
        return person.state["factors"]  # type: ignore[no-any-return]
    return np.asarray(fitted.estimate.user_factors[person.index], dtype=np.float64)


def near_modes(fitted: Fitted[FactoredEstimate], person: Person) -> Float64Array:
    """Of a person under every draw: where Newton's method finds the mode in a step or two."""
    if person.index is None:
        return person.state["modes"]  # type: ignore[no-any-return]
    return fitted.estimate.near_modes(factors_of(fitted, person))


def modes_of_many(estimate: FactoredEstimate, users: Int64Array) -> Float64Array:
    """About the modes of users of the training data under every draw: (n_kept, n_users, n_columns)."""
    factors = estimate.user_factors[users].astype(np.float64)
    return np.stack([estimate.near_modes(each) for each in factors], axis=1)


def _coordinates(fitted: Fitted[FactoredEstimate]) -> Float64Array:
    """What the prior means of known users depend on: (n_users, n_dimensions + n_features)."""
    data, table = fitted.rankings, np.asarray(fitted.estimate.co_listing, np.float64)
    listed = user_coordinates(table, *frozen(data.user_bounds, data.items))
    return np.hstack((listed, Known.of(data).users))


def _linked(fitted: Fitted[FactoredEstimate], said: Said, friends: Int64Array, weights: Float64Array) -> Said:
    """With what friends say under every draw: τ Σ_v a_v (W_v - mean_v) / (1 + τ Σ a), and s (1 + τ Σ a)."""
    estimate, graph = fitted.estimate, Known.of(fitted.rankings).graph
    if graph is None or not friends.size:
        return said
    coordinates = fitted.derived("user_coordinates", lambda: _coordinates(fitted))
    tau = float(np.mean(estimate.link_strength)) if np.size(estimate.link_strength) else 0.0
    strength = 1.0 + tau * float(weights.sum())
    slopes = np.asarray(estimate.user_slopes, np.float64)
    away = modes_of_many(estimate, friends) - np.einsum("uj,djk->duk", coordinates[friends], slopes)
    mean = tau * np.einsum("u,duk->dk", weights, away) / strength
    return said._replace(pull=np.column_stack((mean, np.full(len(mean), float(graph.scale(tau)) * strength))))


def effects(fitted: Fitted[Any], level: float = 0.9) -> pl.DataFrame:
    """What features and links are worth, with intervals: see `FactoredPlackettLuce.effects`."""
    require_between("level", level, 0.0, 1.0)
    estimate, data = fitted.estimate, fitted.rankings
    items, users = data.features("item"), data.features("user")
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
        if Known.of(data).graph is not None:
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
