"""Data sets by name, without a network."""

import zipfile

import pooch
import pytest

import permrank as pr
from permrank.errors import DataError, InputError, UnknownIdError
from permrank.files.datasets import registry


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise OSError("no network here")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    monkeypatch.setenv("PERMRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PERMRANK_DATA", raising=False)


@pytest.fixture
def small_filmtrust(monkeypatch):
    """Let the registry expect a small file, so that tests can make one."""
    entry = registry.DATASETS["filmtrust"]
    content = pr.Rankings.from_ratings({"user": [1, 1, 2], "item": [10, 20, 10], "rating": [3, 3.5, 2]})
    facts = {"counts": {"": (2, 2, 3, 2)}, "fingerprints": {"": content.fingerprint}}
    small = registry.Entry(**{**vars(entry), **facts})
    monkeypatch.setitem(registry.DATASETS, "filmtrust", small)
    return "1 10 3\n1 20 3.5\n2 10 1\n2 10 2\n"


def pack(folder, text):
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "filmtrust.zip", "w") as archive:
        archive.writestr("filmtrust/ratings.txt", text)


def test_names_are_those_of_the_documentation():
    assert pr.datasets.names() == sorted(
        [
            "ml-100k",
            "ml-1m",
            "sushi",
            "sushi-10",
            "apa",
            "nascar",
            "filmtrust",
            "gowalla",
            "lastfm-friends",
            "simulated",
        ]
    )


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownIdError, match="sushi"):
        pr.datasets.load("sushi10")
    with pytest.raises(UnknownIdError, match="data set"):
        pr.datasets.load(["sushi"])


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "sushi", "sushi-10", "filmtrust"])
def test_offline_one_sentence_says_what_to_fetch_and_where_to_put_it(name, tmp_path):
    with pytest.raises(DataError) as caught:
        pr.datasets.load(name)
    message = str(caught.value)
    entry = registry.DATASETS[name]
    for part in (entry.address, entry.file, str(tmp_path / "cache"), "PERMRANK_DATA", "no network here"):
        assert part in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["apa", "nascar"])
def test_data_without_a_download_say_where_they_come_from(name, tmp_path):
    with pytest.raises(DataError) as caught:
        pr.datasets.load(name)
    for part in (registry.DATASETS[name].page, str(tmp_path / "cache"), "PERMRANK_DATA"):
        assert part in str(caught.value)


def test_a_folder_of_the_user_is_searched_first_and_the_terms_are_shown_once(
    small_filmtrust, tmp_path, monkeypatch, capsys
):
    pack(tmp_path / "mine", small_filmtrust)
    monkeypatch.setenv("PERMRANK_DATA", str(tmp_path / "mine"))
    rankings = pr.datasets.load("filmtrust")
    assert rankings.ratings.tolist() == [3.5, 3, 2]  # of a repeated pair the last rating counts
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Guibing Guo" in shown.err
    pr.datasets.load("filmtrust")
    assert capsys.readouterr().err == ""


def test_a_file_in_the_cache_is_used_without_a_download(small_filmtrust, tmp_path):
    pack(tmp_path / "cache", small_filmtrust)
    assert pr.datasets.load("filmtrust").n_users == 2


