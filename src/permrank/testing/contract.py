"""The contract that every model keeps."""

from __future__ import annotations

from permrank.testing.answers import AnswerContract
from permrank.testing.files import FileContract
from permrank.testing.learning import LearningContract


class ModelContract(LearningContract, AnswerContract, FileContract):
    """Tests of everything that a model promises because it is one; about thirty, in seconds.

    A test class inherits it and defines ``make``; pytest then runs all of them. They fit the model to seven small lists
    with ties, and ask for what users rely on: the same seed gives the same bits for any number of threads, parameters
    are read, set and cloned, questions that cannot be answered say so, probabilities add up, unknown ids are named,
    new people are folded in, a file gives the same answers back and never loads if it was altered, a run that was
    broken off goes on to the same bits. What only your model promises is for tests of its own (`oracles` helps).

    Attributes
    ----------
    supports : frozenset of str
        What the model answers beyond scores: ``"prefers"``, ``"top_probability"``, ``"position_probabilities"``,
        ``"sample"``, ``"log_likelihood"``, ``"similar_items"``, ``"similar_users"``. All others must raise
        `NotSupportedError`.
    other : dict
        A change of parameters that the model takes; ``{"seed": 7}`` unless it is given.
    strangers_are_alike : bool
        Whether everybody of whom nothing is known gets the same scores; False for a model that draws them.

    Examples
    --------
    In a file of tests, say ``test_first_places.py``:

    >>> import permrank as pr
    >>> from permrank.testing import ModelContract
    >>> class TestBorda(ModelContract):
    ...     other = {"prior_strength": 0.0}
    ...
    ...     def make(self, **parameters):
    ...         return pr.Borda(**parameters)
    >>> rankings = pr.Rankings.from_lists([["a", "b"], ["b", "a", "c"]])
    >>> TestBorda().test_fit_returns_the_model_and_leaves_its_parameters_alone(rankings)

    Two methods may be overridden besides: ``make(**parameters)`` returns a new model, and ``burn_in(model)`` the most
    sweeps before the first estimate (0).
    """
