"""What every model offers, and what each must supply."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.data.rankings import Rankings
from permrank.data.validate import require_rankings
from permrank.data.vocabulary import Vocabulary
from permrank.distributions.base import RankingDistribution
from permrank.errors import InputError, NotFittedError
from permrank.learning.engines import EngineChoice, require_engine, working_by
from permrank.learning.fit import Job, require_resumable
from permrank.learning.learner import Learner, at_once
from permrank.models import parameters as settings
from permrank.models import pictures
from permrank.models import users as people
from permrank.models.answers import by_distribution, each_pair, prefers_pairs, rank, recommend
from permrank.models.declared import Declared
from permrank.models.estimates import Estimate
from permrank.models.explanation import because, explain, no_reasons
from permrank.models.fitting import learn_into, require_evidence
from permrank.models.refusals import refuse
from permrank.models.tie_groups import no_samples, tie_groups
from permrank.models.users import NewUser, UserReference
from permrank.processes import refuse_after_fork, refuse_unsafe_threads
from permrank.types import Array, Callback, Float64Array, Int32Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint
    from permrank.learning.early_stopping import ValidationProtocol


class Ranker(ABC):
    """Base of all models.

    A model supplies `_scores`, and `_learn`, which returns an `Estimate`, or `_learner`, a stream of steps that have
    one; ``estimate_type`` is its class. ``assumes``, ``takes`` and ``reference`` are a line each about the model.
    ``resumable = True`` says that its steps have a state to go on from; ``knows_nobody = True`` that a question may be
    asked about nobody in particular, ``user=None``; ``personal = False`` that everybody gets the same order;
    ``finds = True`` that its scores say what people would take up of a whole catalogue, and not only how they order
    what they list; ``needs_order = True`` that it refuses sets without order, of which it could learn nothing;
    ``parts`` names fields of the estimate that are fitted models of their own.
    ``parameters`` declares what each argument of the constructor may be, and what `permrank.tune` tries.
    Everything else has a default here; a question that a model cannot answer raises `NotSupportedError`.

    Attributes
    ----------
    rankings_ : Rankings
        The training data: who has listed what.
    estimate_ : Estimate
        What was learnt, as one value.
    fitted_params_ : dict
        Parameters that it was learnt with. `set_params` is for the next `fit`; answers and `save` keep to these.
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
    parameters: ClassVar[Declared] = Declared()
    assumes: ClassVar[str]
    takes: ClassVar[str]
    reference: ClassVar[str]
    estimate_: Estimate
    rankings_: Rankings
    fitted_params_: Named
    history_: list[float]
    n_iter_: int
    validation_: Float64Array
    best_iter_: int
    converged_: bool
    fit_seconds_: float

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        settings.answer_as_learnt(cls)

    get_params, set_params, clone, _call = settings.get_params, settings.set_params, settings.clone, settings.call_of
    __repr__, _repr_html_ = settings.shown, settings.html_of
    __sklearn_tags__, __sklearn_is_fitted__ = settings.sklearn_tags, settings.sklearn_is_fitted

    # What a model supplies

    def _learn(self, rankings: Rankings) -> Estimate:
        """Learn from data at one go; or else see `_learner`."""
        raise NotImplementedError(f"{type(self).__name__} defines neither _learn nor _learner")

    def _learner(self, rankings: Rankings) -> Learner[Estimate]:
        """Learn in sweeps: a stream of steps."""
        return at_once(self._learn(rankings))

    @abstractmethod
    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        """Scores of items (matrix indices) for a user; higher is better."""

    def _score_rows(self, users: Sequence[UserReference]) -> Array:
        """Scores of all items for each of these users, (n_users, n_items), by which `recommend` goes."""
        every = np.arange(len(self.item_ids))
        return np.array([self._scores(user, every) for user in users]).reshape(len(users), every.size)

    def _validate(self) -> None:
        """Raise on bad parameters, as declared, before all else; a model extends it by what concerns several."""
        settings.check_declared(self)

    def _check_learned(self) -> None:
        """Raise if learned arrays from a file do not fit together; a model extends it by what its answers rely on."""
        self.estimate_.check(self.rankings_.n_users, self.rankings_.n_items)

    @property
    def resumable(self) -> bool:
        """Whether `fit` takes a checkpoint and a validation: whether it learns in sweeps that may end anywhere."""
        return False

    def _sweeps(self, rankings: Rankings) -> int:
        """The most sweeps that will be made."""
        return int(getattr(self, "max_iter", 1))

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
        rankings = self._prepared(rankings)
        name, learner = type(self).__name__, partial(self._learner, rankings)
        require_resumable(name, self.resumable, checkpoint=checkpoint, validation=validation)
        job = Job(name, learner, self._sweeps(rankings), rankings, self.get_params(), self._started_from(rankings))
        with working_by(engine):
            learn_into(self, job, callback, verbose, checkpoint, validation)
        return self

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        """What is learnt from beside rankings, of `permrank.data.with_attributes.KINDS`; `fit` warns of the others."""
        return frozenset()

    def _prepared(self, rankings: Rankings) -> Rankings:
        """The data that are learnt from and kept: those given, or with more users and items that the model can know."""
        return rankings

    def _warm_items(self) -> Int64Array:
        """Items that the model knows by their features alone."""
        return np.zeros(0, np.int64)

    def _started_from(self, rankings: Rankings) -> str:
        """What the bits depend on beside rankings and parameters."""
        return "nothing"

    def _rules(self) -> Named:
        """Fields of the estimate that say how answers are made, from the parameters."""
        return {}

    def _take(self, rankings: Rankings, estimate: Estimate) -> None:
        self.estimate_ = estimate
        self.rankings_ = rankings
        self.fitted_params_ = copy.deepcopy(self.get_params())  # what is changed later changes nothing

    def __getattr__(self, name: str) -> Any:
        # Only asked where there is no such attribute: what was learnt is one, under its name with an underscore.
        known = inspect.getattr_static(type(self), name, None)
        if isinstance(known, property) and known.fget is not None:
            return known.fget(self)  # it has raised an AttributeError, which says more than this method could
        estimate = self.__dict__.get("estimate_")
        if estimate is None and name in self.estimate_type.names():
            self._require_fitted()
        if estimate is not None and name in estimate.names():
            return getattr(estimate, name[:-1])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.estimate_type.names():  # it would hide what was learnt
            change = f"estimate_ = dataclasses.replace(model.estimate_, {name[:-1]}=...)"
            raise AttributeError(f"{name} is part of what was learnt, and cannot be set; fit again, or set {change}")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(self.estimate_.names() if "estimate_" in self.__dict__ else ())})

    # Questions that scores alone can answer

    def score(self, user: object, items: Iterable[object] | None = None) -> Float64Array:
        """Scores of items for a user, higher is better; all items of `item_ids` if none are given."""
        reference = self._reference(user)
        return self._scores(reference, self._item_indices(items))

    def score_pairs(self, users: Iterable[object], items: Iterable[object]) -> Float64Array:
        """Scores of many (user, item) pairs at once, each as `score` gives it: two sequences of ids, equally long."""
        self._require_fitted()
        who, what = self.user_ids.indices(users), self.item_ids.indices(items)
        if who.size != what.size:
            raise InputError(f"{who.size} users and {what.size} items; give one item for each user")
        return self._score_pairs(who, what)

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        """Scores of users and items (indices, equally many); a model that can be quicker than this overrides it."""
        scores, order = np.empty(who.size), np.argsort(who, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(who[order])) + 1) if who.size else []:
            scores[part] = self._scores(int(who[part[0]]), what[part])
        return scores

    rank, recommend, explain, because, tie_groups = rank, recommend, explain, because, tie_groups
    _reasons, _score_samples = no_reasons, no_samples
    plot = pictures.plot

    # Questions that need a distribution

    @property
    def _finds_by_order(self) -> bool:
        """Whether `recommend` goes by the order of which there is a distribution."""
        return True

    @property
    def _knows_ranks(self) -> bool:
        """Whether quantiles of ranks are quick enough to go with every answer."""
        return False

    @property
    def _has_distribution(self) -> bool:
        """Whether the model says how likely every ranking is."""
        return type(self)._distribution is not Ranker._distribution

    def _distribution(self, user: UserReference, items: Int64Array) -> RankingDistribution:
        """P(ranking of the items | user); a model that has it answers all questions below."""
        self._refuse("distribution")

    def distribution(self, user: object, items: Iterable[object] | None = None) -> RankingDistribution:
        """P(ranking of the items | user) as an object, over all items if none are given; items are numbered from 0.

        Examples
        --------
        >>> import permrank as pr
        >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]], weights=[3, 2, 1])
        >>> worths = pr.PlackettLuce().fit(ballots).distribution(None, ["c", "b"])
        >>> round(worths.prefers(1, 0), 3), worths.sample(2, seed=1).shape
        (0.851, (2, 2))
        """
        self._require_distribution("distribution")
        reference = self._reference(user)
        return self._distribution(reference, self._item_indices(items))

    def _require_distribution(self, question: str) -> None:
        if not self._has_distribution:
            self._refuse(question)

    def prefers(self, user: object, item: object, other: object) -> float:
        """Return the probability that ``item`` is ranked before ``other``."""
        self._require_distribution("prefers")
        reference = self._reference(user)
        items = self.item_ids.find_all([item, other])
        return 0.5 if items[0] == items[1] else float(self._prefers(reference, items[:1], items[1:])[0])

    # A model that can be quicker, or has probabilities in closed form, overrides the second or the third.
    prefers_pairs, _prefers_pairs, _prefers = prefers_pairs, each_pair, by_distribution

    def top_probability(self, user: object, items: Iterable[object], k: int = 1) -> Float64Array:
        """Return the probability of each item to be among the first ``k`` of the given items."""
        self._require_distribution("top_probability")
        reference = self._reference(user)
        require_int("k", k, 1)
        return self._distribution(reference, self._item_indices(items)).top(int(k))

    def position_probabilities(self, user: object, item: object) -> Float64Array:
        """Return the probabilities of the positions where an item would enter the user's list (§3.2.2, §4.4).

        The order of the list stays as it is. Position j has j of its n items before it: 0 is before everything, n after
        the last.
        """
        self._require_distribution("position_probabilities")
        reference = self._reference(user)
        items, levels, index = people.list_to_enter(reference, item, self.rankings_, self.item_ids)
        return self._distribution(reference, np.append(items, index)).enter(levels)

    def sample(self, user: object, items: Iterable[object] | None = None, size: int = 1, seed: int = 0) -> np.ndarray:
        """Draw rankings of the items (all, if none are given) from P(. | user): ids, best first, (size, n)."""
        self._require_distribution("sample")
        reference = self._reference(user)
        chosen = self._item_indices(items)
        people.require_drawable(size, seed, chosen.size)
        ids = np.asarray(self.item_ids.take(chosen).to_list())
        return np.asarray(ids[self._distribution(reference, chosen).sample(int(size), int(seed))])

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking once, whatever its weight; `total_log_likelihood` has weights."""
        self._refuse("log_likelihood")

    def total_log_likelihood(self, rankings: Rankings) -> float:
        """Return the log-probability of all rankings, each as often as its weight says.

        This is Σ_r weight_r log P(ranking_r). The sum of `log_likelihood` counts every distinct ballot once, however
        many people cast it.
        """
        return float(require_rankings(rankings).weights @ self.log_likelihood(rankings))

    def fold_in(self, said: object) -> NewUser:
        """Make a new user from a list, or from a dict of item to rating, without retraining.

        Of somebody with an empty list or dict nothing is known: the answers are those for a user without a list.
        """
        self._require_fitted()
        return people.new_user(said, self.rankings_)

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that people like together with this one."""
        self._refuse("similar_items")

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users who rank as this one does."""
        self._refuse("similar_users")

    _refuse = refuse

    # Files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically; `permrank.load` reads it back."""
        from permrank.models.files import save

        self._require_fitted()
        save(self, path)

    # Ids and indices

    @property
    def item_ids(self) -> Vocabulary:
        """Items that the model knows."""
        self._require_fitted()
        return self.rankings_.item_ids

    @property
    def user_ids(self) -> Vocabulary:
        """Users that the model knows."""
        self._require_fitted()
        return self.rankings_.user_ids

    def _require_fitted(self) -> None:
        refuse_after_fork()
        refuse_unsafe_threads()
        if not hasattr(self, "rankings_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(rankings) first")

    def _reference(self, user: object) -> UserReference:
        self._require_fitted()
        if user is None and self.knows_nobody:
            return None
        return user if isinstance(user, NewUser) else self.rankings_.user_index(user)

    def _item_indices(self, items: Iterable[object] | None) -> Int64Array:
        return people.item_indices(items, self.item_ids)

    def _aligned_items(self, rankings: Rankings) -> Int32Array:
        """Item indices of other rankings in this model's numbering; an unknown item raises."""
        return people.aligned_items(rankings, self.item_ids)


settings.answer_as_learnt(Ranker)
