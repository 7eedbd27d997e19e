"""What is known of users when Thurstone's model answers: what they said, their features, where their chains stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.errors import InputError
from permrank.families.thurstone.estimate import Chains, Said, ThurstoneEstimate
from permrank.posterior.known import Known
from permrank.posterior.problem import one_user
from permrank.rankings.selection import restrict
from permrank.types import Float64Array, Int64Array, Named


def features_of(fitted: Fitted[ThurstoneEstimate], users: Int64Array) -> Float64Array | None:
    """Features of users of the training data, if the model has learnt from them."""
    return Known.of(fitted.rankings).users[users] if fitted.estimate.n_user_features else None


def features_of_new(fitted: Fitted[ThurstoneEstimate], about: Named) -> Named:
    """Features of somebody new, as a part of the state, if any are told."""
    if "friends" in about:
        raise InputError(f"{fitted.name} does not learn from friends of users; fold in without")
    if "features" not in about:
        return {}
    encoder = fitted.rankings.features("user")
    if encoder is None or not fitted.estimate.n_user_features:
        raise InputError("the model has learnt from no features of users; fit it to rankings.with_features(users=)")
    return {"features": encoder.of_row(about["features"])[None]}


def said_by_users(fitted: Fitted[ThurstoneEstimate], users: Int64Array) -> Said:
    """What some users of the training data say, in ascending order of their indices."""
    kept = np.zeros(fitted.rankings.n_users, bool)
    kept[users] = True
    rankings = restrict(fitted.rankings, kept, np.ones(fitted.rankings.n_items, bool))
    return Said(rankings, rankings.items, features_of(fitted, users))


def said_by_person(fitted: Fitted[ThurstoneEstimate], person: Person) -> Said:
    """What one person says, known or new."""
    if person.rankings is not None:
        return Said(person.rankings, fitted.aligned(person.rankings), person.state.get("features"))
    index = person.index or 0
    rankings = one_user(fitted.rankings, index)
    return Said(rankings, fitted.aligned(rankings), features_of(fitted, np.array([index])))


def state_of(estimate: ThurstoneEstimate, said: Said) -> dict[str, Any]:
    """Where the chains of somebody new stand, and what follows for scores."""
    chains, items = estimate.chains(said)
    own = {"means": chains.means[:, 0], "components": chains.components[:, 0]}
    slots = {"utilities": chains.x, "residuals": chains.residuals.mean(axis=0), "slot_items": items}
    return {name: np.asarray(array, np.float64) for name, array in (own | slots).items()}


def chains_of(fitted: Fitted[ThurstoneEstimate], person: Person, said: Said) -> Chains:
    """Where the chains of one person stand."""
    estimate, index = fitted.estimate, person.index
    if index is None:
        state = person.state
    elif len(estimate.utilities):
        slots = slice(*estimate.slot_indptr[index : index + 2].tolist())
        state = {"utilities": estimate.utilities[:, slots], "components": estimate.user_components[:, index]}
    else:
        state = state_of(estimate, said)
    return Chains.at(state["utilities"], state["components"][:, None], estimate.n_columns)
