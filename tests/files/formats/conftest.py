"""What tests of readers share."""

import pytest

import permrank as pr
from permrank.errors import PermrankError


@pytest.fixture
def read_text(tmp_path):
    """Write some text to a file and read it."""

    def run(text, name="file.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return pr.read(path, **options)

    return run


@pytest.fixture
def refusal(read_text):
    """The message with which a text is refused; it names the file."""

    def run(text, name="file.csv", **options):
        with pytest.raises(PermrankError) as caught:
            read_text(text, name, **options)
        assert name in str(caught.value)
        return str(caught.value)

    return run
