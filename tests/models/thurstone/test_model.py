"""Thurstone's model with factors: the contract, planted parameters, probabilities against enumeration."""

import permrank as pr
from permrank.testing import ModelContract

ALL = frozenset(
    {
        "prefers",
        "top_probability",
        "position_probabilities",
        "sample",
        "log_likelihood",
        "similar_items",
        "similar_users",
    }
)


class TestContract(ModelContract):
    supports = ALL

    def make(self, **parameters):
        return pr.FactoredThurstone(**{"n_factors": 2, "max_iter": 12, "n_draws": 4, **parameters})

    def burn_in(self, model):
        return model.max_iter // 3
