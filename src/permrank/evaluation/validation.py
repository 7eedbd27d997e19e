"""`Validation`: held-out rankings by which `fit` judges its estimates while it learns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from permrank.checks import require_int
from permrank.core.ranker import Ranker
from permrank.errors import InputError
from permrank.evaluation.defaults import default_metrics
from permrank.evaluation.evaluate import evaluate
from permrank.evaluation.metrics import Metric, find_metric
from permrank.evaluation.scoring import indices_in
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import keep_entries
from permrank.rankings.validate import require_rankings
from permrank.types import Int64Array

# The k of a metric of the top k that does not say it.
_USUAL_K = 10
_REMEDY = "hold out a part of the training ballots (permrank.hold_out), or validate by log_likelihood"


@dataclass(frozen=True, eq=False)
class Validation:
    """Held-out rankings by which `fit` measures the estimate every few sweeps, and by which it may stop.

    After `fit` the model's ``validation_`` has the curve (sweep, score) and ``best_iter_`` the sweep with the best
    score. Measuring changes nothing of what is learnt. What belongs to users or items that are not in the training
    data is left out, with a warning.

    Parameters
    ----------
    held : Rankings
        None of their entries may be in the training data, unless users have several rankings. Ballots without voters
        are known by their numbers, so that they should be a part of the training ballots, as `hold_out` gives it; for
        the likelihood it may be any.
    metric : str or Metric, optional
        A name of docs/metrics.md, with ``@k`` for those of the top k, as in ``"ndcg@10"``, or a metric of your own;
        what fits the data if not given. Of a metric of which lower is better, the score is its negative.
    every : int
        Sweeps from one measurement to the next.
    patience : int, optional
        Stop when so many measurements in a row were no better than the best before them, and keep the best estimate
        that was measured. Without it learning goes on to its end, and the last estimate is kept.

    Examples
    --------
    >>> import permrank as pr
    >>> train, held = pr.hold_out(pr.datasets.load("simulated", n_users=200, n_items=20), 0.3)
    >>> model = pr.FactoredPlackettLuce(4, method="point", user_penalty=0.01, item_penalty=0.01)
    >>> model = model.fit(train, validation=pr.Validation(held, metric="pairs_right", every=2, patience=3))
    >>> model.best_iter_ < model.n_iter_
    True
    >>> int(model.validation_[model.validation_[:, 1].argmax(), 0]) == model.best_iter_
    True
    """

    held: Rankings
    metric: str | Metric | None = None
    every: int = 5
    patience: int | None = None

    def __post_init__(self) -> None:
        if require_rankings(self.held).n_entries == 0:
            raise InputError("there is nothing to validate by: no held-out ranking has an item")
        require_int("every", self.every, 1)
        if self.patience is not None:
            require_int("patience", self.patience, 1)
        _ = self._parsed

    @property
    def _parsed(self) -> tuple[Metric, int]:
        """Metric and k."""
        given = default_metrics(self.held, ordered=True)[0] if self.metric is None else self.metric
        if not isinstance(given, (str, Metric)):
            raise InputError(f"metric={given!r}, expected the name of a metric, for example 'ndcg@10'")
        name, at, k = given.partition("@") if isinstance(given, str) else (given, "", "")
        metric = find_metric(name)
        if not metric.is_per_list:
            raise InputError(f"{metric.name} is of all people together; validate by log_likelihood or by an order")
        if at and (not metric.top_k or not k.isdecimal() or int(k) < 1):
            allowed = "a whole number from 1 after the @" if metric.top_k else "no @ for it"
            raise InputError(f"metric={given!r}, expected {allowed}")
        return metric, int(k) if at else _USUAL_K

    @property
    def name(self) -> str:
        """The metric as it is written."""
        metric, k = self._parsed
        return f"{metric.name}@{k}" if metric.top_k else metric.name

    @property
    def work(self) -> str:
        """Everything that the scores, and the end of learning, depend on."""
        own = self._parsed[0].identity
        return f"{self.name}{own} of {self.held.fingerprint}, every={self.every}, patience={self.patience}"

    def judge(self, training: Rankings) -> Callable[[Ranker], float]:
        """Score of a model that was fitted to these data, higher is better."""
        metric, k = self._parsed
        held = self._known(training, by_user=metric.kind != "likelihood")

        def score(model: Ranker) -> float:
            found = evaluate(model, held, metrics=[metric], k=k).means()[metric.name]
            if np.isnan(found):
                raise InputError(
                    f"nobody in the validation data has {metric.name}; hold out more, or take another metric"
                )
            if np.isinf(found):
                raise InputError(
                    f"the mean {metric.name} of the validation data is {found}: the estimate holds something there "
                    "to be impossible; use a prior, or take a metric of the order, for example pairs_right"
                )
            return metric.sign * found

        return score

    def _known(self, training: Rankings, *, by_user: bool) -> Rankings:
        """What can be asked: items that are known, of users who are."""
        held = self.held
        if by_user:
            _require_the_same_people(held, training)
        if by_user or not held.anonymous:
            _require_held_out(held, training)
        known = (indices_in(held.item_ids, training.item_ids) >= 0)[held.items]
        if by_user:
            known &= (indices_in(held.user_ids, training.user_ids) >= 0)[held.entry_users()]
        strange = int(held.n_entries - known.sum())
        if not known.any():
            raise InputError(
                f"none of the {held.n_entries} validation entries is of users and items of the training data; hold out "
                "a part of the same rankings"
            )
        if strange:
            warnings.warn(
                f"{strange} of {held.n_entries} validation entries are of users or items that are not in the training "
                "data, and are left out",
                UserWarning,
                stacklevel=6,
            )
        return keep_entries(held, known) if strange else held


def _require_the_same_people(held: Rankings, training: Rankings) -> None:
    """Raise if ballots that have nothing to do with each other would be matched by their numbers."""
    if held.anonymous != training.anonymous:
        without = "validation" if held.anonymous else "training"
        raise InputError(f"the {without} data are ballots without voters, which no user can be known by; {_REMEDY}")


def _require_held_out(held: Rankings, training: Rankings) -> None:
    """Raise if an entry is learnt from as well; an item may be in several rankings of one user."""
    if any(np.diff(part.user_indptr).max(initial=0) > 1 for part in (held, training)):
        return
    keys = [_entries(part, training) for part in (held, training)]
    twice = np.flatnonzero(np.isin(keys[0], keys[1]) & (keys[0] >= 0))
    if twice.size:
        user, item = divmod(int(keys[0][twice[0]]), training.n_items)
        who = f"{'ballot' if held.anonymous else 'user'} {training.user_ids[user]!r}"
        others = f"these are other ballots with the same numbers; {_REMEDY}"
        learnt = "the score would be of what was learnt; hold out a part of the rankings (permrank.hold_out)"
        raise InputError(
            f"{who} has item {training.item_ids[item]!r} in the training data and in the validation data: "
            f"{others if held.anonymous else learnt}"
        )


def _entries(part: Rankings, known: Rankings) -> Int64Array:
    """A number for every entry, the same for the same ids of user and item; -1 if one of them is not known."""
    user = indices_in(part.user_ids, known.user_ids)[part.entry_users()]
    item = indices_in(part.item_ids, known.item_ids)[part.items]
    return np.asarray(np.where((user >= 0) & (item >= 0), user.astype(np.int64) * known.n_items + item, -1))
