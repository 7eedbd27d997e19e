"""A model that is being written learns at `fit`, and not later, that its estimate cannot be kept."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import permrank as pr

RANKINGS = pr.Rankings.from_lists({"u": ["a", "b"], "v": ["b", "a"]})


@dataclass(frozen=True, eq=False)
class Scores(pr.Estimate):
    scores: np.ndarray


@dataclass(frozen=True, eq=False)
class Taken(pr.Estimate):
    history: np.ndarray


def model(learnt, **attributes):
    methods = {"_learn": lambda self, data: learnt, "_scores": lambda self, user, items: items * 1.0}
    return type("Written", (pr.Ranker,), methods | attributes)()


@pytest.mark.parametrize(
    ("learnt", "attributes", "words"),
    [
        (None, {}, "Written has learnt NoneType, expected Estimate"),
        ({"scores_": np.zeros(2)}, {}, "Written has learnt dict, expected Estimate"),
        (Scores(np.zeros(2)), {}, "Written has learnt Scores, expected Estimate: .* name its class in estimate_type"),
        (pr.Estimate(), {"estimate_type": Scores}, "has learnt Estimate, expected Scores"),
        (Taken(np.zeros(2)), {"estimate_type": Taken}, "Taken has the field 'history', which every model has"),
    ],
)
def test_an_estimate_that_files_and_answers_cannot_hold_is_refused(learnt, attributes, words):
    written = model(learnt, **attributes)
    with pytest.raises(TypeError, match=words):
        written.fit(RANKINGS)
    assert not hasattr(written, "rankings_")


def test_what_was_learnt_is_an_attribute_and_a_fault_in_a_property_is_told():
    class Faulty(type(model(Scores(np.arange(2.0)), estimate_type=Scores))):
        @property
        def best(self):
            return self.scorse_.max()

    fitted = Faulty().fit(RANKINGS)
    assert fitted.scores_.tolist() == [0.0, 1.0]
    assert "scores_" in dir(fitted)
    with pytest.raises(AttributeError, match="no attribute 'scorse_'"):
        _ = fitted.best


def test_what_was_learnt_cannot_be_hidden_by_setting_it():
    written = model(Scores(np.arange(2.0)), estimate_type=Scores)
    for one in (written, written.fit(RANKINGS)):
        with pytest.raises(AttributeError, match="scores_ is part of what was learnt, and cannot be set; fit again"):
            one.scores_ = np.zeros(2)
    assert written.scores_.tolist() == [0.0, 1.0]
    written.estimate_ = replace(written.estimate_, scores=np.ones(2))  # as the message says
    assert written.scores_.tolist() == [1.0, 1.0]
    written.note = "other attributes can be set"
    matrix = pr.PairwiseFactorisation()
    with pytest.raises(AttributeError, match="user_penalty_ is part of what was learnt"):
        matrix.user_penalty_ = 1.0
