"""Parquet in batches gives the rankings, and the errors, of a table in memory."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.errors import FormatError, InputError, PermrankError
from permrank.files.formats import parquet, streaming
from permrank.files.formats.tables import rankings_from_frame
from permrank.rankings import build

quiet = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def small(monkeypatch):
    """Batches of three rows, blocks of two entries: every boundary is met."""
    monkeypatch.setattr(parquet.ParquetFiles.__init__, "__defaults__", (3,))
    monkeypatch.setattr(build, "_BLOCK", 2)


def in_parts(frame, folder, n_files):
    """The rows in several files, one after the other."""
    folder.mkdir()
    cuts = np.linspace(0, frame.height, n_files + 1).astype(int)
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        frame[first:last].write_parquet(folder / f"part-{number}.parquet")
    return folder


def outcome(work):
    """What comes of it: rankings with their digest, or an error."""
    try:
        found = work()
    except PermrankError as error:
        return type(error).__name__
    return found, found.fingerprint, [array.dtype for array in found._arrays]


def table(draw):
    """Rows of every kind: ids of both types, repeated, missing or alone; a few values or many; counts or none."""
    n = draw(st.integers(1, 14))
    names = draw(st.sampled_from([list("abcdé"), [3, 5, 8, -2], [10**12, 5, -(10**15)]]))
    missing = draw(st.sampled_from([[], [None]]))
    users = draw(st.lists(st.sampled_from([*range(4), *missing]), min_size=n, max_size=n))
    items = draw(st.lists(st.sampled_from([*names, *missing]), min_size=n, max_size=n))
    role = draw(st.sampled_from(["rating", "rank", "count", None]))
    columns = {"user": users, "item": items}
    if role is not None:
        numbers = [1.0, 2.5, 3.0, 0.1, 1 / 3, 1e9] if role != "rank" else [1, 2, 3, 4, 5]
        columns[role] = draw(st.lists(st.sampled_from([*numbers, *missing]), min_size=n, max_size=n))
    return pl.DataFrame(columns, schema_overrides={"user": pl.Int64})


@quiet
@given(data=st.data(), n_files=st.integers(1, 3), duplicates=st.sampled_from(["error", "first", "last", "mean"]))
def test_batches_give_the_rankings_of_the_whole_table(data, n_files, duplicates, small, tmp_path_factory):
    frame = table(data.draw)
    folder = in_parts(frame, tmp_path_factory.mktemp("x") / "parts", n_files)
    wanted = outcome(lambda: rankings_from_frame(frame, duplicates=duplicates))
    got = outcome(lambda: pr.read(folder, unlisted="ignore", duplicates=duplicates))
    # An error of the frame is that of the file, which is a FormatError where it is about the file.
    assert got == wanted or {got, wanted} == {"FormatError", "InputError"}


@pytest.mark.parametrize("kind", ["rating", "rank", "count"])
def test_many_rows_in_any_order_give_the_rankings_of_the_whole_table(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet.ParquetFiles.__init__, "__defaults__", (1000,))
    monkeypatch.setattr(build, "_BLOCK", 777)
    rng = np.random.default_rng(1)
    pairs = rng.permutation(200 * 50)[:5000]
    pairs = pairs if kind != "count" else rng.choice(pairs, 5000)
    values = {"rating": rng.integers(1, 11, 5000) / 2, "rank": rng.permutation(5000), "count": rng.random(5000)}
    users = pl.Series([f"user {user}" for user in pairs // 50])
    frame = pl.DataFrame({"user": users, "item": pairs % 50, kind: values[kind]})
    rankings = pr.read(in_parts(frame, tmp_path / "parts", 3), unlisted="ignore")
    assert rankings == rankings_from_frame(frame)
    assert rankings.fingerprint == rankings_from_frame(frame).fingerprint


FAULTS = {
    "a rating": ({"rating": [1.0, 2.0, 3.0, 4.0, float("nan"), 5.0]}, "row 1: rating nan is not a finite number"),
    "no user": ({"user": ["a", "a", "b", "b", None, "c"]}, "row 1: the user id is empty"),
    "blank item": ({"item": ["u", "v", "u", "v", " ", "u"]}, "row 1: the item id is empty"),
    "twice": ({"user": ["a", "a", "b", "b", "a", "c"]}, r"row 1: user 'a' has item 'u' a second time \(first in .*"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_errors_name_file_row_value_and_remedy(name, small, tmp_path):
    columns = {"user": list("aabbcc"), "item": list("uvuvuv"), "rating": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    columns = {**columns, "item": list("uvuvuv"), **FAULTS[name][0]}
    folder = in_parts(pl.DataFrame(columns), tmp_path / "parts", 2)
    with pytest.raises((InputError, FormatError), match=f"part-1.parquet, {FAULTS[name][1]}") as caught:
        pr.read(folder)
    assert any(remedy in str(caught.value) for remedy in ("drop", "correct"))
    if name == "twice":
        assert "(first in " + str(folder / "part-0.parquet") + ", row 0)" in str(caught.value)


def test_the_first_row_that_repeats_is_named_wherever_the_other_one_is(small, tmp_path):
    users = [1, 2, 3, 4, 5, 6, 2, 7, 1, 2]
    frame = pl.DataFrame({"user": users, "item": [1] * 10, "rating": [2.0] * 10})
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet, row 6: user 2 .*\(first in .*x\.parquet, row 1\)"):
        pr.read(tmp_path / "x.parquet")


def test_files_of_a_pattern_are_read_in_order(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 1], "rating": [1.0, 2.0, 3.0, 4.0]})
    folder = in_parts(frame, tmp_path / "parts", 2)
    (folder / "other.csv").write_text("nothing", encoding="utf-8")
    found = pr.read(folder / "part-*.parquet", duplicates="last")
    assert found.ratings.tolist() == [2.0, 1.0, 4.0]
    with pytest.raises(InputError, match="no file fits"):
        pr.read(folder / "none-*.parquet")
    with pytest.raises(InputError, match=r"other\.csv is no \.parquet file"):
        pr.read(folder / "*")


def test_files_that_do_not_go_together_are_refused(tmp_path):
    pl.DataFrame({"user": [1], "item": [1], "rating": [1.0]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"user": [1], "item": ["x"], "rating": [1.0]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(FormatError, match=r"b\.parquet, row 0: item ids are String, and Int64 in the files before"):
        pr.read(tmp_path)
    pl.DataFrame({"user": [1], "item": [1], "stars": [1.0]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(FormatError, match=r"b\.parquet has no column 'rating', which .*a\.parquet has"):
        pr.read(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(FormatError, match=r"b\.parquet cannot be read as Parquet"):
        pr.read(tmp_path)


def test_what_cannot_be_streamed_is_read_from_several_files_all_the_same(small, tmp_path):
    frame = pl.DataFrame({"user": list("aaabbb"), "ranking": [1, 1, 2, 1, 1, 2], "item": list("uvuvuv")})
    frame = frame.with_columns(rank=pl.Series([1, 2, 1, 1, 2, 1]), weight=pl.Series([2.0, 2.0, 1.0, 1.0, 1.0, 3.0]))
    assert pr.read(in_parts(frame, tmp_path / "parts", 4)) == rankings_from_frame(frame)


def test_a_file_that_changes_between_two_looks_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1.0, 2.0, 3.0]}).write_parquet(path)
    second = streaming._second_walk

    def changed(*arguments):
        pl.DataFrame({"user": [2, 1, 2], "item": [1, 2, 1], "rating": [1.0, 2.0, 3.0]}).write_parquet(path)
        return second(*arguments)

    monkeypatch.setattr(streaming, "_second_walk", changed)
    with pytest.raises(FormatError, match="changed while it was read"):
        pr.read(path)
