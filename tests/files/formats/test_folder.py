"""Folders of rankings: equal when read back, checked before they are used, refused when damaged."""

import copy
import json
import pickle
import shutil

import numpy as np
import pytest

import permrank as pr
from permrank.errors import FormatError, InputError, PermrankError
from permrank.files.formats import folder as folders
from permrank.rankings.validate import check_arrays

LISTS = pr.Rankings.from_lists(
    [["a", {"b", "c"}], ["b", "é"], [], ["a"]], users=["ann", "ann", "bob", "cy"], weights=[2, 1, 1, 7], items=["z"]
)
RATED = pr.Rankings.from_ratings({"user": [1, 1, 2], "item": [10, 20, 10], "rating": [3, 5, 0.1]})
SETS = pr.Rankings.from_interactions({"user": [1, 1, 2, 2], "item": [1, 2, 1, 1]})
SAMPLES = {
    "lists": LISTS,
    "ratings": RATED.with_items({"item": [10, 30], "title": ["Heat (1995)", "é"]}).with_users(
        {"user": [1], "age": [3.5]}
    ),
    "sets": SETS,
    "ballots": pr.Rankings.from_lists([["a", "b"], ["b", "a"]]),
}


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "x.rankings"
    SAMPLES["ratings"].write(path)
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_a_folder_is_read_back_equal(name, tmp_path):
    wanted, path = SAMPLES[name], tmp_path / "x.rankings"
    wanted.write(path)
    found = pr.read(path, unlisted="ignore")
    sizes = found.n_users, found.n_rankings, found.n_items, found.n_entries
    assert "items" not in found.__dict__, "opening must not touch the arrays"
    assert sizes == (wanted.n_users, wanted.n_rankings, wanted.n_items, wanted.n_entries)
    assert found == wanted
    assert repr(found) == repr(wanted)
    assert found.fingerprint == wanted.fingerprint
    assert found.item_attributes.equals(wanted.item_attributes)
    assert found.user_attributes.equals(wanted.user_attributes)
    assert not found.items.flags.writeable
    check_arrays(found)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert other == wanted
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        found.nothing  # noqa: B018


def test_what_is_made_of_a_folder_is_no_folder(written):
    found = pr.read(written, items={"item": [10], "colour": ["red"]})
    assert type(found) is pr.Rankings
    assert found.n_entries == 3
    assert found.item_attributes["colour"].to_list() == ["red", None]
    assert pr.read(written).select(items=[10]).n_entries == 2
    assert pr.read(written, unlisted="last").n_users == 2


def test_what_is_there_is_never_replaced(written):
    with pytest.raises(InputError, match="there already"):
        RATED.write(written)
    assert pr.read(written) == SAMPLES["ratings"]
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        RATED.write(written / "no" / "x.rankings")
    assert list(written.parent.iterdir()) == [written]


def test_a_writer_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_packed", lambda vocabulary: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        RATED.write(tmp_path / "x.rankings")
    assert not list(tmp_path.iterdir())


def test_options_of_tables_are_refused(written):
    for options in ({"user": "u"}, {"duplicates": "last"}, {"kind": "interactions"}, {"format": "csv"}):
        with pytest.raises(InputError, match="leave it out"):
            pr.read(written, **options)


def attempt(path):
    """Open and use; what comes back must be what was written, or one of our errors that names a file of the folder."""
    try:
        found = pr.read(path)
        found.lists()
    except PermrankError as error:
        assert path.name in str(error)
        return False
    assert found == SAMPLES["ratings"]
    return True


def files_of(path):
    return sorted(file for file in path.iterdir())


def test_files_cut_lengthened_swapped_or_missing_are_refused(written):
    for file in files_of(written):
        content = file.read_bytes()
        for other in (content[:-1], content[: len(content) // 2], b"", content + content[-8:], content + b"\0" * 8):
            file.write_bytes(other)
            assert not attempt(written), (file.name, other)
        file.unlink()
        assert not attempt(written), file.name
        file.mkdir()
        assert not attempt(written), file.name
        file.rmdir()
        file.write_bytes(content)
        assert attempt(written)


def test_every_changed_byte_is_noticed(written):
    rng = np.random.default_rng(3)
    for file in files_of(written):
        content = file.read_bytes()
        for place in rng.choice(len(content), min(len(content), 40), replace=False):
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(8)
            file.write_bytes(damaged)
            if file.name != folders.HEADER:
                assert not attempt(written), (file.name, place)
            else:  # spaces between the words of the header mean nothing
                attempt(written)
        file.write_bytes(content)


def forged(path, name, change, **header):
    """Change an array and give it a header that says so: what somebody would do who means harm."""
    whole = json.loads((path / folders.HEADER).read_text(encoding="utf-8")) | header
    whole.pop("sha256")
    if name is not None:
        numbers = np.fromfile(path / name, whole["arrays"][name])
        change(numbers).tofile(path / name)
    whole["sha256"] = folders._digest(whole)
    (path / folders.HEADER).write_text(json.dumps(whole), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("items", lambda items: items + 2**30),
        ("items", lambda items: items - 1),
        ("indptr", lambda indptr: indptr[::-1]),
        ("indptr", lambda indptr: indptr + np.int64(2) ** 60),
        ("user_indptr", lambda indptr: indptr * 1000),
        ("levels", lambda levels: levels + 7),
        ("weights", lambda weights: -weights),
        ("ratings", lambda ratings: ratings * np.nan),
    ],
)
def test_arrays_that_would_make_a_kernel_read_elsewhere_are_refused(name, change, written):
    forged(written, name, change)
    rankings = pr.read(written)
    with pytest.raises(FormatError, match="convert the data again"):
        pr.FactoredPlackettLuce(2, max_iter=2).fit(rankings)


@pytest.mark.parametrize(
    "header",
    [
        {"arrays": {}}, {"arrays": {"items": "<i8"}}, {"arrays": []}, {"anonymous": 1}, {"users": None},
        {"arrays": dict.fromkeys(folders._NEEDED, "|O")}, {"format": "2"}, {"format": None},
        {"arrays": {**dict.fromkeys(folders._NEEDED, "<i8"), "../../secret": "<i8"}},
    ],
)  # fmt: skip
def test_headers_that_ask_for_something_else_are_refused(header, written):
    forged(written, None, None, **header)
    with pytest.raises(FormatError):
        pr.read(written)


def test_a_folder_without_a_header_is_refused(written):
    shutil.copytree(written, written.with_name("y.rankings"), ignore=lambda *_: [folders.HEADER])
    with pytest.raises(FormatError, match="damaged"):
        pr.read(written.with_name("y.rankings"))


def test_models_learn_the_same_from_a_folder(tmp_path):
    rankings = pr.datasets.load("simulated", n_users=30, n_items=20)
    rankings.write(tmp_path / "x.rankings")
    one, other = (pr.PlackettLuce(prior="gaussian").fit(data) for data in (rankings, pr.read(tmp_path / "x.rankings")))
    assert np.array_equal(one.scores_, other.scores_)
