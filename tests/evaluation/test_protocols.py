"""Splits hold what they say, draw as they say, and come back from a folder as they were."""

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

import permrank as pr
from permrank.errors import FormatError, InputError
from permrank.evaluation.defaults import default_protocol

SHAPES = {
    "weak": pr.WeakGeneralisation(n_train=6, min_test=3),
    "strong": pr.StrongGeneralisation(n_given=4, share=0.3, min_test=3),
    "leave-out": pr.LeaveOut(k=2),
    "share": pr.LeaveOut(share=0.2),
    "catalogue": pr.Catalogue(min_positive=2),
    "new people": pr.Catalogue(min_positive=2, new_people=0.3),
    "given": pr.Given(n_given=5),
    "folds": pr.Folds(n_folds=4),
}


@pytest.fixture(scope="module")
def rankings():
    return pr.datasets.load("simulated", n_users=60, n_items=30, list_length=(3, 20), ties=4)


def rows(rankings):
    return set(rankings.to_frame().select("user", "item", "rating").rows())


@pytest.mark.parametrize("name", SHAPES)
def test_parts_share_no_entry_and_hold_only_what_was_said(name, rankings):
    split = SHAPES[name].split(rankings, seed=3)
    parts = [part for part in (split.train, split.test, split.given) if part is not None]
    assert sum(part.n_entries for part in parts) == len(set.union(*map(rows, parts)))
    assert set.union(*map(rows, parts)) <= rows(rankings)
    for part in parts:
        assert np.bincount(part.items, minlength=part.n_items).min() > 0
        assert np.diff(part.user_indptr).min() > 0
        # Order and ties inside a part are those of the whole: ratings fall exactly where levels rise.
        for user in part.user_ids:
            frame = part.to_frame().filter(pl.col("user") == user)
            assert frame["rating"].is_sorted(descending=True)
            assert frame["rank"].n_unique() == frame["rating"].n_unique()


@pytest.mark.parametrize("name", SHAPES)
def test_the_same_seed_gives_the_same_split_and_another_another(name, rankings):
    protocol = SHAPES[name]
    assert protocol.split(rankings, 1) == protocol.split(rankings, 1)
    assert protocol.split(rankings, 1).test != protocol.split(rankings, 2).test


@pytest.mark.parametrize(
    ("name", "ending"), [*((name, "parquet") for name in SHAPES), ("strong", "csv"), ("catalogue", "jsonl")]
)
def test_a_saved_split_comes_back_exactly(name, ending, rankings, tmp_path):
    split = SHAPES[name].split(rankings, seed=2)
    split.save(tmp_path / "s", format=ending)
    assert pr.Split.load(tmp_path / "s") == split
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_weak_generalisation_gives_n_and_drops_who_has_too_few(rankings):
    split = SHAPES["weak"].split(rankings, seed=0)
    lengths = dict(zip(rankings.user_ids, np.diff(rankings.indptr), strict=True))
    long = {user for user, length in lengths.items() if length >= 9}
    assert set(split.train.user_ids) == set(split.test.user_ids) == long
    assert set(np.diff(split.train.indptr)) == {6}
    assert split.test.n_entries == sum(lengths[user] - 6 for user in long)


def test_strong_generalisation_keeps_new_people_out_of_the_training_part(rankings):
    split = SHAPES["strong"].split(rankings, seed=0)
    assert not set(split.train.user_ids) & set(split.test.user_ids)
    assert set(split.given.user_ids) == set(split.test.user_ids)
    assert set(np.diff(split.given.indptr)) == {4}
    n_long = int((np.diff(rankings.indptr) >= 7).sum())
    assert split.test.n_users == round(0.3 * n_long)
    assert split.train.n_users == rankings.n_users - split.test.n_users


def test_folds_share_out_the_people(rankings):
    parts = [SHAPES["folds"].split(rankings, seed).test for seed in range(4)]
    assert sorted(user for part in parts for user in part.user_ids) == list(rankings.user_ids)
    assert set(SHAPES["folds"].split(rankings, 4).test.user_ids) != set(parts[0].user_ids)


