"""The look at Parquet page headers lets every sound file pass and stops counts that would end the process."""

import itertools
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from permrank.files.formats.parquet_guard import CorruptParquet, check_pages


def sample(n):
    return pa.table(
        {
            "user": [f"user {row // 5}" for row in range(n)],
            "item": np.arange(n) % 5,
            "rating": pa.array([None if row % 3 == 1 else row / 2 for row in range(n)], pa.float64()),
            "list": pa.array([[1, 2]] * n, pa.list_(pa.int64())),
        }
    )


@pytest.mark.parametrize("n", [0, 1, 3000])
def test_files_of_other_programs_pass(n, tmp_path):
    table, path = sample(n), tmp_path / "file.parquet"
    for version, compression, dictionary in itertools.product(["1.0", "2.0"], ["NONE", "SNAPPY"], [True, False]):
        pyarrow.parquet.write_table(
            table, path, data_page_version=version, compression=compression, use_dictionary=dictionary,
            row_group_size=1000, data_page_size=500,
        )  # fmt: skip
        check_pages(path, table.column_names)
    pl.DataFrame(table).write_parquet(path, row_group_size=700)
    check_pages(path, table.column_names)
    # In a process of its own: DuckDB's bindings complain on standard error when an interpreter ends.
    code = f"import duckdb; duckdb.read_parquet({str(path)!r}).write_parquet({str(path) + '.copy'!r})"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    check_pages(path.with_name(path.name + ".copy"), table.column_names)


def test_a_negative_count_in_a_page_is_noticed(tmp_path):
    path = tmp_path / "file.parquet"
    pyarrow.parquet.write_table(sample(5), path, use_dictionary=False, compression="NONE")
    data = bytearray(path.read_bytes())
    # The header of the first data page: field 5 is a struct whose field 1 is the zigzag count 5, which is 10.
    place = data.index(b"\x2c\x15\x0a")
    data[place + 2] = 9
    path.write_bytes(data)
    with pytest.raises(CorruptParquet, match="negative"):
        check_pages(path, ["user"])
    check_pages(path, ["item"])


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1", b"PAR1\x00\x01\x00\x00\x00PAR1", b"x" * 50]
)
def test_what_is_no_parquet_is_damaged(content, tmp_path):
    path = tmp_path / "file.parquet"
    path.write_bytes(content)
    with pytest.raises(CorruptParquet):
        check_pages(path, ["user"])


def test_headers_nested_without_end_are_damaged(tmp_path):
    path = tmp_path / "file.parquet"
    footer = b"\x1c" * 5000
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(CorruptParquet, match="deep"):
        check_pages(path, ["user"])
