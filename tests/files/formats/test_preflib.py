"""PrefLib files, as others write them."""

import pytest

import permrank as pr
from permrank.errors import PermrankError

HEADER = """# FILE NAME: x.toi
# TITLE: a vote
# DATA TYPE: toi
# NUMBER ALTERNATIVES: 4
# NUMBER VOTERS: 8
# NUMBER UNIQUE ORDERS: 3
# ALTERNATIVE NAME 1: Ann
# ALTERNATIVE NAME 2: Bob
# ALTERNATIVE NAME 3: Cy
# ALTERNATIVE NAME 4: Dee
"""
BODY = "5: 3,{1,4},2\n2: 2\n1: {1,2}\n"


@pytest.fixture
def read_text(tmp_path):
    def run(text, name="x.toi", **options):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return pr.read(tmp_path / name, **options)

    return run


def test_orders_ties_counts_and_names_are_read(read_text):
    rankings = read_text(HEADER + BODY)
    assert rankings.lists() == [["Cy", {"Ann", "Dee"}, "Bob"], ["Bob"], [{"Ann", "Bob"}]]
    assert rankings.weights.tolist() == [5, 2, 1]
    assert rankings.anonymous
    assert rankings.n_items == 4


def test_spaces_between_the_parts_do_not_matter(read_text):
    assert read_text(HEADER + " 5 :  3, { 1 , 4 } ,2 \r\n\n2:2\n1: {1,2}") == read_text(HEADER + BODY)


def test_unlisted_alternatives_can_come_last(read_text):
    rankings = read_text(HEADER + BODY, unlisted="last")
    assert rankings.lists()[1] == ["Bob", {"Ann", "Cy", "Dee"}]


def test_an_order_that_nobody_gave_is_no_vote(read_text):
    # Whether the header counts such lines among the unique orders differs from file to file.
    for n_orders in (3, 4):
        text = HEADER.replace("ORDERS: 3", f"ORDERS: {n_orders}") + "0: 4,1\n" + BODY
        assert read_text(text) == read_text(HEADER + BODY)


def test_an_order_that_comes_twice_is_merged(read_text):
    rankings = read_text(HEADER + "5: 1,2\n2: 3\n1: 1,2\n")
    assert rankings.weights.tolist() == [6, 2]


def test_names_that_repeat_get_their_number(read_text):
    text = HEADER.replace("Dee", "Ann").replace("Cy", "Ann") + "8: 4,3,2,1\n"
    rankings = read_text(text.replace("ORDERS: 3", "ORDERS: 1"))
    assert rankings.lists() == [["Ann (4)", "Ann (3)", "Bob", "Ann"]]


def test_blank_names_get_a_number(read_text):
    assert "alternative 3" in read_text((HEADER + BODY).replace("Cy", "")).item_ids


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (HEADER + BODY.replace("5:", "4:"), "x.toi", ["NUMBER VOTERS: 8", "7"]),
        (HEADER + BODY + "1: 4\n", "x.toi", ["NUMBER VOTERS: 8", "9"]),
        (HEADER.replace("ORDERS: 3", "ORDERS: 4") + BODY, "x.toi", ["NUMBER UNIQUE ORDERS: 4", "3"]),
        (HEADER.replace("ALTERNATIVES: 4", "ALTERNATIVES: 5") + BODY, "x.toi", ["NUMBER ALTERNATIVES is 5"]),
        (HEADER.replace("ALTERNATIVES: 4", "ALTERNATIVES: many") + BODY, "x.toi", ["line 4", "many"]),
        (HEADER + "# NUMBER VOTERS: 9\n" + BODY, "x.toi", ["line 11", "NUMBER VOTERS is 9, but 8 above"]),
        (HEADER.replace("NAME 4", "NAME 3") + BODY, "x.toi", ["line 10", "second name"]),
        (HEADER + BODY.replace("2: 2", "2: 7"), "x.toi", ["line 12", "alternative 7"]),
        (HEADER + BODY.replace("2: 2", "2: 0"), "x.toi", ["line 12", "alternative 0"]),
        (HEADER + BODY.replace("2: 2", "2: 3,3"), "x.toi", ["line 12", "'Cy'", "second time"]),
        (HEADER + BODY.replace("2: 2", "2: "), "x.toi", ["line 12"]),
        (HEADER + BODY.replace("2: 2", "0: 2"), "x.toi", ["NUMBER VOTERS: 8", "6"]),
        (HEADER + "0: 1,2\n0: 2\n", "x.toi", ["no orders"]),
        (HEADER.replace("ORDERS: 3", "ORDERS: 5") + BODY + "0: 1,2\n", "x.toi", ["NUMBER UNIQUE ORDERS: 5", "4"]),
        (HEADER + BODY + "0: 1,x\n", "x.toi", ["line 14"]),
        (
            HEADER.replace("ALTERNATIVES: 4", "ALTERNATIVES: 999999999999") + BODY,
            "x.toi",
            ["999999999999", "there are 4"],
        ),
        (HEADER.replace("NAME 4", "NAME 999999999") + BODY, "x.toi", ["NUMBER ALTERNATIVES is 4"]),
        (HEADER + BODY.replace("2: 2", "2: {1,{2,3}}"), "x.toi", ["line 12"]),
        (HEADER + BODY.replace("2: 2", "2: {1"), "x.toi", ["line 12"]),
        (HEADER + BODY.replace("2: 2", "2: 1 2"), "x.toi", ["line 12"]),
        (HEADER + BODY.replace("2: 2", "two: 2"), "x.toi", ["line 12", "two"]),
        (HEADER + BODY, "x.soi", ["line 11", ".toi"]),
        (HEADER + BODY, "x.toc", ["line 12", ".toi"]),
        (HEADER, "x.toi", ["no orders"]),
        ("4\n1,Ann\n", "x.toi", ["NUMBER ALTERNATIVES"]),
        ("", "x.toi", ["empty"]),
    ],
)
def test_what_is_wrong_is_named(text, name, words, read_text):
    with pytest.raises(PermrankError) as caught:
        read_text(text, name)
    for word in [name, *words]:
        assert word in str(caught.value)


def test_a_line_of_a_million_spaces_takes_no_time(read_text):
    for line in (" " * 10**6, "1: " + " " * 10**6 + "x", "1: {" + " " * 10**6, "#" + " " * 10**6):
        with pytest.raises(PermrankError):
            read_text(HEADER + BODY.replace("2: 2", line + "!" if line.isspace() else line))


def test_what_is_written_has_the_usual_header(tmp_path):
    pr.Rankings.from_lists([["a", "b"], ["b", "a"]], weights=[2, 1]).write(tmp_path / "vote.soc")
    text = (tmp_path / "vote.soc").read_text(encoding="utf-8")
    for line in (
        "# FILE NAME: vote.soc", "# DATA TYPE: soc", "# NUMBER ALTERNATIVES: 2", "# NUMBER VOTERS: 3",
        "# NUMBER UNIQUE ORDERS: 2", "# ALTERNATIVE NAME 1: a", "# ALTERNATIVE NAME 2: b", "2: 1,2", "1: 2,1",
    ):  # fmt: skip
        assert line in text.splitlines()
