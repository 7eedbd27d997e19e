"""Damaged files and arbitrary bytes give rankings or one of our errors, and nothing else."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.errors import PermrankError
from permrank.rankings.validate import check_arrays

TIED = pr.Rankings.from_lists([["a", {"b", "c,d"}], ["b", "é"], ["a"]], weights=[2, 1, 7])
STRICT = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"]], weights=[2, 1])
NAMED = pr.Rankings.from_lists(
    [["a", {"b", 'c"d'}], ["b", "é\n"], [], ["a"]], users=["ann", "ann", "bob", "cy"], weights=[2, 1, 1, 7], items=["z"]
)
RATED = pr.Rankings.from_ratings({"user": [1, 1, 2], "item": [10, 20, 10], "rating": [3, 5, 1.5]})
KNOWN = RATED.with_items({"item": [10, 30], "title": ["Heat (1995)", "é"], "kinds": ["a|b", "b"]}).with_users(
    {"user": [1], "age": [3.5], "member": [True]}
)
ENDINGS = ("csv", "tsv", "parquet", "jsonl", "soc", "soi", "toc", "toi")
OTHERS = {
    "u.data": b"1\t10\t3\t881\n1\t20\t5\t882\n2\t10\t1\t883\n",
    "ratings.dat": b"1::10::3::881\n1::20::5::882\n",
    "ratings.txt": b"1 10 3\n1 20 3.5\n2 10 1\n",
    "x.order": b"3 1\n0 2 2 0\n0 3 1 0 2\n",
    "pairs.csv": b"user,winner,loser,weight\nann,1,2,0.5\nbob,2,1,3\n",
    "file.csv.gz": None,
}
TEXTS = [ending for ending in ENDINGS if ending != "parquet"]


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


ARCHIVES = {
    "ratings.zip": zipped({"ml-100k/u.data": OTHERS["u.data"]}),
    "sushi.zip": zipped(
        {"s/sushi3.idata": b"0\tebi\n1\tuni\n2\tika\n", "s/sushi3b.5000.10.order": b"3 1\n0 2 2 0\n0 3 1 0 2\n"}
    ),
    "apa.zip": zipped({"a/apared_rankings.csv": b"A,B\n1,2\n2,1\n", "a/apafull_rankings.csv": b"A,B\n,1\n"}),
    "films.zip": zipped(
        {
            "m/u.data": OTHERS["u.data"],
            "m/u.item": b"10|Heat (1995)|01-Jan-1995||x|0|1|0\n20|\xe9 (1990)|||x|0|0|1\n",
            "m/u.user": b"1|24|M|technician|85711\n2|53|F||94043\n",
        }
    ),
    "nascar.zip": zipped({"nascar_orderings.csv": b"2.0,1.0\n", "drivers.txt": b"Ann\nBob\n"}),
}


def contents(tmp_path):
    """One or several valid files of every format."""
    for ending in ENDINGS:
        samples = [TIED, STRICT] if len(ending) == 3 and ending[1] == "o" else [NAMED, RATED, TIED, KNOWN]
        for sample in samples:
            path = tmp_path / f"sample.{ending}"
            try:
                sample.write(path)
            except PermrankError:
                continue
            yield f"file.{ending}", path.read_bytes()
    for name, data in {**OTHERS, **ARCHIVES}.items():
        if data is None:
            import gzip

            data = gzip.compress(b"user,item,rating\nann,x,1\nann,y,2\n")
        yield name, data


def attempt(path, data):
    """Read some bytes; what comes back must be sound, and so must the error if there is one."""
    path.write_bytes(data)
    try:
        rankings = pr.read(path)
    except PermrankError as error:
        assert path.name in str(error)
        return False
    check_arrays(rankings)
    assert rankings.n_entries > 0
    assert rankings.item_attributes.height == rankings.n_items
    assert rankings.user_attributes.height == rankings.n_users
    return True


def test_every_sample_can_be_read_whole(tmp_path):
    names = []
    for name, data in contents(tmp_path):
        assert attempt(tmp_path / name, data), name
        names.append(name)
    assert len(set(names)) == len(ENDINGS) + len(OTHERS) + len(ARCHIVES)


def test_a_file_cut_at_any_byte_is_read_or_refused(tmp_path, capfd):
    for name, data in contents(tmp_path):
        step = 3 if name.endswith((".parquet", ".zip")) else 1
        outcomes = [attempt(tmp_path / name, data[:size]) for size in range(0, len(data), step)]
        assert not outcomes[0], name
        if name.endswith((".parquet", ".zip", ".gz")):
            assert not any(outcomes), f"{name}: half a file was taken for a whole one"
    capfd.readouterr()  # a panic inside Polars prints what we then say better


def test_a_file_with_wrong_bytes_is_read_or_refused(tmp_path, capfd):
    rng = np.random.default_rng(11)
    for name, data in contents(tmp_path):
        for _ in range(60):
            damaged = bytearray(data)
            for place in rng.integers(len(data), size=rng.integers(1, 5)):
                damaged[place] = rng.choice([rng.integers(256), *b',:"{}[]\n\r\t 09-#\x00'])
            attempt(tmp_path / name, bytes(damaged))
    capfd.readouterr()


def test_a_file_with_parts_dropped_or_doubled_is_read_or_refused(tmp_path, capfd):
    rng = np.random.default_rng(12)
    for name, data in contents(tmp_path):
        for _ in range(40):
            first, last = sorted(rng.integers(len(data) + 1, size=2))
            part = data[first:last]
            attempt(tmp_path / name, data[:first] + part * rng.choice([0, 2, 3]) + data[last:])
    capfd.readouterr()


quiet = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", [*(f"file.{ending}" for ending in ENDINGS), *OTHERS, "file.zip"])
@quiet
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(name, data, tmp_path):
    attempt(tmp_path / name, data)


@pytest.mark.parametrize("name", ["file.csv", "file.tsv", "file.jsonl", "file.toi"])
@quiet
@given(data=st.data())
def test_arbitrary_text_after_a_good_beginning_is_read_or_refused(name, data, tmp_path):
    beginnings = {
        "file.csv": "user,item,rating\n",
        "file.tsv": "user\titem\trank\tweight\n",
        "file.jsonl": '["a"]\n',
        "file.toi": "# NUMBER ALTERNATIVES: 1\n# ALTERNATIVE NAME 1: a\n",
    }
    letters = st.sampled_from(list('ab0123456789.,:;{}[]"\n\r\t #-+eE\ufeffé\u2028\x00')) | st.characters()
    text = data.draw(st.text(letters, max_size=80))
    attempt(tmp_path / name, (beginnings[name] + text).encode("utf-8", "surrogatepass"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["user", "ballot", "ranking", "weight", "ratings", "items", "x"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@quiet
@given(values=st.lists(json_values, max_size=4))
def test_arbitrary_json_is_read_or_refused(values, tmp_path):
    import json

    attempt(tmp_path / "file.jsonl", "\n".join(map(json.dumps, values)).encode())
