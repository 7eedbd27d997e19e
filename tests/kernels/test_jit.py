"""The cache of compiled kernels: shared by processes, never wrong, and done without where it cannot be."""

import ctypes
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import permrank
from permrank.kernels import jit

PACKAGE = Path(permrank.__file__).parent
# Every process asks for the same answers in an order of its own, so that signatures are compiled side by side.
ASK = """
import json, random, sys
import numpy as np
from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.streams import derive, uniform

def solve(kind):
    A = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]], kind)
    x = np.array([1, 2, 3], kind)
    cholesky(A, 3)
    forward(A, x, 3)
    backward(A, x, 3)
    return x.tolist()

def draw(kind):
    key = derive(np.uint64(7), kind(3))
    return uniform(key, kind(5))

tasks = [(solve, np.float32), (solve, np.float64), (draw, np.int64), (draw, np.uint64)]
random.Random(sys.argv[1]).shuffle(tasks)
answers = {f"{task.__name__} {kind.__name__}": task(kind) for task, kind in tasks}
print(json.dumps(answers, sort_keys=True))
"""


def start(*arguments, cache, source=PACKAGE.parent, **more):
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache), **more.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


def answer(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def ask(order, **options):
    return answer(start("-c", ASK, str(order), **options))[0]


def compiled(cache):
    return sorted(cache.glob("permrank-*/*.nbc"))


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache that one process has filled, and what it answered."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, ask(0, cache=cache)


def test_the_answers_that_are_compared_are_right(warm):
    answers = json.loads(warm[1])
    for name, rtol in (("solve float32", 1e-5), ("solve float64", 1e-12)):
        # A x = (1, 2, 3) by Cramer's rule; det A = 18.
        assert answers[name] == pytest.approx([4 / 18, 2 / 18, 26 / 18], rel=rtol)
    assert answers["draw int64"] == answers["draw uint64"]


def test_eight_processes_on_an_empty_cache_all_answer_alike(warm, tmp_path):
    processes = [start("-c", ASK, str(number), cache=tmp_path) for number in range(8)]
    assert {answer(process)[0] for process in processes} == {warm[1]}
    assert len(compiled(tmp_path)) == len(compiled(warm[0]))
    # What the eight have left serves a ninth, which compiles nothing.
    before = [path.stat().st_mtime_ns for path in compiled(tmp_path)]
    assert ask(9, cache=tmp_path) == warm[1]
    assert [path.stat().st_mtime_ns for path in compiled(tmp_path)] == before


def test_machine_code_under_another_name_is_not_run(warm, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(warm[0], cache)
    paths = compiled(cache)
    contents = [path.read_bytes() for path in paths]
    assert len({path.name.rsplit("-", 1)[0] for path in paths}) < len(paths)  # some kernels have two signatures
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    assert ask(1, cache=cache) == warm[1]


def test_a_damaged_file_is_compiled_anew(warm, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(warm[0], cache)
    harms = [lambda content: content[: len(content) // 2], lambda content: b"", bytes.swapcase]
    for number, path in enumerate(compiled(cache)):
        path.write_bytes(harms[number % len(harms)](path.read_bytes()))
    assert ask(1, cache=cache) == warm[1]


def test_code_for_a_class_that_has_moved_is_compiled_anew(warm, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(warm[0], cache)
    gone = b"cpermrank.gone\nItems\n."  # a pickle of a class in a module that is no more
    for path in compiled(cache):
        path.write_bytes(hashlib.sha256(gone).digest() + gone)
    assert ask(1, cache=cache) == warm[1]


def test_an_edit_in_another_file_never_meets_old_code(warm, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "permrank", ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"
    cache.mkdir()
    (tmp_path / "permrank" / "kernels" / "caller.py").write_text(
        "from permrank.kernels.jit import njit\nfrom permrank.kernels.streams import derive\n\n\n"
        "@njit\ndef caller(key):\n    return derive(key, 3)\n",
        encoding="utf-8",
    )
    program = "from permrank.kernels.caller import caller; print(caller(5))"
    before = answer(start("-c", program, cache=cache, source=tmp_path))[0]
    streams = tmp_path / "permrank" / "kernels" / "streams.py"
    text = streams.read_text(encoding="utf-8")
    assert "0x6A09E667F3BCC908" in text
    streams.write_text(text.replace("0x6A09E667F3BCC908", "0x6A09E667F3BCC909"), encoding="utf-8")
    after = answer(start("-c", program, cache=cache, source=tmp_path))[0]
    fresh = answer(start("-c", program, cache=tmp_path / "fresh", source=tmp_path))[0]
    assert before != after == fresh
    # The next edit comes while a process runs: what it has imported is not kept under the name of what is there now.
    edit = f"import pathlib; pathlib.Path({str(streams)!r}).write_text({text!a}, encoding='utf-8')"
    program = f"from permrank.kernels.caller import caller; {edit}; print(caller(5))"
    assert answer(start("-c", program, cache=tmp_path / "other", source=tmp_path))[0] == after
    program = "from permrank.kernels.caller import caller; print(caller(5))"
    assert answer(start("-c", program, cache=tmp_path / "other", source=tmp_path))[0] == before


def test_a_package_in_an_archive_does_without_a_cache(tmp_path):
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", PACKAGE.parent, "permrank")
    program = "from permrank.kernels.streams import bits; print(bits(5, 3))"
    out, err = answer(start("-c", program, cache=tmp_path, source=archive))
    assert out == answer(start("-c", program, cache=tmp_path / "cache"))[0]
    assert err.count("compiled kernels are not kept") == 1


def test_settings_that_change_code_have_files_of_their_own(warm, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(warm[0], cache)
    out = answer(start("-c", ASK, "1", cache=cache, env={"NUMBA_BOUNDSCHECK": "1"}))[0]
    assert out == warm[1]
    assert len(compiled(cache)) == 2 * len(compiled(warm[0]))


def forgo_privileges():
    """Have even root obey the modes of files after the next exec: drop CAP_DAC_OVERRIDE from the bounding set."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def read_only(folder):
    for path in [folder, *folder.rglob("*")]:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)


@pytest.mark.skipif(sys.platform != "linux", reason="modes of files are dropped as Linux does it")
def test_a_read_only_package_and_home_do_without_a_cache_and_say_so_once(warm, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    shutil.copytree(PACKAGE, tmp_path / "permrank", ignore=shutil.ignore_patterns("__pycache__"))
    ballots = tmp_path / "ballots.csv"
    ballots.write_text("user,item,rank\nann,toro,1\nann,ebi,2\n", encoding="utf-8")
    read_only(home)
    read_only(tmp_path / "permrank")
    options = {
        "cache": "",
        "source": tmp_path,
        "preexec_fn": forgo_privileges,
        "cwd": tmp_path,
        "env": {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PYTHONDONTWRITEBYTECODE": "1"},
    }
    try:
        out, err = answer(start("-c", ASK, "3", **options))
        assert out == warm[1]
        assert err.count("compiled kernels are not kept") == 1
        assert "Set NUMBA_CACHE_DIR" in err
        out, err = answer(
            start("-c", "from permrank.interfaces.cli.app import main; main()", "info", str(ballots), **options)
        )
        assert "toro" in out or "items" in out
        assert "Traceback" not in err
    finally:
        for path in [home, *(tmp_path / "permrank").rglob("*"), tmp_path / "permrank"]:
            path.chmod(0o755)


def test_a_folder_of_somebody_else_is_not_trusted(tmp_path):
    for mode in (0o777, 0o775):
        tmp_path.chmod(mode)
        with pytest.raises(PermissionError, match="somebody else"):
            jit._require_private(tmp_path)
    tmp_path.chmod(0o755)
    jit._require_private(tmp_path)


def test_code_that_nobody_has_loaded_for_a_month_is_removed(tmp_path):
    old, recent = tmp_path / "a.nbc", tmp_path / "b.nbc"
    for path, days in ((old, 40), (recent, 20)):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - days * 86_400,) * 2)
    jit._remove_unused(tmp_path)
    assert list(tmp_path.iterdir()) == [recent]


def test_the_digest_of_a_file_covers_all_that_it_reaches_and_nothing_else(monkeypatch, tmp_path):
    sources = {
        "a.py": "from permrank.kernels.b import f",
        "b.py": "import permrank.kernels.room.c as c",
        "room/c.py": "from permrank.kernels.a import g",
        "d.py": "",
    }
    kernels = tmp_path / "kernels"
    (kernels / "room").mkdir(parents=True)
    monkeypatch.setattr(jit, "_PACKAGE", tmp_path)

    def digest_after(edited=None):
        for name, text in sources.items():
            (kernels / name).write_text(text + ("\n# edited" if name == edited else ""), encoding="utf-8")
        jit._digest_of_sources.cache_clear()
        jit._source.cache_clear()
        return jit._digest_of_sources(kernels / "a.py")

    try:
        plain = digest_after()
        assert [digest_after(name) == plain for name in sources] == [False, False, False, True]
        assert digest_after() == plain
    finally:
        jit._digest_of_sources.cache_clear()


def test_kernels_import_each_other_by_their_full_names():
    """Which is how the digest finds them; and nothing but kernels, so that it covers all there is."""
    for path in {*PACKAGE.rglob("kernels/**/*.py"), *PACKAGE.rglob("kernels.py")}:
        text = path.read_text(encoding="utf-8")
        for module in re.findall(r"from permrank\.(\S*kernels) import", text):
            assert not PACKAGE.joinpath(*module.split(".")).is_dir(), path
        assert "from numba import" not in text or path.name == "jit.py", path
        assert "from ." not in text, path


def test_a_kernel_with_a_closure_is_refused():
    constant = 3
    with pytest.raises(TypeError, match="has a closure"):
        jit.njit(lambda x: x + constant)
