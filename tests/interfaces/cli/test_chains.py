"""Pictures of Markov chains."""

import numpy as np
import pytest

import permrank as pr
from permrank.errors import InputError
from permrank.interfaces.plots import draw_ranks, save_chains, save_plot

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def model():
    rankings = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["b", "c", "a"], "cat": ["a", "c", "b"]})
    return pr.PairwiseLogLinear(0, min_cooccurrence=1, pair_scale=0.5).fit(rankings)


def test_chains_are_drawn(model, tmp_path):
    save_chains(model, tmp_path / "c.svg", "ann", ["b", "c"], size=50)
    assert "svg" in (tmp_path / "c.svg").read_text()[:300]
    save_plot(model, tmp_path / "m.png")
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="nothing"):
        save_chains(model, tmp_path / "m.nothing", "ann", ["b", "c"], size=50)


def test_bars_of_ranks_are_level_only_if_chains_agree():
    from matplotlib.figure import Figure

    def unevenness(values):
        axes = Figure().subplots()
        draw_ranks(values, axes)
        return max(np.ptp(patch.get_data().values) for patch in axes.patches)

    rng = np.random.default_rng(0)
    alike = rng.integers(0, 5, size=(4, 2000))
    assert unevenness(alike) < 60 < 300 < unevenness(alike + 3 * np.arange(4)[:, None])