def test_leaving_rankings_out_leaves_choices_whole():
    rng = np.random.default_rng(0)
    pairs = [rng.permutation(8)[:2].tolist() for _ in range(200)]
    users = rng.integers(0, 10, 200).tolist()
    rankings = pr.Rankings.from_lists(pairs, users=users)
    split = pr.LeaveOut(k=3, of="rankings").split(rankings, seed=0)
    assert set(np.diff(split.test.indptr)) == set(np.diff(split.train.indptr)) == {2}
    assert split.test.n_rankings == 30
    with pytest.raises(InputError, match=r"user \d+ has \d+ rankings, and WeakGeneralisation draws entries of one"):
        pr.WeakGeneralisation().split(rankings)


def chance_of_training(draw, n_seeds, n_train):
    """p of the hypothesis that every entry of a user with ten is trained on with the same probability."""
    counts = sum(draw(seed).astype(int) for seed in range(n_seeds))
    expected = np.full(counts.size, n_seeds * n_train / 10)
    # Exactly n_train of 10 are drawn, which shrinks the variance by (10 - n_train) / 9 against the multinomial.
    statistic = ((counts - expected) ** 2 / expected).sum() / ((10 - n_train) / 9)
    return stats.chi2.sf(statistic, counts.size - counts.size // 10)


def test_every_entry_is_drawn_equally_often_as_in_the_benchmark_protocol():
    frame = {"user": np.repeat(np.arange(20), 10), "item": np.tile(np.arange(10), 20), "rating": np.ones(200)}
    rankings = pr.Rankings.from_ratings(frame)
    protocols = {"weak": pr.WeakGeneralisation(n_train=4, min_test=6), "given": pr.Given(n_given=4)}

    def drawn(protocol, seed):
        train = protocol.split(rankings, seed).train.to_frame()
        mark = np.zeros((20, 10), bool)
        mark[train["user"], train["item"]] = True
        return mark.ravel()

    for protocol in protocols.values():
        assert chance_of_training(lambda seed, p=protocol: drawn(p, seed), 300, 4) > 1e-4

    def always_first(seed):
        rng = np.random.default_rng(seed)
        weights = np.linspace(1.3, 0.7, 10)  # earlier entries a little likelier: this must be noticed
        return (np.argsort(np.argsort(rng.exponential(size=(20, 10)) / weights, axis=1), axis=1) < 4).ravel()

    assert chance_of_training(always_first, 300, 4) < 1e-6


def test_a_temporal_split_divides_at_one_moment():
    rng = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "user": np.repeat(np.arange(30), 12),
            "item": np.concatenate([rng.permutation(40)[:12] for _ in range(30)]),
            "rating": rng.integers(1, 6, 360),
            "time": rng.permutation(360),
        }
    )
    rankings = pr.Rankings.from_ratings(frame)
    split = pr.Temporal(frame, share=0.25).split(rankings)
    times = {(u, i): t for u, i, t in frame.select("user", "item", "time").rows()}
    train, test = (
        [times[u, i] for u, i in part.to_frame().select("user", "item").rows()] for part in (split.train, split.test)
    )
    assert max(train) < min(test)
    assert len(train) == 270
    assert min(np.diff(split.test.indptr)) >= 2
    # Times read from the same file as if they were ratings.
    as_rankings = pr.Rankings.from_ratings(frame, rating="time")
    assert pr.Temporal(as_rankings, share=0.25).split(rankings) == split
    with pytest.raises(InputError, match=r"user 3, item .*: no time is given"):
        pr.Temporal(frame.filter(pl.col("user") != 3)).split(rankings)
    with pytest.raises(InputError, match="no column 'time'"):
        pr.Temporal(frame.drop("time")).split(rankings)


def test_damaged_and_altered_splits_are_refused(rankings, tmp_path):
    split = SHAPES["given"].split(rankings)
    folder = tmp_path / "s"
    split.save(folder, format="csv")
    with pytest.raises(InputError, match="exists; give the name of a new folder"):
        split.save(folder)
    with pytest.raises(FormatError, match="is not a saved split"):
        pr.Split.load(tmp_path)
    lines = (folder / "test.csv").read_text(encoding="utf-8").splitlines()
    (folder / "test.csv").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"test.csv has changed since"):
        pr.Split.load(folder)
    header = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    for change in (
        {"format": 9},
        {"parts": {}},
        {"parts": {"train": {"file": "../x.csv", "fingerprint": ""}, "test": header["parts"]["test"]}},
    ):
        (folder / "split.json").write_text(json.dumps(header | change), encoding="utf-8")
        with pytest.raises(FormatError):
            pr.Split.load(folder)
    (folder / "split.json").write_text("{", encoding="utf-8")
    with pytest.raises(FormatError, match="damaged"):
        pr.Split.load(folder)


