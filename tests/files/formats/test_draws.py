"""Pairs that drew, and columns that look as if they said so."""

import polars as pl
import pytest

import permrank as pr
from permrank.errors import FormatError, InputError

# Draws


@pytest.mark.parametrize("header", ["draw", "is_draw", "Drawn", "tie", "tied", "isTie"])
def test_a_draw_beside_winner_and_loser_ties_the_two(header, read_text):
    rankings = read_text(f"winner,loser,{header}\na,b,0\na,b,1\nb,a,true\na,b,FALSE\nb,a,\nb,a,no\na,b,1.0\n")
    assert rankings.lists() == [["a", "b"], [{"a", "b"}], ["b", "a"]]
    assert rankings.weights.tolist() == [2, 3, 2]


@pytest.mark.parametrize("header", ["result", "Outcome", "score"])
def test_results_and_scores_tell_draws_from_wins(header, read_text):
    rows = ["a,b,win", "a,b,draw", "a,b,2-1", "b,a,0:1", "b,a,1/2-1/2", "a,b,2 - 2", "a,b,½-½"]
    rankings = read_text("\n".join([f"winner,loser,{header}", *rows]))
    assert rankings.lists() == [["a", "b"], [{"a", "b"}], ["b", "a"]]
    assert rankings.weights.tolist() == [2, 4, 1]


def test_a_score_of_several_sets_or_words_is_no_draw(read_text):
    assert not read_text("winner,loser,score\na,b,6-4 6-3\na,b,W/O\na,b,\n").has_ties


def test_what_does_not_say_whether_the_two_drew_is_named_with_its_line(read_text, refusal):
    wrong = [("draw", "maybe"), ("draw", "2"), ("tie", "-1")]
    # A lone 1 may be a flag or the points of the winner.
    for header, value in [*wrong, ("result", "1"), ("result", "0"), ("outcome", "true")]:
        message = refusal(f"winner,loser,{header}\na,b,win\na,c,{value}\n")
        for word in ("line 3", repr(value), repr(header), "draw="):
            assert word in message
    # The column of draws goes before one of results; and it can be named.
    assert read_text("winner,loser,draw,result\na,b,1,KO\n").has_ties
    assert read_text("winner,loser,level,result\na,b,1,KO\n", draw="level").has_ties
    assert "pass draw=" in refusal("winner,loser,draw,tie\na,b,1,1\n")
    assert "line 2" in refusal("winner,loser,draw\na,a,1\n")


def test_draws_of_users_in_parquet_are_ties(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2], "winner": [1, 2, 1], "loser": [2, 1, 2], "draw": [True, None, False]})
    frame.write_parquet(tmp_path / "games.parquet")
    assert pr.read(tmp_path / "games.parquet").lists() == [[{1, 2}], [2, 1], [1, 2]]
    assert pr.Rankings.from_pairs(frame, draw="draw").lists() == [[{1, 2}], [2, 1], [1, 2]]
    numbers = frame.with_columns(pl.col("draw").cast(pl.Float64))
    assert pr.Rankings.from_pairs(numbers, draw="draw") == pr.Rankings.from_pairs(frame, draw="draw")
    with pytest.raises(InputError, match=r"column 'draw' \(draw\) is List"):
        pr.Rankings.from_pairs({"winner": ["a"], "loser": ["b"], "draw": [[1]]}, user=None, draw="draw")
    with pytest.raises(InputError, match=r"row 1: 7 in column 'draw'"):
        pr.Rankings.from_pairs({"winner": ["a", "b"], "loser": ["b", "a"], "draw": [0, 7]}, user=None, draw="draw")


def test_a_column_called_tie_or_score_beside_ranks_changes_nothing(read_text):
    text = "user,item,rank,tie,score\nann,x,1,maybe,7\nann,y,2,,8\n"
    assert read_text(text).lists() == [["x", "y"]]


def test_how_a_game_was_won_is_no_draw(read_text):
    rankings = read_text("winner,loser,result\na,b,KO\nb,c,Decision\nc,a,\nc,b,Draw\na,c,D\n")
    assert rankings.lists() == [["a", "b"], [{"a", "c"}], ["b", "c"], [{"b", "c"}], ["c", "a"]]


@pytest.mark.parametrize("header", ["voter,first,second,third", "Choice 1,Choice 2,Choice 3", "id,1st,2nd", "1,2,3"])
def test_a_rank_in_each_column_is_refused_with_what_to_do(tmp_path, header):
    path = tmp_path / "ballots.csv"
    path.write_text(f"{header}\n" + ",".join("abcd"[: header.count(",") + 1]) + "\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"a row for each rank"):
        pr.read(path)
