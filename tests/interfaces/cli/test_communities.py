"""Communities on the command line, and their picture."""

import copy

import numpy as np
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.interfaces.cli.app import app
from permrank.interfaces.plots import save_plot

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def model():
    rankings = pr.datasets.load("simulated").select(users=[f"user-{i:04d}" for i in range(1, 121)])
    return pr.LatentPlackettLuce(2, n_starts=1, prior_strength=2.0, concentration=2.0).fit(rankings)


def test_info_prints_communities_and_draws_them(model, tmp_path):
    model.save(tmp_path / "m.permrank")
    picture = tmp_path / "m.png"
    result = CliRunner().invoke(app, ["info", str(tmp_path / "m.permrank"), "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    assert "community 1" in result.output
    assert "typical" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_curve_is_drawn_beside_the_memberships(model, tmp_path):
    curve = np.array([[1.0, -1.6, 0.01], [2.0, -1.5, 0.01], [4.0, -1.55, 0.01]])
    curved = copy.copy(model)
    curved.fitted_ = model.fitted_.with_estimate(curve=curve)
    for path in (tmp_path / "one.svg", tmp_path / "two.svg"):
        save_plot(model if path.name == "one.svg" else curved, path)
    assert "log P(position" not in (tmp_path / "one.svg").read_text()
    assert (tmp_path / "two.svg").stat().st_size > (tmp_path / "one.svg").stat().st_size
