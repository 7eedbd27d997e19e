"""Pictures: every kind of every model, what is in them, and what is refused."""

import builtins
import copy

import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.errors import InputError, NotSupportedError
from permrank.interfaces.plots import draw_ranks, save_chains, save_plot, style
from permrank.interfaces.plots.items import draw_map, draw_worths, name_points
from published import pudding
from shell import run

pytest.importorskip("matplotlib")


def random_lists(n_items, n_lists=40, seed=10):
    rng = np.random.default_rng(seed)
    return pr.Rankings.from_lists(
        {f"u{u}": [f"item {i:02d}" for i in rng.permutation(n_items)[:8]] for u in range(n_lists)}
    )


@pytest.fixture(scope="module")
def sixty():
    return pr.PlackettLuce(prior="gaussian", prior_scale=1.0).fit(random_lists(60))


@pytest.fixture(scope="module")
def factors():
    train, held = pr.hold_out(random_lists(30), 0.3)
    return pr.PairwiseFactorisation(n_factors=3, seed=0).fit(
        train,
        validation=pr.Validation(held, every=2),
        callback=lambda progress: progress.iteration >= 6,
    )


def texts(figure):
    """All that is written in a picture."""
    from matplotlib.text import Text

    return [found.get_text() for found in figure.findobj(Text) if found.get_text()]


def overlapping(axes):
    """Labels of the vertical axis that cover each other."""
    figure = axes.figure
    renderer = figure.canvas.get_renderer()
    figure.draw(renderer)
    boxes = [tick.get_window_extent(renderer) for tick in axes.get_yticklabels()]
    return [(a, b) for n, a in enumerate(boxes) for b in boxes[n + 1 :] if a.overlaps(b)]


def agg(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    return figure


@pytest.mark.parametrize("shown", [5, 60])
def test_worths_are_drawn_with_bars_and_labels_that_do_not_overlap(sixty, shown):
    figure = agg(sixty.plot(n_items=shown))
    axes = figure.axes[0]
    best = sixty.worths()["item"].to_list()[:shown]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == best
    assert overlapping(axes) == []
    assert axes.get_title(loc="left") == ("the first 5 of 60 items" if shown == 5 else "60 items")
    (bars,) = axes.containers
    errors = sixty.standard_errors()["quasi_standard_error"].to_numpy()[:shown]
    widths = [segment[1, 0] - segment[0, 0] for segment in bars[2][0].get_segments()]
    np.testing.assert_allclose(widths, 2 * 1.96 / np.sqrt(2) * errors, rtol=1e-9)


def test_bars_without_quasi_standard_errors_are_intervals():
    two = pr.PlackettLuce().fit(pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["a", "b"]]))
    figure = two.plot("worths")
    assert "95 % intervals" in figure.axes[0].get_xlabel()
    borda = pr.Borda().fit(random_lists(9)).plot()
    assert borda.axes[0].get_xlabel() == "score"
    axes = style.new_figure(4, 3).subplots()
    draw_worths(pr.BradleyTerry().fit(pudding()).summary().frame, axes)
    assert len(axes.get_yticklabels()) == 6  # the tie parameter is no item


def test_titles_name_items_where_there_are_some():
    frame = pr.Borda().fit(random_lists(3)).rank(None, [f"item {i:02d}" for i in range(3)])
    axes = style.new_figure(4, 3).subplots()
    draw_worths(frame.with_columns(title=pl.Series(["Toro", None, "Ebi"])), axes)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["Toro", frame["item"][1], "Ebi"]
    assert style.names_of(pr.Borda().fit(random_lists(3)).item_ids, [2, 0]) == ["item 02", "item 00"]


def test_a_heat_map_has_the_probabilities_of_positions():
    model = pr.PlackettLuce().fit(pudding().shuffled_ties())
    figure = model.plot("positions")
    (image,) = figure.axes[0].get_images()
    chances = image.get_array() / 100
    np.testing.assert_allclose(chances.sum(axis=0), 1.0)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    worths = dict(model.worths().select("item", "worth").iter_rows())
    rows = [int(tick.get_text()) for tick in figure.axes[0].get_yticklabels()]
    for row, item in enumerate(rows):  # to be first is to have one's share of all worths
        assert abs(chances[row, 0] - worths[item]) < 5 * np.sqrt(0.25 / 4000)
    assert any(text.isdigit() and 10 < int(text) < 30 for text in texts(figure))


def test_communities_are_drawn_for_every_model_that_has_them():
    data = random_lists(6)
    mallows = pr.Mallows(2, n_starts=2).fit(data)
    figure = mallows.plot()
    centre = mallows.communities()["ranking"][0].to_list()
    assert any(" > ".join(centre[:3]) in text for text in texts(figure))
    latent = pr.LatentPlackettLuce(2, n_starts=1, prior_strength=2.0, concentration=2.0, max_iter=5)
    with pytest.warns(pr.errors.ConvergenceWarning):
        latent.fit(data)
    assert any(text.startswith("2 (") for text in texts(latent.plot("communities")))


def test_a_map_names_points_without_covering_names_or_points(factors):
    figure = agg(factors.plot("map"))
    axes = figure.axes[0]
    renderer = figure.canvas.get_renderer()
    figure.draw(renderer)
    names = [text for text in axes.texts if text.get_text().startswith("item")]
    assert len(names) > 5
    boxes = [text.get_window_extent(renderer) for text in names]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[n + 1 :])
    assert all(axes.get_window_extent(renderer).overlaps(box) for box in boxes)
    crowded = style.new_figure(3, 3).subplots()
    crowded.scatter([0, 0.001], [0, 0])
    name_points(crowded, np.array([[0, 0], [0.001, 0]]), ["a" * 40, "b" * 40])
    assert len(crowded.texts) < 2
    with pytest.raises(ValueError, match="without factors"):
        draw_map(pr.Borda().fit(random_lists(5)), crowded)


