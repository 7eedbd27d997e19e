"""Ballots that name the first few of a choice set are noticed; lists of what people know or were handed are not."""

import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.errors import ChoiceSetWarning, InputError
from permrank.interfaces.cli.app import app
from permrank.rankings.choice_sets import evidence_of_choice_set

CANDIDATES = [f"c{place:02d}" for place in range(10)] + ["niche"]


def election(seed, n_voters=5000, k=3, supporters=0.08, single=0.15):
    """Voters who name at most k of eleven: most follow one Plackett-Luce, some put the niche candidate first."""
    rng = np.random.default_rng(seed)
    scores = np.append(np.linspace(2, 0, 10), -3) + rng.gumbel(size=(n_voters, 11))
    scores[: round(supporters * n_voters), -1] += 12
    named = np.where(rng.random(n_voters) < single, 1, k)
    return [[CANDIDATES[c] for c in order[:n]] for order, n in zip(np.argsort(-scores, axis=1), named, strict=True)]


def first_of(rankings):
    return pr.PlackettLuce(prior="gaussian").fit(rankings).rank(None, CANDIDATES)["item"][0]


def noticed(rankings):
    return evidence_of_choice_set(rankings) is not None


@pytest.mark.parametrize("seed", range(3))
def test_the_wrong_candidate_wins_unless_the_unlisted_come_last_and_this_is_noticed(seed):
    ballots = election(seed)
    with pytest.warns(ChoiceSetWarning, match=r"fewer than 10 of 11 items.*single item.*unlisted='last'"):
        assert first_of(pr.Rankings.from_lists(ballots)) == "niche"
    assert first_of(pr.Rankings.from_lists(ballots, unlisted="ignore")) == "niche"
    assert first_of(pr.Rankings.from_lists(ballots, unlisted="last")) == "c00"


@pytest.fixture
def ballot_file(tmp_path):
    path = tmp_path / "vote.soi"
    pr.Rankings.from_lists(election(0), unlisted="ignore").write(path)
    return path


def test_reading_notices_and_either_word_silences(ballot_file, tmp_path):
    with pytest.warns(ChoiceSetWarning, match="5,000 rankings") as caught:
        pr.read(ballot_file)
    assert caught[0].filename == __file__, "the warning names the line that has to change"
    completed = pr.read(ballot_file, unlisted="last")
    assert pr.read(ballot_file, unlisted="ignore").n_items == 11
    completed.write(tmp_path / "done.toc")
    assert pr.read(tmp_path / "done.toc") == completed
    with pytest.raises(InputError, match="unlisted='first'"):
        pr.read(ballot_file, unlisted="first")


def test_frames_of_ranks_are_noticed_and_can_be_completed():
    frame = pr.Rankings.from_lists(election(0, 500), users=range(500), unlisted="ignore").to_frame()
    with pytest.warns(ChoiceSetWarning):
        pr.Rankings.from_ranks(frame)
    pr.Rankings.from_ranks(frame, unlisted="ignore")
    assert (np.diff(pr.Rankings.from_ranks(frame, unlisted="last").indptr) == 11).all()
    with pytest.raises(InputError, match="unlisted='first'"):
        pr.Rankings.from_ranks(frame, unlisted="first")


def test_info_and_fit_say_it_in_one_line_of_standard_error(ballot_file, tmp_path):
    fit = ["fit", str(ballot_file), "--set", "prior=gaussian", "-o", str(tmp_path / "m.permrank")]
    for command in (["info", str(ballot_file), "--json"], fit):
        told = CliRunner().invoke(app, command)
        assert told.exit_code == 0, told.output
        assert told.stderr.count("warning:") == 1
        assert "--unlisted last" in told.stderr
        assert "warning" not in told.stdout
        for word in ("ignore", "last"):
            assert "warning" not in CliRunner().invoke(app, [*command, "--unlisted", word]).stderr
    converted = CliRunner().invoke(app, ["convert", str(ballot_file), str(tmp_path / "vote.csv")])
    assert converted.exit_code == 0
    assert "warning" not in converted.stderr, "what is only handed on needs no answer"


@pytest.mark.parametrize("seed", range(3))
def test_ballots_that_all_have_three_places_filled_are_noticed_too(seed):
    ballots = pr.Rankings.from_lists(election(seed, supporters=0, single=0), unlisted="ignore")
    assert "how often they are listed" in evidence_of_choice_set(ballots)


@pytest.mark.parametrize("seed", range(3))
def test_ballots_of_which_some_are_complete_are_noticed(seed):
    lengths = np.where(np.arange(5000) % 4, 11, 5)
    whole = election(seed, k=11, supporters=0, single=0)
    ballots = [ballot[:n] for ballot, n in zip(whole, lengths, strict=True)]
    assert "also placed better" in evidence_of_choice_set(pr.Rankings.from_lists(ballots, unlisted="ignore"))


