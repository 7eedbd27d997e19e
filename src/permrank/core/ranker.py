"""What every model offers and each must supply; models of Plackett-Luce rankings, and of one order for everybody."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, dataclass_transform

import numpy as np

from permrank.core import answers
from permrank.core.distribution import RankingDistribution
from permrank.core.estimates import Estimate, Learnt
from permrank.core.explanation import Reasons
from permrank.core.fitted import Fitted
from permrank.core.fitting import Job, learnt_by, require_evidence, require_resumable
from permrank.core.luce import LuceMixture
from permrank.core.person import Person
from permrank.core.questions import Questions
from permrank.core.settings import checked, choice, flag, integer, number, random_seed
from permrank.errors import InputError
from permrank.learning.engines import EngineChoice, require_engine, working_by
from permrank.learning.learner import Learner, at_once
from permrank.processes import refuse_unsafe_threads
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.rankings.with_attributes import KINDS
from permrank.types import Array, Callback, Float64Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint
    from permrank.learning.hooks import ValidationProtocol


@dataclass_transform(
    kw_only_default=True,
    eq_default=False,
    field_specifiers=(checked, choice, flag, integer, number, random_seed),
)
class Ranker(Questions, ABC):
    """Base of all models: the settings, and what a family does with them.

    A model declares its settings, names the class of its estimate, and supplies `_learn` and `_scores`. What it can
    beyond that are `_meet`, `_law` and `_reasons`; what it does not define is refused. These methods are asked of the
    settings with which the model was learnt, and get the `Fitted` as an argument: they look at nothing else.

    ``knows_nobody`` says that a question may be asked about nobody in particular, ``user=None``; ``personal = False``
    that everybody gets the same order; ``finds`` that scores say what people would take up of a whole catalogue, and
    not only how they order what they list; ``needs_order`` that sets without order are refused;
    ``takes_side_information`` that `fold_in` takes features and friends; ``parts`` names fields of the estimate that
    are fitted models of their own. ``assumes``, ``takes`` and ``reference`` are a line each about the model.

    Attributes
    ----------
    fitted_ : Fitted
        What was learnt, from what, and with which settings. `set_params` is for the next `fit`; answers and `save`
        keep to this.
    rankings_ : Rankings
        The training data: who has listed what.
    estimate_ : Estimate
        What was learnt, as one value.
    fitted_params_ : dict
        Parameters that it was learnt with.
    history_ : list of float
        The objective after every sweep; higher is better.
    n_iter_ : int
        Sweeps made.
    validation_, best_iter_ : float64 (n, 2), int
        Sweep and score of every measurement, and the sweep with the best; empty and the last without a validation.
    converged_ : bool
        Whether learning ended by itself.
    fit_seconds_ : float
        Wall time of `fit`, compilation included.
    """

    estimate_type: ClassVar[type[Estimate]] = Estimate
    knows_nobody: ClassVar[bool] = False
    personal: ClassVar[bool] = True
    finds: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = ()
    needs_order: ClassVar[bool] = False
    takes_side_information: ClassVar[bool] = False
    assumes: ClassVar[str]
    takes: ClassVar[str]
    reference: ClassVar[str]

    # What a family supplies

    @abstractmethod
    def _learn(self, rankings: Rankings) -> Estimate | Learner:
        """Learn from data: an estimate, or a stream of steps that have one."""

    @abstractmethod
    def _scores(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        """Scores of items (matrix indices) for a person; higher is better."""

    # What a family may supply

    def _meet(self, fitted: Fitted, rankings: Rankings, **about: object) -> Named:
        """What the model works out about somebody new, from what was listed (`Person.state`)."""
        return {}

    def _law(self, fitted: Fitted, person: Person, items: Int64Array) -> RankingDistribution:
        """P(ranking of the items | person); a model that has it answers all questions about probabilities."""
        fitted.refuse("distribution")

    def _reasons(self, fitted: Fitted, person: Person, item: int) -> Reasons:
        """A score of an item as a sum over what the person has listed, if it is one."""
        fitted.refuse("explain")

    def _score_draws(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        """Scores of items as they might be: draws (n_draws, n) from the distribution of the estimates."""
        fitted.refuse("tie_groups")

    def _item_likeness(self, fitted: Fitted, item: int) -> Float64Array:
        """How alike every item is to this one: (n_items,)."""
        fitted.refuse("similar_items")

    def _user_likeness(self, fitted: Fitted, person: Person) -> Float64Array:
        """How alike every user of the training data is to this person: (n_users,)."""
        fitted.refuse("similar_users")

    # What follows from these, and is overridden where there is a quicker way

    def _rows(self, fitted: Fitted, people: Sequence[Person]) -> Array:
        every = np.arange(fitted.n_items)
        return np.array([self._scores(fitted, person, every) for person in people]).reshape(len(people), every.size)

    def _score_pairs(self, fitted: Fitted, who: Int64Array, what: Int64Array) -> Float64Array:
        """Scores of users and items (indices, equally many)."""
        scores, order = np.empty(who.size), np.argsort(who, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(who[order])) + 1) if who.size else []:
            (person,) = fitted.known([who[part[0]]])
            scores[part] = self._scores(fitted, person, what[part])
        return scores

    def _prefers(self, fitted: Fitted, person: Person, first: Int64Array, second: Int64Array) -> Float64Array:
        """Probabilities that a person ranks the one item before the other, for several pairs of different items."""
        return np.array([self._law(fitted, person, pair).prefers(0, 1) for pair in np.column_stack((first, second))])

    def _prefers_pairs(self, fitted: Fitted, who: Int64Array, first: Int64Array, second: Int64Array) -> Float64Array:
        return answers.each_pair(fitted, who, first, second)

    def _has_law(self, fitted: Fitted) -> bool:
        """Whether the model says how likely every ranking is."""
        return type(self)._law is not Ranker._law

    def _has_pairs(self, fitted: Fitted) -> bool:
        """Whether it says how likely every pair is, if by `_prefers` alone."""
        return self._has_law(fitted)

    def _knows_ranks(self, fitted: Fitted) -> bool:
        """Whether quantiles of ranks are quick enough to go with every answer."""
        return False

    def _finds_by_order(self, fitted: Fitted) -> bool:
        """Whether `recommend` goes by the order of which there is a distribution."""
        return True

    def _featured_items(self, fitted: Fitted) -> Int64Array:
        """Cold-start items: those that nobody has ranked, and that the model knows by their features alone."""
        rankings = fitted.rankings
        if rankings.features("item") is None or KINDS[0] not in self._learns_from(rankings):
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.bincount(rankings.items, minlength=rankings.n_items) == 0)

    # How learning goes

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        """What is learnt from beside rankings, of `rankings.with_attributes.KINDS`; `fit` warns of the others."""
        return frozenset()

    def _prepared(self, rankings: Rankings) -> Rankings:
        """The data that are learnt from and kept: those given, or with more users and items that the model can know."""
        return rankings

    @property
    def resumable(self) -> bool:
        """Whether `fit` takes a checkpoint and a validation: whether it learns in sweeps that may end anywhere."""
        return False

    def _sweeps(self, rankings: Rankings) -> int:
        """The most sweeps that will be made."""
        return int(getattr(self, "max_iter", 1))

    def _started_from(self, rankings: Rankings) -> str:
        """What the bits depend on beside rankings and parameters."""
        return "nothing"

    def _rules(self) -> Named:
        """Fields of the estimate that say how answers are made, from the settings."""
        return {}

    def _check(self, fitted: Fitted) -> None:
        """Raise if learned arrays from a file do not fit together; a model extends it by what its answers rely on."""
        fitted.estimate.check(fitted.rankings.n_users, fitted.rankings.n_items)

    # Learning

    def fit(
        self,
        rankings: Rankings,
        y: object = None,
        *,
        callback: Callback | None = None,
        verbose: bool | None = None,
        checkpoint: Checkpoint | str | Path | None = None,
        validation: ValidationProtocol | None = None,
        engine: EngineChoice = None,
    ) -> Self:
        """Learn from rankings. Ctrl-C stops at the end of the sweep and keeps the estimate; twice, it ends at once.

        Parameters
        ----------
        rankings : Rankings
        y : ignored
            There for a ``Pipeline`` of scikit-learn, which passes it.
        callback : callable, optional
            Called with a `permrank.types.Progress` after every sweep; True stops learning and keeps the estimate.
        verbose : bool, optional
            Show a progress bar; by default on a terminal only.
        checkpoint : Checkpoint, str or Path, optional
            A file where the state is kept every few sweeps. If it is there already, learning goes on from it, to the
            bits of a run that was never broken off.
        validation : Validation, optional
            Held-out rankings by which the estimate is judged every few sweeps; with patience learning stops when they
            get no better, and the best estimate is kept.
        engine : {"local", "ray"} or RayEngine, optional
            Where it is computed: in this process, or by workers of Ray on one machine or several. The estimate is the
            same to the last bit.

        Returns
        -------
        self
        """
        refuse_unsafe_threads()
        require_evidence(self, require_rankings(rankings))
        self._validate()
        require_engine(engine)
        settings = self._copied()
        rankings = settings._prepared(rankings)
        require_resumable(settings, checkpoint=checkpoint, validation=validation)
        learner, started = partial(settings._learner, rankings), settings._started_from(rankings)
        job = Job(settings, rankings, learner, settings._sweeps(rankings), started)
        with working_by(engine):
            self.fitted_ = learnt_by(job, callback, verbose, checkpoint, validation)
        return self

    def _copied(self) -> Self:
        """These settings, so that nobody can change them: parameters may be lists."""
        return type(self)(**copy.deepcopy(self.get_params()))

    def _learner(self, rankings: Rankings) -> Learner:
        learnt = self._learn(rankings)
        return learnt if callable(learnt) else at_once(learnt)


class LuceChoiceRanker(Ranker):
    """A `Ranker` whose scores are the log-worths of a Plackett-Luce distribution.

    P(ranking | user) = Π_i e^{s_i} / Σ_{j >= i} e^{s_j}   (§3, eq. 1), with s = ``_scores(fitted, person, items)``.
    """

    def _knows_ranks(self, fitted: Fitted) -> bool:
        return True

    def _law(self, fitted: Fitted, person: Person, items: Int64Array) -> LuceMixture:
        return LuceMixture(self._scores(fitted, person, items)[None])


@dataclass(frozen=True, eq=False)
class ItemScores(Estimate):
    """One score for each item, the same for everybody: float64 (n_items,)."""

    scores: Float64Array

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless there is a finite score for each item."""
        super().check(n_users, n_items)
        if np.shape(self.scores) != (n_items,) or self.scores.dtype != np.float64:
            raise InputError(f"scores_ has shape {np.shape(self.scores)}, expected a float64 for each item")


class OneOrderRanker(Ranker):
    """A `Ranker` with ``scores_`` (n_items,), whoever asks; one that counts them in one pass supplies `_count`."""

    knows_nobody = True
    personal = False
    estimate_type: ClassVar[type[Estimate]] = ItemScores
    scores_ = Learnt[Float64Array]()

    def _count(self, rankings: Rankings) -> Float64Array:
        raise NotImplementedError

    def _learn(self, rankings: Rankings) -> Estimate | Learner:
        return ItemScores(self._count(rankings))

    def _scores(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        scores: Float64Array = fitted.estimate.scores
        return scores[items]
