"""Learning as a stream of steps, and the one loop that runs through them.

A learner is a function from a state, or None, to an iterator of `Step`. Its first step says where it stands before any
sweep: at its start, or where the state has it go on from. Every further step is one finished sweep; a stream that ends
without having converged could not go on. A learner knows nothing of checkpoints, validation, progress or Ctrl-C: those
are hooks of `run`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from permrank.errors import EstimateError
from permrank.types import Float64Array, Named

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # `typing` has it from Python 3.13 on

    E = TypeVarWithDefault("E", default=Any)
else:
    E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
F = TypeVar("F")
State: TypeAlias = Named
"""Arrays (in C order, so that sums round alike when they are read back) and numbers by name."""

_LEARNER, _HISTORY, _CONVERGED = "learner.", "trace.history", "trace.converged"
_FOUND = "found."


class Step(NamedTuple, Generic[E_co]):
    """One finished sweep.

    Attributes
    ----------
    objective : float
        Higher is better.
    estimate : callable
        Makes the present estimate, when somebody looks; it may share memory with the learner, and holds until the next
        step is asked for.
    state : callable, optional
        Gives all that the next sweep depends on, likewise; None where learning cannot be taken up again.
    converged : bool
        Whether this is the end.
    burn_in : bool
        Whether the estimate is not worth measuring yet.
    part : int
        Objectives of different parts of learning are not comparable: they are of other data, or of another function.
    sampled : bool
        Whether the estimate is a mean over draws, which is one however few there are: nobody is warned if sweeps end
        before it has converged.
    """

    objective: float
    estimate: Callable[[], E_co]
    state: Callable[[], State] | None = None
    converged: bool = False
    burn_in: bool = False
    part: int = 0
    sampled: bool = False


Learner: TypeAlias = Callable[[State | None], Iterator[Step[E]]]
"""From a state that an earlier run was left in, or None, to where learning stands and then one step for each sweep."""


class Run(Generic[E]):
    """What hooks see of a run.

    Attributes
    ----------
    max_iter : int
    history : list of float
        The objective after every sweep.
    step : Step
        The last one.
    score : float or None
        Of the validation, if it has measured this sweep.
    stopped : bool
        Whether a hook has ended learning; set by hooks.
    """

    def __init__(self, max_iter: int, hooks: Sequence[Hook]) -> None:
        self.max_iter = max_iter
        self.history: list[float] = []
        self.step: Step[E]
        self.score: float | None = None
        self.stopped = False
        self._hooks = hooks

    @property
    def n_sweeps(self) -> int:
        """Sweeps made."""
        return len(self.history)

    @property
    def ended(self) -> bool:
        """Whether no further sweep will be made."""
        return self.stopped or self.step.converged or self.n_sweeps >= self.max_iter

    def resume(self, kept: State) -> State:
        """Take up what `state` gave to an earlier run; returns the part of the learner."""
        self.history = kept[_HISTORY].tolist()
        for hook in self._hooks:
            hook.resume(self, kept)
        return _under(_LEARNER, kept)

    def state(self) -> State:
        """All that another run needs to go on from here to the same bits."""
        if self.step.state is None:
            raise ValueError("this step cannot be resumed from")
        kept: State = {_LEARNER + name: value for name, value in self.step.state().items()}
        kept |= {_HISTORY: np.array(self.history), _CONVERGED: self.step.converged}
        for hook in self._hooks:
            kept |= hook.state()
        return kept

    def sweep(self, step: Step[E]) -> None:
        """Record one sweep, and let every hook look at it."""
        self.step, self.score = step, None
        self.history.append(float(step.objective))
        if not math.isfinite(step.objective):
            raise EstimateError(
                f"the objective became {step.objective} in sweep {self.n_sweeps}: learning diverged; "
                "use a prior, or look for weights or scores of extreme size in the data"
            )
        for hook in self._hooks:
            hook.after_sweep(self)


class Hook:
    """What is done after every sweep, in the order in which hooks are given; a hook overrides what it needs."""

    def resume(self, run: Run, kept: State) -> None:
        """Take up what `state` gave to an earlier run."""

    def after_sweep(self, run: Run) -> None:
        """Look at the sweep; setting ``run.stopped`` makes it the last."""

    def state(self) -> State:
        """What a later run needs, in names that nobody else uses."""
        return {}


class Outcome(NamedTuple, Generic[E]):
    """Where a run has ended: the estimate, the objective after every sweep, and how it came to its end.

    sampled: whether sweeps that ran out are no failure (see `Step`).
    """

    estimate: E
    history: list[float]
    converged: bool
    stopped: bool
    sampled: bool = False


def run(learner: Learner[E], *, max_iter: int, hooks: Sequence[Hook] = (), kept: State | None = None) -> Outcome[E]:
    """Go through the steps of a learner until it has converged, a hook stops it, or sweeps run out.

    Parameters
    ----------
    learner : Learner
    max_iter : int
    hooks : sequence of Hook
    kept : State, optional
        What `Run.state` gave to an earlier run, which is to go on.
    """
    now: Run[E] = Run(max_iter, hooks)
    steps = learner(None if kept is None else now.resume(kept))
    begin = next(steps, None)
    if begin is None or not math.isnan(begin.objective):
        raise TypeError("a learner has to say first where it stands, before any sweep: yield standing(estimate)")
    now.step = begin
    if kept is not None and kept[_CONVERGED]:
        now.step = now.step._replace(converged=True)
    while not now.ended and (step := next(steps, None)) is not None:
        now.sweep(step)
    return Outcome(now.step.estimate(), now.history, now.step.converged, now.stopped, now.step.sampled)


def mapped(learner: Learner[E], function: Callable[[E], F]) -> Learner[F]:
    """The same steps with estimates that a function is applied to."""

    def steps(kept: State | None) -> Iterator[Step[F]]:
        for step in learner(kept):
            yield Step(step.objective, _composed(function, step.estimate), *step[2:])

    return steps


def _composed(function: Callable[[E], F], estimate: Callable[[], E]) -> Callable[[], F]:
    return lambda: function(estimate())


class Best(NamedTuple, Generic[E]):
    """What the best of several learners has found, and the objectives that all of them have reached."""

    estimate: E
    objectives: Float64Array


def best_of(learners: Sequence[Learner[E]]) -> Learner[Best[E]]:
    """Learners of one thing side by side, for example from several starts; a sweep is one of each that goes on.

    The objective is the highest of all. Learners share what they like between sweeps, but for their states.
    """

    def steps(kept: State | None) -> Iterator[Step[Best[E]]]:
        streams = [learner(None if kept is None else _under(f"{i}.", kept)) for i, learner in enumerate(learners)]
        now = [next(stream) for stream in streams]
        objectives, ended = np.full(len(now), math.nan), np.zeros(len(now), np.int64)
        if kept is not None:
            objectives, ended = kept["objectives"].copy(), kept["ended"].copy()

        def estimate() -> Best[E]:
            best = int(np.argmax(np.nan_to_num(objectives, nan=-np.inf)))
            return Best(now[best].estimate(), objectives.copy())

        def state() -> State:
            states: State = {"objectives": objectives.copy(), "ended": ended.copy()}
            for i, step in enumerate(now):
                states |= {f"{i}.{name}": value for name, value in (step.state or dict)().items()}
            return states

        yield standing(estimate, state)
        while True:
            for i in np.flatnonzero(ended == 0):
                now[i] = next(streams[i])
                objectives[i], ended[i] = now[i].objective, now[i].converged
            yield Step(float(objectives.max()), estimate, state, converged=bool(ended.all()))

    return steps


def _under(prefix: str, kept: State) -> State:
    return {name.removeprefix(prefix): value for name, value in kept.items() if name.startswith(prefix)}


def in_turn(first: Learner[State], second: Callable[[State], Learner[E]], show: Callable[[State], E]) -> Learner[E]:
    """Learn one thing to its end, then another that depends on it; ``show`` makes an estimate of the first alone."""

    def steps(kept: State | None) -> Iterator[Step[E]]:
        first_learnt = _under(_FOUND, kept or {})
        resumed, part = bool(first_learnt), 0
        if not resumed:
            for step in first(kept):
                yield Step(step.objective, _composed(show, step.estimate), step.state, False, step.burn_in, step.part)
                part = step.part + 1
            first_learnt, kept = step.estimate(), None
        named = {_FOUND + name: value for name, value in first_learnt.items()}
        stream = second(first_learnt)(kept)
        begin = next(stream)
        if resumed:
            yield begin
        for later in stream:
            moved = later._replace(part=part + later.part)
            yield moved if moved.state is None else moved._replace(state=_joined(named, moved.state))

    return steps


def _joined(named: State, state: Callable[[], State]) -> Callable[[], State]:
    return lambda: named | state()


def standing(estimate: Callable[[], E], state: Callable[[], State] | None = None) -> Step[E]:
    """The first step of a learner: where it stands before any sweep."""
    return Step(math.nan, estimate, state)


def at_once(estimate: E, objective: float = 0.0) -> Learner[E]:
    """A learner that needs one sweep; 0 is the objective where nothing is maximised."""

    def steps(kept: State | None) -> Iterator[Step[E]]:
        yield standing(lambda: estimate)
        yield Step(objective, lambda: estimate, converged=True)

    return steps
