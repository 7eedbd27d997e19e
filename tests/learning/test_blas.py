"""BLAS in one thread: only inside."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from permrank.learning.learner import Step, standing
from permrank.learning.linear_algebra import one_blas_thread, unthreaded


def n_threads():
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        if n_threads() != {2}:
            pytest.skip("this BLAS has no threads")
        yield


def test_threads_are_one_inside_and_as_before_after_it(two_threads):
    with one_blas_thread():
        assert n_threads() == {1}
        with one_blas_thread():
            assert n_threads() == {1}
        assert n_threads() == {1}
    assert n_threads() == {2}


def test_an_error_gives_the_threads_back(two_threads):
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert n_threads() == {2}


def test_steps_are_made_in_one_thread_and_looked_at_in_many(two_threads):
    inside = []

    def steps(kept):
        for number in range(3):
            inside.append(n_threads())
            yield standing(float) if number == 0 else Step(float(number), float)

    made = [(step.objective, n_threads()) for step in unthreaded(steps)(None)]
    assert inside == [{1}] * 3
    assert [threads for _, threads in made] == [{2}] * 3
    assert np.array([value for value, _ in made])[1:].tolist() == [1.0, 2.0]
