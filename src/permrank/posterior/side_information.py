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
from permrank.posterior.co_listing import user_coordinates
from permrank.posterior.estimate import DrawsEstimate, Evidence
from permrank.posterior.known import Known
from permrank.posterior.links import UserGraph, linked_with, weights_of_new
from permrank.posterior.problem import one_user
from permrank.ragged import frozen
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import restrict
from permrank.types import Float64Array, Int64Array


def evidence_of(fitted: Fitted[Any], person: Person) -> Evidence:
    """What is known of a person: rankings, features and friends."""
    if person.rankings is not None:
        known = (person.state.get(name) for name in ("features", "pull"))
        return Evidence(person.rankings, fitted.aligned(person.rankings), *known)
    index = person.index or 0
    rankings = one_user(fitted.rankings, index)
    return _of_training(fitted, np.array([index]), Evidence(rankings, rankings.items))


def evidence_of_users(fitted: Fitted[Any], users: Int64Array) -> Evidence:
    """The same of users of the training data, in ascending order of their indices."""
    kept = np.zeros(fitted.rankings.n_users, bool)
    kept[users] = True
    rankings = restrict(fitted.rankings, kept, np.ones(fitted.rankings.n_items, bool))
    return _of_training(fitted, users, Evidence(rankings, rankings.items))


def evidence_of_new(
    fitted: Fitted[Any],
    rankings: Rankings,
    features: Mapping[str, Any] | None = None,
    friends: Iterable[object] | Mapping[Any, float] | None = None,
) -> Evidence:
    """What is known of somebody new."""
    evidence = Evidence(rankings, fitted.aligned(rankings))
    if features is not None:
        encoder = fitted.rankings.features("user")
        if encoder is None or not fitted.estimate.n_user_features:
            raise InputError("the model has learnt from no features of users; fit it to rankings.with_features(users=)")
        evidence = evidence._replace(features=encoder.of_row(features)[None])
    if friends is not None:
        graph = _graph_of(fitted)
        if graph is None:
            raise InputError("the model has learnt from no links; fit it to rankings.with_links(frame)")
        who, weights = linked_with(friends, fitted.user_ids)
        if who.size:
            pull = _pull(fitted, graph, who, weights_of_new(graph, who, weights))
            evidence = evidence._replace(pull=pull[:, None])
    return evidence


def modes_of_many(estimate: DrawsEstimate, users: Int64Array) -> Float64Array:
    """About the modes of users of the training data under every draw: (n_kept, n_users, n_columns)."""
    factors = estimate.users_in_mean()[users].astype(np.float64)
    return np.stack([estimate.near_modes(each) for each in factors], axis=1)


def _graph_of(fitted: Fitted[Any]) -> UserGraph | None:
    """Links that the model has learnt from."""
    return Known.of(fitted.rankings).graph if np.size(fitted.estimate.link_strength) else None


def _of_training(fitted: Fitted[Any], users: Int64Array, evidence: Evidence) -> Evidence:
    """With features and friends of users of the training data, where the model has learnt from such."""
    if fitted.estimate.n_user_features:
        evidence = evidence._replace(features=Known.of(fitted.rankings).users[users])
    graph = _graph_of(fitted)
    if graph is None or not graph.linked[users].any():
        return evidence
    pull = np.zeros((len(fitted.estimate.item_draws), users.size, fitted.estimate.n_columns + 1))
    pull[..., -1] = 1.0
    for number in np.flatnonzero(graph.linked[users]):
        pull[:, number] = _pull(fitted, graph, *graph.friends_of(int(users[number])))
    return evidence._replace(pull=pull)


def _coordinates(fitted: Fitted[Any]) -> Float64Array:
    """What the prior means of known users depend on: (n_users, n_dimensions + n_features)."""
    data, table = fitted.rankings, np.asarray(fitted.estimate.co_listing, np.float64)
    listed = user_coordinates(table, *frozen(data.user_bounds, data.items))
    return np.hstack((listed, Known.of(data).users))


def _pull(fitted: Fitted[Any], graph: UserGraph, friends: Int64Array, weights: Float64Array) -> Float64Array:
    """What friends say under every draw: τ Σ_v a_v (W_v - mean_v) / (1 + τ Σ a), and s (1 + τ Σ a)."""
    estimate = fitted.estimate
    coordinates = fitted.derived("user_coordinates", lambda: _coordinates(fitted))
    tau = float(np.mean(estimate.link_strength))
    strength = 1.0 + tau * float(weights.sum())
    slopes = np.asarray(estimate.user_slopes, np.float64)
    away = modes_of_many(estimate, friends) - np.einsum("uj,djk->duk", coordinates[friends], slopes)
    mean = tau * np.einsum("u,duk->dk", weights, away) / strength
    return np.column_stack((mean, np.full(len(mean), float(graph.scale(tau)) * strength)))


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