def test_lists_that_are_too_short_are_told(rankings):
    with pytest.raises(InputError, match="leaves nothing for the train part of these 60 users"):
        pr.WeakGeneralisation(n_train=50).split(rankings)
    for wrong in (
        pr.WeakGeneralisation(n_train=0),
        pr.Folds(n_folds=1),
        pr.StrongGeneralisation(share=1.0),
        pr.LeaveOut(of="x"),
    ):
        with pytest.raises(InputError, match="expected"):
            wrong.split(rankings)


def test_the_usual_protocol_follows_the_lengths():
    def of(n, **options):
        return default_protocol(pr.datasets.load("simulated", n_users=20, n_items=40, list_length=n, **options))

    assert of((25, 35)) == pr.LeaveOut(share=0.2)
    assert of(10) == pr.Given(7)
    assert of(4) == pr.Given(2)
    assert of(2) == pr.Folds()
    assert default_protocol(pr.Rankings.from_lists([list("abcdef"), list("fedcba")])) == pr.Folds()


def test_the_usual_protocol_asks_nothing_that_half_of_the_models_cannot_answer():
    blind, able = pr.MeanRating(), pr.PlackettLuce(prior="gaussian")
    short = pr.datasets.load("simulated", n_users=200, n_items=30, list_length=3)  # 600 entries
    assert default_protocol(short, [able, able, blind]) == pr.Folds()
    assert default_protocol(short, [able, blind]) == pr.StrongGeneralisation(1, min_test=2)
    ballots = pr.Rankings.from_lists([list("abcdef"), list("fedcba")])
    assert default_protocol(ballots, [blind]) == pr.Given(4)
    triples = pr.Rankings.from_lists([list("abc"), list("cba"), list("bca"), list("cab")])
    assert pr.compare([blind], triples).problems() == {}
    assert default_protocol(pr.Rankings.from_lists([["a", "b"], ["b", "a"]]), [blind]) == pr.Folds()  # nothing is left
    several = pr.Rankings.from_lists([["a", "b"], ["b", "c"], ["c", "a"]], users=["ann", "ann", "bob"])
    assert default_protocol(several, [blind]) == pr.LeaveOut(1, of="rankings")
    found = pr.compare({"MeanRating": blind, "PlackettLuce": able}, short)
    assert found.problems() == {}
    assert "failed" not in found.table()["verdict"].to_list()


@pytest.mark.realdata
def test_movielens_and_sushi_have_the_numbers_of_the_benchmark_protocols(data_folder):
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        import splits
    finally:
        sys.path.pop(0)
    for n_train in (10, 50):
        theirs = splits.weak_generalisation("ml-100k", n_train, 0)
        ours = pr.WeakGeneralisation(n_train).split(pr.datasets.load("ml-100k"), 0)
        assert ours.train.n_users == theirs.train.n_users
        assert (ours.train.n_entries, ours.test.n_entries) == (theirs.train.users.size, theirs.test.users.size)
        # Means of the ratings held out differ by chance only: two standard errors of a difference, four of each alone.
        error = np.std(theirs.test.ratings) * np.sqrt(2.0 / theirs.test.ratings.size)
        assert abs(np.mean(ours.test.ratings) - np.mean(theirs.test.ratings)) < 4 * error
    theirs, ours = splits.given_and_hidden(7, 0), pr.Given(7).split(pr.datasets.load("sushi"), 0)
    assert (ours.train.n_entries, ours.test.n_entries) == (theirs.train.users.size, theirs.test.users.size)
    theirs, ours = splits.fold_of_people(0), pr.Folds(5).split(pr.datasets.load("sushi-10"), 0)
    assert (ours.train.n_users, ours.test.n_users) == (theirs.train.n_users, theirs.test.n_users)