def test_curves_show_learning_and_validation(factors):
    line = factors.plot("learning").axes[0].get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), factors.history_)
    axes = factors.plot("validation").axes[0]
    np.testing.assert_allclose(axes.get_lines()[0].get_xdata(), factors.validation_[:, 0])
    assert any(f"kept: sweep {factors.best_iter_}" in text for text in texts(axes.figure))


def test_reliability_is_drawn_for_held_out_rankings(sixty):
    figure = sixty.plot("reliability", rankings=random_lists(60, seed=12))
    assert "pairs" in figure.axes[0].get_title(loc="left")
    with pytest.raises(InputError, match="--data"):
        sixty.plot("reliability")


def test_kinds_are_named_and_others_refused(sixty, factors, tmp_path):
    assert pr.plots.kinds(sixty) == ["worths", "positions", "learning", "reliability"]
    assert pr.plots.kinds(factors)[:3] == ["map", "learning", "validation"]
    assert "reliability" in pr.plots.kinds(pr.BradleyTerry().fit(pudding()))  # probabilities of pairs are enough
    assert pr.plots.kinds(pr.Mallows().fit(random_lists(5)))[0] == "positions"  # one community is no picture
    spectral = pr.SpectralAnalysis().fit(pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"]]))
    assert pr.plots.kinds(spectral)[0] == "effects"
    with pytest.raises(NotSupportedError, match="there are: map, learning, validation"):
        factors.plot("worths")
    with pytest.raises(InputError, match="n_items"):
        sixty.plot(n_items=0)
    silent = pr.ItemToItem().fit(random_lists(30))
    if not pr.plots.kinds(silent):
        with pytest.raises(NotSupportedError, match="no picture of a ItemToItem"):
            silent.plot()


def test_pictures_are_written_whole_the_same_twice_and_with_readable_text(sixty, tmp_path):
    for name in ("a.svg", "b.svg", "c.png", "d.pdf"):
        sixty.plot(path=tmp_path / name, n_items=12)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert sixty.worths()["item"][0] in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "a.svg").stat().st_size < 60_000
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "d.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"e\.what"):
        sixty.plot(path=tmp_path / "e.what")
    assert sixty.plot(n_items=3)._repr_png_().startswith(b"\x89PNG")


def test_labels_are_shortened_and_begin_no_formula():
    assert style.label("x" * 50) == "x" * 29 + "…"
    assert style.label("$a$\x1b") == r"\$a\$\x1b"


def test_without_matplotlib_the_remedy_is_named(sixty, monkeypatch):
    original = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    style._picture_class.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NotSupportedError, match=r"pip install 'permrank\[plot\]'"):
        sixty.plot()


@pytest.fixture(scope="module")
def log_linear():
    rankings = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["b", "c", "a"], "cat": ["a", "c", "b"]})
    return pr.PairwiseLogLinear(0, min_cooccurrence=1, pair_scale=0.5).fit(rankings)


def test_chains_are_drawn(log_linear, tmp_path):
    save_chains(log_linear, tmp_path / "c.svg", "ann", ["b", "c"], size=50)
    assert "svg" in (tmp_path / "c.svg").read_text(encoding="utf-8")[:300]
    save_plot(log_linear, tmp_path / "m.png")
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="nothing"):
        save_chains(log_linear, tmp_path / "m.nothing", "ann", ["b", "c"], size=50)


def test_bars_of_ranks_are_level_only_if_chains_agree():
    from matplotlib.figure import Figure

    def unevenness(values):
        axes = Figure().subplots()
        draw_ranks(values, axes)
        return max(np.ptp(patch.get_data().values) for patch in axes.patches)

    rng = np.random.default_rng(0)
    alike = rng.integers(0, 5, size=(4, 2000))
    assert unevenness(alike) < 60 < 300 < unevenness(alike + 3 * np.arange(4)[:, None])


@pytest.fixture(scope="module")
def latent():
    rankings = pr.datasets.load("simulated").select(users=[f"user-{i:04d}" for i in range(1, 121)])
    return pr.LatentPlackettLuce(2, n_starts=1, prior_strength=2.0, concentration=2.0).fit(rankings)


def test_info_prints_communities_and_draws_them(latent, tmp_path):
    latent.save(tmp_path / "m.permrank")
    picture = tmp_path / "m.png"
    result = run("info", str(tmp_path / "m.permrank"), "--plot", str(picture))
    assert "community 1" in result.output
    assert "typical" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_curve_is_drawn_beside_the_memberships(latent, tmp_path):
    curve = np.array([[1.0, -1.6, 0.01], [2.0, -1.5, 0.01], [4.0, -1.55, 0.01]])
    curved = copy.copy(latent)
    curved.fitted_ = latent.fitted_.with_estimate(curve=curve)
    for path in (tmp_path / "one.svg", tmp_path / "two.svg"):
        save_plot(latent if path.name == "one.svg" else curved, path)
    assert "log P(position" not in (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert (tmp_path / "two.svg").stat().st_size > (tmp_path / "one.svg").stat().st_size
