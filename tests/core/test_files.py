"""Model files that lie about themselves."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.errors import FormatError
from permrank.files import container
from permrank.testing.forging import resigned

RANKINGS = pr.Rankings.from_lists({"ü": ["a", "ß"], "v": [{"ß", "a"}, "漢"], "w": ["漢", "ß", "a"]})


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "m.permrank"
    pr.PlackettLuce(prior="gamma").fit(RANKINGS).save(target)
    return target


def test_a_resigned_but_unchanged_file_loads(path):
    resigned(path)
    assert pr.load(path).rankings_ == RANKINGS


@pytest.mark.parametrize(
    ("header", "tensors", "message"),
    [
        ({"format": "2"}, {}, "has format '2'; this permrank reads format '1'"),
        ({"parameters": '{"ties": "zzz"}'}, {}, "ties='zzz'"),
        ({"parameters": '{"prior": "gaussian"}'}, {}, "prior_scale_ is 0"),
        ({"parameters": "[" * 200_000}, {}, "not a whole permrank model"),
        ({"fit": "[" * 200_000}, {}, "not a whole permrank model"),
        ({"fit": "[]"}, {}, "not a whole permrank model"),
        ({}, {"prior_scale_": np.ones(3)}, "prior_scale_"),
        ({}, {"scores_": None}, "scores_"),
        ({}, {"prior_scale_": np.array(-1.0)}, "prior_scale_ is -1.0"),
        ({}, {"scores_": np.zeros(3, np.float16)}, "float64"),
        ({}, {"scores_": np.zeros(3, np.int8)}, "float64"),
        ({}, {"scores_": np.array([1e308, -1e308, 0])}, "beyond 1e"),
        ({}, {"history_": np.zeros((2, 2))}, "history_"),
        ({}, {"history_": np.array([np.nan])}, "history_"),
        ({}, {"data.user_ids.offsets": None, "data.user_ids": np.zeros((3, 2), np.int64)}, "not a whole"),
        ({}, {"data.user_ids.offsets": None, "data.user_ids": np.array(3)}, "not a whole"),
        ({}, {"data.user_ids.offsets": None, "data.user_ids": np.array([0.5, 1.5, 2.5])}, "not a whole"),
        ({}, {"data.user_ids.offsets": np.array(0)}, "not a whole"),
        ({}, {"data.user_ids.offsets": np.zeros((2, 2), np.int64)}, "not a whole"),
        ({}, {"data.indptr": np.array(0)}, "not a whole"),
        ({}, {"data.indptr": np.array([0, 2, np.nan, 8])}, "not a whole"),
        ({}, {"data.weights": np.array(1.0)}, "not a whole"),
        ({"class": "os.system"}, {}, "class 'os.system' is not known"),
        ({"parameters": '{"nonsense": 1}'}, {}, "nonsense"),
        ({"parameters": "[]"}, {}, "not a whole permrank model"),
        ({"fingerprint": "0"}, {}, "fingerprint"),
        ({}, {"scores_": np.zeros(7)}, "scores_ has shape"),
        ({}, {"scores_": np.full(3, np.nan)}, "not finite"),
        ({}, {"data.items": np.array([0, 1, 9], np.int32)}, "not a whole permrank model"),
        ({}, {"data.items": np.full(8, 99, np.int32)}, "not a whole permrank model"),
        ({}, {"data.item_ids.offsets": np.array([0, 99, 100])}, "offsets"),
        ({}, {"data.item_ids.offsets": np.array([0, 2, 1, 6])}, "offsets"),
        (
            {},
            {"data.item_ids.bytes": np.frombuffer(b"\xff\xfe\xfda\xc3\x28", np.uint8)},
            "not a whole permrank model",
        ),
        ({}, {"data.user_ids.offsets": None, "data.user_ids": np.array([3, 2, 1])}, "not sorted"),
    ],
)
def test_a_file_with_a_right_checksum_and_wrong_content_is_refused(path, header, tensors, message):
    resigned(path, header, tensors)
    with pytest.raises(FormatError, match=message):
        pr.load(path)


def test_every_cut_and_every_changed_byte_is_noticed(path):
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        with pytest.raises(FormatError):
            container.read_header(content[:place], path)
        with pytest.raises(FormatError):
            container.read_header(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :], path)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_model(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "x.permrank"
    path.write_bytes(content)
    with pytest.raises(FormatError):
        pr.load(path)


def test_a_header_that_claims_a_huge_length_is_refused(tmp_path):
    path = tmp_path / "x.permrank"
    path.write_bytes(struct.pack("<Q", 2**60) + b"{}")
    with pytest.raises(FormatError, match="not a permrank model file"):
        pr.load(path)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 200_000,
        b"[]",
        json.dumps({"__metadata__": None}).encode(),
        json.dumps({"__metadata__": {"format": "1", "sha256": "\ud800" * 64}}).encode(),
        json.dumps({"__metadata__": {"format": "\x1b[2J" * 50, "sha256": "0" * 64}}).encode(),
    ],
)
def test_a_header_of_nonsense_is_refused_in_one_printable_line(tmp_path, header):
    path = tmp_path / "x.permrank"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(FormatError) as caught:
        pr.load(path)
    message = str(caught.value).replace(str(path), "")
    assert message.isprintable()
    assert len(message) < 200


def test_names_that_no_file_can_have_are_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    pr.PlackettLuce(prior="gamma").fit(RANKINGS).save(tmp_path / "m.permrank")
    assert pr.load("~/m.permrank").rankings_ == RANKINGS
    for name in ("a\0", "x" * 300):
        with pytest.raises(FormatError, match="cannot be read"):
            pr.load(name)
        with pytest.raises(pr.errors.InputError):
            pr.read(f"{name}.csv")
        with pytest.raises(pr.errors.InputError, match="cannot write"):
            RANKINGS.write(f"{name}.csv")
        with pytest.raises(pr.errors.InputError, match="cannot write"):
            pr.PlackettLuce(prior="gamma").fit(RANKINGS).save(f"{name}.permrank")


def test_a_missing_file_and_a_missing_folder_are_reported(tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        pr.load(tmp_path / "nothing.permrank")
    with pytest.raises(pr.errors.InputError, match="cannot write"):
        pr.PlackettLuce(prior="gamma").fit(RANKINGS).save(tmp_path / "no" / "m.permrank")


def test_a_failed_save_keeps_the_old_file(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        pr.PlackettLuce(prior="gamma").fit(RANKINGS).save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_parameter_that_json_cannot_hold_is_refused(tmp_path):
    model = pr.PlackettLuce(prior="gamma").fit(RANKINGS)
    model.fitted_.settings.seed = object()
    with pytest.raises(TypeError, match="cannot be written"):
        model.save(tmp_path / "m.permrank")


def test_counts_are_kept_in_model_files_and_guarded(tmp_path):
    clicks = pr.Rankings.from_interactions({"user": ["u", "u", "v", "u"], "item": ["a", "b", "b", "b"]})
    target = tmp_path / "m.permrank"
    pr.Popularity(count="listed").fit(clicks).save(target)
    again = pr.load(target).rankings_
    assert again == clicks
    assert again.counts.tolist() == [1, 2, 1]
    for counts in (np.array([1.0, -2.0, 1.0]), np.array([1.0, 3.0, 1.0]), np.array([1, 2, 1]), np.ones((3, 1))):
        resigned(target, {}, {"data.counts": counts})
        with pytest.raises(FormatError, match="not a whole permrank model"):
            pr.load(target)
        pr.Popularity(count="listed").fit(clicks).save(target)