def test_ballots_that_name_one_candidate_show_that_to_be_listed_is_what_they_say():
    # The two of each camp are placed well as often as badly: there is no correlation.
    camps = ["a", "c", "ab", "ba", "cd", "dc", "ef", "fe", "eb", "be", "afc", "cfa"]
    weights = [60, 60, *[9] * 10]
    ballots = pr.Rankings.from_lists([list(names) for names in camps], weights=weights, unlisted="ignore")
    assert "list a single item" in evidence_of_choice_set(ballots)


# What must not be noticed


def handed_out(rng, n_people, n_items, k, weights=None):
    """People order items that were drawn for them, with tastes of their own."""
    taste = np.linspace(2, -2, n_items)
    lists = []
    for _ in range(n_people):
        items = rng.choice(n_items, k, replace=False, p=weights)
        lists.append(items[np.argsort(-(taste[items] + rng.gumbel(size=k)))].tolist())
    return pr.Rankings.from_lists(lists, users=range(n_people), unlisted="ignore")


@pytest.mark.parametrize("seed", range(5))
def test_items_that_were_handed_out_are_no_ballots(seed):
    rng = np.random.default_rng(seed)
    assert not noticed(handed_out(rng, 1000, 12, 4))
    assert not noticed(handed_out(rng, 1000, 40, 10))
    # Handed out unevenly, but not the liked ones more often.
    assert not noticed(handed_out(rng, 1000, 20, 5, np.tile([0.02, 0.08], 10)))
    # As in SUSHI, the liked ones more often, from a catalogue that is no ballot.
    weights = np.linspace(2, 0.2, 100)
    assert not noticed(handed_out(rng, 1000, 100, 10, weights / weights.sum()))


@pytest.mark.parametrize("length", [5, (3, 6)])
def test_lists_of_what_people_came_across_are_seldom_taken_for_ballots(length):
    # Popular items are met more often, and liked: but the order within a list mostly tells more than who is in it.
    lists = [pr.datasets.load("simulated", n_items=20, list_length=length, seed=seed) for seed in range(15)]
    assert sum(map(noticed, lists)) <= 2


def test_complete_ballots_and_those_that_lack_only_the_last_are_not_noticed():
    for k in (10, 11):
        assert not noticed(pr.Rankings.from_lists(election(0, 500, k, single=0), users=range(500), unlisted="ignore"))
    tops = pr.Rankings.from_lists(election(0, 500), users=range(500), unlisted="ignore")
    assert noticed(tops)
    assert not noticed(tops.with_unlisted_last())


def test_ratings_pairs_repeated_rankings_and_few_rankings_are_not_noticed(tmp_path):
    ballots = election(0, 600)
    tops = pr.Rankings.from_lists(ballots, users=range(600), unlisted="ignore")
    frame = tops.to_frame()
    rated = pr.Rankings.from_ratings({"user": frame["user"], "item": frame["item"], "rating": 4 - frame["rank"]})
    assert rated.lists() == tops.lists()
    assert not noticed(rated)
    pairs = [ballot[:2] for ballot in election(0, 600, single=0)]
    assert not noticed(pr.Rankings.from_lists(pairs, users=range(600), unlisted="ignore"))
    # Several tasks of each person are a survey.
    assert not noticed(pr.Rankings.from_lists(ballots, users=np.arange(600) // 3, unlisted="ignore"))
    assert not noticed(pr.Rankings.from_lists(ballots[:60], users=range(60), unlisted="ignore"))
    # Large weights of a handful of rankings are no crowd.
    assert not noticed(pr.Rankings.from_lists(ballots[:5], weights=[1e6] * 5, unlisted="ignore"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.datasets.load("simulated").write(tmp_path / "lists.jsonl")
        assert pr.read(tmp_path / "lists.jsonl").n_items == 60


@pytest.mark.realdata
def test_public_elections_are_noticed_and_other_public_lists_are_not(data_folder):
    elections = {"00001-00000001.soi", "00005-00000001.toi", "00019-00000002.toi"}
    for file in sorted((data_folder / "preflib").iterdir()):
        assert noticed(pr.read(file, unlisted="ignore")) == (file.name in elections), file.name
    for name in ("sushi", "sushi-10", "nascar", "ml-100k", "filmtrust"):
        assert not noticed(pr.datasets.load(name)), name
    assert noticed(pr.datasets.load("apa", complete=False))
    assert not noticed(pr.datasets.load("apa"))
