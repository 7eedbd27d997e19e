"""Input that is too wide, too long, too deep or too heavy gets its answer at once, and a short one."""

import time

import numpy as np
import pytest

import permrank as pr
from permrank.errors import InputError, PermrankError, UnknownIdError

LONG = "x" * 1_000_000


def test_a_header_of_fifty_thousand_columns_is_read_in_linear_time(read_text):
    # Quadratic work on this many names takes a minute or more, linear work a second or two.
    n, began = 50_000, time.process_time()
    others, blanks = ",".join(f"c{place}" for place in range(n)), "," * (n - 1)
    text = f"user,item,rating,{others}\nann,x,3,{blanks}\nann,y,4,{blanks}\n"
    assert read_text(text).lists() == [["y", "x"]]
    assert read_text(text.replace("\n", "\n\n", 1)).lists() == [["y", "x"]]  # blank lines need the other parser
    with pytest.raises(PermrankError, match=r"and 49980 more"):
        read_text(f"{others}\n{blanks}\n")
    assert read_text(f"user,item,rating{',x' * n}\nann,x,3,{blanks}\n").n_entries == 1
    assert time.process_time() - began < 20


def test_a_column_that_comes_twice_asks_for_a_choice(read_text):
    text = "user,item,rating,rating\nann,x,3,1\nann,y,2,2\n"
    with pytest.raises(PermrankError, match=r"'rating', 'rating \(column 4\)'; pass rating="):
        read_text(text)
    assert read_text(text, rating="rating").lists() == [["x", "y"]]
    assert read_text(text, rating="rating (column 4)").lists() == [["y", "x"]]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"user,item,rating\nann,x,{LONG}\n", "file.csv"),
        (f"user,item,rating\nann,{LONG},1\nann,{LONG},1\n", "file.csv"),
        (f"user,item,{LONG}\nann,x,1\n", "file.csv"),
        (f"user,item,rating\n\nann,{LONG},1\n", "file.csv"),
        (f"user,item:int,rating\nann,{LONG},1\n", "file.csv"),
        (f"winner,loser,draw\na,b,{LONG}\n", "file.csv"),
        (f"winner,loser\n{LONG},{LONG}\n", "file.csv"),
        (f'["{LONG}", "{LONG}"]', "file.jsonl"),
        (f'{{"{LONG}": 1}}', "file.jsonl"),
        (f'{{"user": 1, "{LONG}": 1, "{LONG}": 1}}', "file.jsonl"),
        (f"[{'9' * 1_000_000}]", "file.jsonl"),
        (f"[{'9' * 4000}]", "file.jsonl"),
        ("[" * 50_000 + "]" * 50_000, "file.jsonl"),
        ('{"ranking":' * 50_000 + "1" + "}" * 50_000, "file.jsonl"),
        (f"# NUMBER ALTERNATIVES: 1\n# ALTERNATIVE NAME 1: {LONG}\n1: 1,1\n", "file.soi"),
        (f"# NUMBER ALTERNATIVES: 1\n# ALTERNATIVE NAME 1: a\n{'9' * 30}: 1\n", "file.soi"),
    ],
)
def test_messages_about_long_values_stay_short(text, name, read_text, tmp_path):
    with pytest.raises(PermrankError) as caught:
        read_text(text, name)
    assert len(str(caught.value)) < 400 + 2 * len(str(tmp_path))


def test_messages_about_long_python_values_stay_short():
    rankings = pr.Rankings.from_lists([[LONG, "b"]])
    for action in (
        lambda: pr.Rankings.from_lists([[LONG, LONG]]),
        lambda: pr.Rankings.from_lists([LONG]),
        lambda: rankings.select(items=[LONG + "y"]),
    ):
        with pytest.raises((InputError, UnknownIdError)) as caught:
            action()
        assert len(str(caught.value)) < 400


def test_a_json_object_of_very_many_keys_is_answered_at_once(read_text):
    keys = ",".join(f'"k{place}":1' for place in range(60_000))
    with pytest.raises(PermrankError, match="'k59999' comes twice"):
        read_text(f'{{{keys},"k59999":1}}', "file.jsonl")


def test_ranks_and_ratings_of_any_size_keep_their_order(read_text):
    assert read_text("user,item,rank\na,x,1e30\na,y,1e29\na,z,-1e308\n").lists() == [["z", "y", "x"]]
    assert pr.Rankings.from_ranks({"user": [1, 1], "item": [1, 2], "rank": [10**30, 1]}).lists() == [[2, 1]]


def test_numbers_beyond_all_floats_are_refused():
    for weights in ([10**400], [float("inf")]):
        with pytest.raises(InputError):
            pr.Rankings.from_lists([["a"]], weights=weights)
    with pytest.raises(InputError):
        pr.Rankings.from_ratings({"user": [1], "item": [1], "rating": [10**400]})


def test_completing_lists_over_a_large_catalogue_is_refused_before_memory_runs_out():
    lists = [[place] for place in range(12_000)]
    with pytest.raises(InputError, match=r"144000000 entries; unlisted='last' is for"):
        pr.Rankings.from_lists(lists, users=range(12_000), unlisted="last")
    few = pr.Rankings.from_lists({"u": [3, {1, 4}], "v": [0]}, items=range(5), unlisted="last")
    assert few.lists() == [[3, {1, 4}, {0, 2}], [0, {1, 2, 3, 4}]]
    assert few.levels.dtype == np.int32


def test_lists_with_more_different_pairs_than_are_kept_are_refused():
    items = np.arange(12_000)
    two = pr.Rankings.from_lists([items.tolist(), items[::-1].tolist()])
    with pytest.raises(InputError, match=r"71,994,000 different pairs of items, more than .* use PlackettLuce"):
        pr.BradleyTerry(prior="gaussian").fit(two)
    many = pr.Rankings.from_lists([np.roll(items, 3_000 * k)[:6_000].tolist() for k in range(4)])
    with pytest.raises(InputError, match=r"53,994,000 different pairs"):  # no list alone has too many
        pr.BradleyTerry(prior="gaussian").fit(many)
