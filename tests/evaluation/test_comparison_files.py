"""Comparisons that are saved and read again."""

import json
from dataclasses import fields

import polars as pl
import pytest

import permrank as pr
from permrank.errors import FormatError, InputError
from permrank.evaluation.metrics import Metric

ABOVE = Metric("above", lambda g, s: float((s > s[g.argmax()]).sum()), title="items above", higher_is_better=False)


@pytest.fixture(scope="module")
def found():
    rankings = pr.datasets.load("simulated", n_users=80, n_items=15, list_length=8, separation=0.0)
    models = {
        "Latent": pr.LatentPlackettLuce(n_communities=2, n_starts=1, max_iter=10),
        "Mallows": pr.Mallows(),
        "broken": pr.PlackettLuce(tol=-1.0),
        "Pooled": pr.PlackettLuce(prior="gaussian"),
    }
    made = pr.compare(models, rankings, protocol=pr.Given(5), seeds=range(2), metrics=["pairs_right", ABOVE],
                      fits=2, n_pairs=60)  # fmt: skip
    made.data, made.command = "dishes", "a command"
    made.results[-1].cut_off = 2.5
    return made


@pytest.fixture
def loaded(found, tmp_path):
    found.save(tmp_path / "kept")
    return pr.Comparison.load(tmp_path / "kept")


def test_a_round_trip_is_exact(found, loaded):
    for name in ("splits", "metric", "question", "k", "data", "command", "made"):
        assert getattr(loaded, name) == getattr(found, name), name
    assert loaded.known.equals(found.known)
    assert loaded.shown() == found.shown()
    assert set(loaded.shown()) == {"example", "communities"}
    assert loaded.shown()["example"]["predicted"]
    assert set(loaded.shown()["communities"]) == {"Latent"}  # those of Mallows have no items of their own
    assert len(loaded.results) == len(found.results) == 14  # two fits of what has a seed, but for what failed
    for one, other in zip(found.results, loaded.results, strict=True):
        for field in fields(one):
            first, second = getattr(one, field.name), getattr(other, field.name)
            if isinstance(first, pl.DataFrame):
                assert first.equals(second, null_equal=True), field.name
                assert first.schema == second.schema
            elif field.name != "model":
                assert first == second, field.name
        assert other.model is None
    for metric in ("pairs_right", "above", "calibration_error"):
        assert loaded.table(metric).equals(found.table(metric)), metric
        assert loaded.differences(metric).equals(found.differences(metric)), metric
    assert loaded.to_dict() == found.to_dict()


def test_a_metric_of_ones_own_keeps_its_title_and_direction_but_not_its_function(loaded):
    metric = loaded.metric_of("above")
    assert (metric.title, metric.higher_is_better) == ("items above", False)
    with pytest.raises(InputError, match="function of the metric 'above' is not part of a saved comparison"):
        metric.function([1.0], [1.0])


def test_the_page_of_what_was_loaded_is_the_page_of_what_was_saved(found, loaded, tmp_path):
    for each, name in ((found, "one"), (loaded, "two")):
        each.report(tmp_path / name)
    assert (tmp_path / "one").read_text(encoding="utf-8") == (tmp_path / "two").read_text(encoding="utf-8")
    assert "Comparison of models on dishes" in (tmp_path / "one").read_text(encoding="utf-8")


def test_a_folder_is_new_and_whole_or_refused(found, loaded, tmp_path):
    kept = tmp_path / "kept"
    with pytest.raises(InputError, match="exists; give the name of a new folder"):
        found.save(kept)
    with pytest.raises(InputError, match="does not exist; make it first"):
        found.save(tmp_path / "no" / "kept")
    with pytest.raises(FormatError, match="is not a saved comparison"):
        pr.Comparison.load(tmp_path)
    header = json.loads((kept / "comparison.json").read_text(encoding="utf-8"))
    for changed, words in (({"format": 2}, "has format 2"), ({"results": [{}]}, "is damaged"), ({"k": None}, None)):
        (kept / "comparison.json").write_text(json.dumps(header | changed), encoding="utf-8")
        if words:
            with pytest.raises(FormatError, match=words):
                pr.Comparison.load(kept)
    (kept / "comparison.json").write_text("[", encoding="utf-8")
    with pytest.raises(FormatError, match="is damaged"):
        pr.Comparison.load(kept)
    (kept / "comparison.json").write_text(json.dumps(header), encoding="utf-8")
    people = (kept / "people.parquet").read_bytes()
    (kept / "people.parquet").write_bytes(people[:-1] + b"x")
    with pytest.raises(FormatError, match="has changed since"):
        pr.Comparison.load(kept)
    (kept / "people.parquet").unlink()
    with pytest.raises(FormatError, match="cannot be read"):
        pr.Comparison.load(kept)
