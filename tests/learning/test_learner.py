"""The one loop: how it ends, what hooks see, and that a run that was broken off goes on to the same bits."""

import copy

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from permrank.errors import EstimateError
from permrank.learning.hooks import Report
from permrank.learning.lbfgs import minimise
from permrank.learning.learner import Hook, Step, at_once, best_of, in_turn, mapped, run, standing
from permrank.learning.optimisers import Evaluation, expectation_maximisation, minorise_maximise, newton


def counting(objectives, last=None):
    """Counts its sweeps; the estimate is where it is."""

    def steps(kept):
        count = kept["count"] if kept else 0

        def estimate():
            return count

        def state():
            return {"count": count}

        yield standing(estimate, state)
        for objective in objectives[count:]:
            count += 1
            yield Step(objective, estimate, state, converged=count == last)

    return steps


class Keep(Hook):
    """Keeps every state that can be kept; ``stop`` ends the run after a sweep."""

    def __init__(self, stop=None):
        self.kept, self.stop = {}, stop

    def after_sweep(self, run):
        run.stopped = run.n_sweeps == self.stop
        if run.step.state is not None:
            self.kept[run.n_sweeps] = copy.deepcopy(run.state())


def test_a_run_ends_by_convergence_by_its_limit_by_a_hook_or_when_the_stream_does():
    ends = {
        "converged": (run(counting(range(9), last=4), max_iter=9), 4, True, False),
        "limit": (run(counting(range(9)), max_iter=5), 5, False, False),
        "hook": (run(counting(range(9)), max_iter=9, hooks=[Keep(stop=3)]), 3, False, True),
        "stream": (run(counting(range(6)), max_iter=9), 6, False, False),
    }
    for how, (fitted, n, converged, stopped) in ends.items():
        assert (fitted.estimate, len(fitted.history), fitted.converged, fitted.stopped) == (n, n, converged, stopped), (
            how
        )
        assert fitted.history == list(range(n))


def test_divergence_is_reported_with_the_sweep():
    with pytest.raises(EstimateError, match="became nan in sweep 2"):
        run(counting([1.0, float("nan"), 2.0]), max_iter=10)


def test_the_callback_sees_every_sweep_and_can_stop():
    seen, shown = [], []
    report = Report(shown.append, lambda progress: seen.append(progress) or len(seen) == 2)
    assert run(counting([1.0, 2.0, 3.0]), max_iter=10, hooks=[report]).stopped
    assert [(p.iteration, p.max_iter, p.objective) for p in seen] == [(1, 10, 1.0), (2, 10, 2.0)]
    assert shown == seen


def test_estimates_are_made_only_when_somebody_looks():
    made = []
    fitted = run(mapped(counting(range(5)), lambda count: made.append(count) or -count), max_iter=5)
    assert fitted.estimate == -5
    assert made == [5]
    assert run(at_once("done", 2.0), max_iter=1)[:3] == ("done", [2.0], True)


def concave(x):
    p = 1 / (1 + np.exp(-x))
    return Evaluation(
        float(np.sum(x - 2 * np.logaddexp(0, x)) - 0.01 * x @ x), 1 - 2 * p - 0.02 * x, 2 * p * (1 - p) + 0.02
    )


def shrink(x):
    return np.array([[0.95], [0.6]]) * x - 0.01 * x**3, -np.sum(x**2, axis=1)


LEARNERS = {
    "newton": newton(concave, np.array([12.0, -9.0, 3.0]), tol=1e-9),
    "minorise": minorise_maximise(lambda x: (x / 2, -float(x @ x)), np.ones(3), tol=1e-4),
    "lbfgs": minimise(lambda x: (rosen(x), rosen_der(x)), np.array([-1.2, 1.0, 0.5]), np.ones(3), tol=1e-9),
    "em": expectation_maximisation(shrink, np.ones((2, 1)), tol=1e-9, accelerate=False),
    "squarem": expectation_maximisation(shrink, np.ones((2, 1)), tol=1e-9),
}
LEARNERS["in turn"] = in_turn(
    mapped(counting(range(4)), lambda count: {"count": np.full(2, float(count))}),
    lambda found: minorise_maximise(lambda x: (x / 2, -float(x @ x)), found["count"], tol=1e-4),
    lambda found: found["count"],
)
LEARNERS["best of"] = mapped(  # they end in different sweeps, and the last is the best until the second overtakes it
    best_of(
        [
            minorise_maximise(lambda x: (x / 2, 1.0 - float(x @ x)), start * np.ones(2), tol=tol)
            for start, tol in ((3.0, 1e-2), (4.0, 1e-7), (2.0, 1e-1))
        ]
    ),
    lambda best: np.append(best.estimate, best.objectives),
)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_goes_on_from_any_state_to_the_same_bits(name):
    whole = Keep()
    wanted = run(LEARNERS[name], max_iter=60, hooks=[whole])
    assert len(whole.kept) > 3
    for sweep, kept in whole.kept.items():
        again = run(LEARNERS[name], max_iter=60, kept=dict(kept))
        assert np.array_equal(again.estimate, wanted.estimate), sweep
        assert (again.history, again.converged) == (wanted.history, wanted.converged), sweep


def test_a_state_of_another_point_is_noticed():
    """The control of the test above."""
    whole = Keep()
    wanted = run(LEARNERS["lbfgs"], max_iter=60, hooks=[whole])
    spoilt = whole.kept[3] | {"learner.point": whole.kept[3]["learner.point"] + 0.5}
    assert not np.array_equal(run(LEARNERS["lbfgs"], max_iter=60, kept=spoilt).history, wanted.history)


def test_a_finished_run_is_not_gone_on_with():
    whole = Keep()
    wanted = run(LEARNERS["minorise"], max_iter=60, hooks=[whole])
    later = Keep()
    again = run(LEARNERS["minorise"], max_iter=60, hooks=[later], kept=whole.kept[len(wanted.history)])
    assert later.kept == {}
    assert again.converged
    assert np.array_equal(again.estimate, wanted.estimate)


def test_two_learners_in_turn_show_the_first_alone_until_it_has_ended():
    both = LEARNERS["in turn"]
    assert run(both, max_iter=3).estimate.tolist() == [3.0, 3.0]
    assert run(both, max_iter=4).estimate.tolist() == [4.0, 4.0]
    assert run(both, max_iter=5).estimate.tolist() == [2.0, 2.0]


def test_the_best_of_several_learners_is_the_estimate_and_all_go_on_to_their_ends():
    alone = [
        run(minorise_maximise(lambda x: (x / 2, 1.0 - float(x @ x)), start * np.ones(2), tol=tol), max_iter=60)
        for start, tol in ((3.0, 1e-2), (4.0, 1e-7), (2.0, 1e-1))
    ]
    ends = [len(each.history) for each in alone]
    assert len(set(ends)) == 3
    found = run(LEARNERS["best of"], max_iter=60)
    assert found.converged
    assert len(found.history) == max(ends)
    best = int(np.argmax([each.history[-1] for each in alone]))
    np.testing.assert_array_equal(found.estimate[:2], alone[best].estimate)
    np.testing.assert_array_equal(found.estimate[2:], [each.history[-1] for each in alone])
    for sweep, value in enumerate(found.history):
        assert value == max(each.history[min(sweep, end - 1)] for each, end in zip(alone, ends, strict=True))


def test_a_stream_that_does_not_say_where_it_stands_is_refused():
    for steps in (lambda kept: iter(()), lambda kept: iter([Step(1.0, lambda: 0)])):
        with pytest.raises(TypeError, match="has to say first where it stands"):
            run(steps, max_iter=3)