def test_a_download_goes_to_the_cache_and_is_checked_by_its_content(small_filmtrust, tmp_path, monkeypatch):
    asked = []

    def retrieve(url, known_hash, fname, path):
        asked.append((url, known_hash))
        pack(path, small_filmtrust if len(asked) > 1 else "1 10 3\n")
        return str(path / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(DataError, match="users: 1, expected 2"):
        pr.datasets.load("filmtrust")
    assert not (tmp_path / "cache" / "filmtrust.zip").exists()
    assert pr.datasets.load("filmtrust").n_users == 2
    assert asked == [(registry.DATASETS["filmtrust"].address, None)] * 2


def test_a_download_with_a_known_checksum_must_have_it(monkeypatch):
    asked = {}

    def retrieve(url, known_hash, fname, path):
        asked[fname] = known_hash
        raise ValueError("hash differs")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    for name in ("ml-100k", "ml-1m"):
        with pytest.raises(DataError, match="hash differs"):
            pr.datasets.load(name)
    assert all(known.startswith("sha256:") and len(known) == 71 for known in asked.values())


def test_a_wrong_file_of_the_user_is_named_and_left_alone(tmp_path, monkeypatch):
    pack(tmp_path / "mine", "1 10 3\n")
    monkeypatch.setenv("PERMRANK_DATA", str(tmp_path / "mine"))
    with pytest.raises(DataError, match=r"mine.filmtrust\.zip is not the data set filmtrust"):
        pr.datasets.load("filmtrust")
    (tmp_path / "mine" / "filmtrust.zip").write_bytes(b"<html>")
    with pytest.raises(DataError, match="zip"):
        pr.datasets.load("filmtrust")
    assert (tmp_path / "mine" / "filmtrust.zip").exists()


def test_a_file_with_the_right_counts_and_other_content_is_refused(small_filmtrust, tmp_path, monkeypatch):
    monkeypatch.setenv("PERMRANK_DATA", str(tmp_path / "mine"))
    lines = small_filmtrust.splitlines()
    pack(tmp_path / "mine", "\n".join([lines[2], lines[1], lines[3], lines[0]]) + "\n")  # another order is fine
    assert pr.datasets.load("filmtrust").n_users == 2
    pack(tmp_path / "mine", small_filmtrust.replace("20 3.5", "20 1.5"))
    with pytest.raises(DataError, match="counts are right, but"):
        pr.datasets.load("filmtrust")


def test_every_part_of_every_data_set_has_a_fingerprint():
    for name, entry in registry.DATASETS.items():
        assert (entry.fingerprints or {}).keys() == (entry.counts or {}).keys(), name


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(small_filmtrust, tmp_path, monkeypatch):
    pack(tmp_path / "mine", small_filmtrust)
    monkeypatch.setenv("PERMRANK_DATA", str(tmp_path / "mine"))
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERMRANK_CACHE", str(tmp_path / "file" / "cache"))
    assert pr.datasets.load("filmtrust").n_users == 2


def test_simulated_takes_the_options_of_the_function():
    assert pr.datasets.load("simulated").n_users == 1000
    assert pr.datasets.load("simulated", n_users=10, seed=2) == pr.datasets.simulated(10, seed=2).rankings


def test_unknown_options_are_refused():
    with pytest.raises(InputError, match="complete"):
        pr.datasets.load("sushi", complete=True)
    with pytest.raises(InputError, match="has no option 'n_user'; it takes n_users"):
        pr.datasets.load("simulated", n_user=3)


def test_the_description_names_owner_terms_and_citation():
    frame = pr.datasets.describe()
    assert frame["name"].to_list() == pr.datasets.names()
    real = frame.filter(frame["name"] != "simulated")
    for column in ("owner", "page", "terms", "citation", "file"):
        assert (real[column].str.len_chars() > 0).all()
    assert pr.datasets.describe("ml-1m")["entries"].item() == 1_000_209


def test_no_two_data_sets_claim_one_file_with_different_addresses():
    addresses = {}
    for entry in registry.DATASETS.values():
        assert addresses.setdefault(entry.file, entry.address) == entry.address


@pytest.fixture
def small_lastfm(monkeypatch, tmp_path):
    """A file in the layout of lastfm-friends, and a registry that expects it."""
    counts = {"train": (2, 3, 3, 2), "test": (2, 3, 2, 2), "all": (2, 3, 5, 2)}
    small = registry.Entry(**{**vars(registry.DATASETS["lastfm-friends"]), "counts": counts, "fingerprints": {}})
    monkeypatch.setitem(registry.DATASETS, "lastfm-friends", small)
    monkeypatch.setenv("PERMRANK_DATA", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "lastfm-friends.zip", "w") as archive:
        archive.writestr("lastfm-friends/train.csv", "user,item\n1,10\n1,20\n2,10\n")
        archive.writestr("lastfm-friends/test.csv", "user,item\n1,30\n2,20\n")
        archive.writestr("lastfm-friends/friends.csv", "user,friend\n1,2\n")


def test_the_parts_of_a_published_split_share_users_and_items(small_lastfm):
    train, test = pr.datasets.load("lastfm-friends"), pr.datasets.load("lastfm-friends", part="test")
    assert train.lists() == [[{10, 20}], [10]]
    assert test.lists() == [[30], [20]]
    assert list(train.item_ids) == list(test.item_ids) == [10, 20, 30]
    assert pr.datasets.load("lastfm-friends", part="all").lists() == [[{10, 20, 30}], [{10, 20}]]
    with pytest.raises(InputError, match="part='valid', expected one of 'train', 'test', 'all'"):
        pr.datasets.load("lastfm-friends", part="valid")
    with pytest.raises(InputError, match="no option 'part'"):
        pr.datasets.load("ml-1m", part="test")


def test_a_split_that_nobody_hands_out_says_what_it_is_made_from():
    with pytest.raises(DataError, match=r"nobody hands out such a file: make it from https://snap"):
        pr.datasets.load("gowalla")
