"""Spectral analysis: the contract, Diaconis' table, effects against the parts that they describe."""

import itertools
import math

import numpy as np
import pytest

import permrank as pr
from permrank.errors import InputError, NotSupportedError
from permrank.families.spectral.kernels import dimension
from permrank.families.spectral.model import order_counts, pair_effects
from permrank.interfaces.plots import save_plot
from permrank.testing import ModelContract


class TestSpectralContract(ModelContract):
    other = {}  # noqa: RUF012

    def make(self, **parameters):
        return pr.SpectralAnalysis(**parameters)


def random_ballots(n, size, seed=0):
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(n).tolist() for _ in range(size)]
    return pr.Rankings.from_lists(lists, weights=rng.integers(1, 9, size).astype(float), items=range(n))


@pytest.mark.realdata
def test_the_election_of_1980_has_the_mean_squares_and_the_matrix_of_diaconis(data_folder):
    model = pr.SpectralAnalysis().fit(pr.datasets.load("apa"))
    frame = model.components()
    assert frame["component"].to_list() == ["(5)", "(4,1)", "(3,2)", "(3,1,1)", "(2,2,1)", "(2,1,1,1)", "(1,1,1,1,1)"]
    assert frame["mean_square"].round(1).to_list() == [2286.4, 298.3, 459.2, 78.2, 27.2, 6.8, 0.2]
    # Diaconis (1989), per cent of the voters who put a candidate (row) at a place, from the same ballots
    shares = 100 * model.first_order()["share"].to_numpy().reshape(5, 5)
    table = [
        [18, 26, 23, 17, 15],
        [14, 19, 25, 25, 18],
        [28, 17, 14, 18, 23],
        [20, 17, 19, 20, 23],
        [20, 21, 20, 19, 20],
    ]
    np.testing.assert_allclose(shares, table, rtol=0, atol=0.51)
    best = model.unordered_pairs().row(0, named=True)
    assert (best["item"], best["other"], best["rank"], best["other_rank"], round(best["effect"])) == (
        "A",
        "C",
        1,
        2,
        476,
    )


@pytest.mark.parametrize("n", [3, 4, 5])
def test_effects_are_sums_of_the_parts_and_give_their_squares(n):
    model = pr.SpectralAnalysis().fit(random_ballots(n, 30))
    total = model.rankings_.weights.sum()
    parts = {"first": (n - 1, 1), "ordered": (n - 2, 1, 1)} | ({"unordered": (n - 2, 2)} if n > 3 else {})
    f = {name: model.projection(shape) for name, shape in parts.items()}
    places = [{item: k for k, item in enumerate(row)} for row in f["first"]["ranking"].to_list()]
    for row in model.first_order().rows(named=True):
        there = np.array([place[row["item"]] == row["rank"] - 1 for place in places])
        assert math.isclose(f["first"]["value"].to_numpy() @ there, row["effect"], abs_tol=1e-9)
    for name in set(parts) - {"first"}:
        for row in getattr(model, f"{name}_pairs")().rows(named=True):
            wanted = (row["rank"] - 1, row["other_rank"] - 1)
            there = np.array([
                (place[row["item"]], place[row["other"]]) == wanted
                or (name == "unordered" and (place[row["other"]], place[row["item"]]) == wanted)
                for place in places
            ])  # fmt: skip
            assert math.isclose(f[name]["value"].to_numpy() @ there, row["effect"], abs_tol=1e-9)
    squares = dict(zip(model.components()["component"], model.sums_of_squares_, strict=True))
    norms = {
        (n - 1, 1): np.sum((model.first_order_ - total / n) ** 2),
        (n - 2, 1, 1): 4 * np.sum(model.ordered_**2),
        **({(n - 2, 2): np.sum(model.unordered_**2)} if n > 3 else {}),
    }
    for shape, norm in norms.items():
        name = f"({','.join(map(str, shape))})"
        assert math.isclose(squares[name], norm * dimension(shape) / math.factorial(n), rel_tol=1e-9)
    counts = order_counts(model.rankings_)
    assert math.isclose(model.sums_of_squares_.sum(), counts @ counts, rel_tol=1e-12)
    assert math.isclose(model.components()["share"].sum(), 1.0)


def test_partial_lists_and_ties_are_spread_over_the_orders_that_agree():
    rankings = pr.Rankings.from_lists({"u": ["b", {"a", "d"}], "v": ["c"]}, items=list("abcd"))
    counts = dict(zip(itertools.permutations("abcd"), order_counts(rankings), strict=True))
    agree = [order for order in counts if order.index("b") < min(order.index("a"), order.index("d"))]
    for order, count in counts.items():
        assert math.isclose(count, 1 / 24 + (1 / len(agree) if order in agree else 0))


def test_more_than_seven_items_give_the_same_effects_by_marginals_alone():
    rankings = random_ballots(8, 50)
    model = pr.SpectralAnalysis().fit(rankings)
    frame = model.components()
    assert frame["component"].to_list() == ["(8)", "(7,1)", "(6,2)", "(6,1,1)", "rest"]
    assert math.isclose(model.sums_of_squares_.sum(), np.sum(rankings.weights**2))
    with pytest.raises(NotSupportedError, match="up to 7 items"):
        model.projection((8,))
    # A pair of places that only pairs of equal items take has no effect beyond the constant.
    together, apart = np.ones((28, 28)), np.zeros((28, 28))
    assert np.abs(pair_effects(together, apart, 8)[0]).max() < 1e-12
    with pytest.raises(InputError, match=r"ranking 0 lists 2 of 8 items.*with_unlisted_last"):
        pr.SpectralAnalysis().fit(pr.Rankings.from_lists([[0, 1]], items=range(8)))
    tied = pr.SpectralAnalysis().fit(pr.Rankings.from_lists([[0, 1]], items=range(8)).with_unlisted_last())
    assert tied.components()["share"].null_count() == 4
    np.testing.assert_allclose(tied.first_order_[2:, 2:], 1 / 6)


def test_orders_drawn_at_random_have_the_mean_squares_of_chance():
    rng = np.random.default_rng(0)
    lists = [rng.permutation(4).tolist() for _ in range(20_000)]
    frame = pr.SpectralAnalysis().fit(pr.Rankings.from_lists(lists)).components()[1:]
    ratio = frame["mean_square"] / frame["by_chance"]
    # A sum of `dimension` squared normals of variance 1 over its mean: five standard deviations.
    assert (np.abs(ratio - 1) < 5 * np.sqrt(2 / frame["dimension"])).all()


def test_an_unknown_part_is_refused():
    model = pr.SpectralAnalysis().fit(random_ballots(3, 5))
    with pytest.raises(InputError, match=r"expected one of \(3,\), \(2, 1\), \(1, 1, 1\)"):
        model.projection((2, 2))


def test_the_picture_has_the_effects_and_the_parts(tmp_path):
    pytest.importorskip("matplotlib")
    save_plot(pr.SpectralAnalysis().fit(random_ballots(4, 9)), tmp_path / "small.svg")
    save_plot(pr.SpectralAnalysis().fit(random_ballots(9, 9)), tmp_path / "large.png")
    assert "<svg" in (tmp_path / "small.svg").read_text(encoding="utf-8")
    assert (tmp_path / "large.png").read_bytes().startswith(b"\x89PNG")
