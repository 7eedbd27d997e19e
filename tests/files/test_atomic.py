"""Files that appear whole or not at all, and harm nothing else that may be at their path."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import permrank as pr
from permrank.errors import InputError
from permrank.files import atomic
from permrank.files.atomic import atomic_folder, atomic_write, remove, remove_temporaries, writable_target

LEFT = "0123456789ab"  # in place of the random digits of a temporary file


def write(path, content=b"new"):
    with atomic_write(path) as file:
        file.write(content)


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """Sets the umask, which is that of the whole process, for the time of a test."""
    before = os.umask(0o022)
    os.umask(before)
    yield os.umask
    os.umask(before)


@pytest.fixture
def as_somebody():
    """A folder of somebody who is not root, and that somebody: root may write where others may not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() != 0:
            yield folder
            return
        try:
            os.chown(folder, 65534, 65534)
            os.setegid(65534)
            os.seteuid(65534)
            if not os.access(folder, os.W_OK, effective_ids=True):
                pytest.skip("the folder for temporary files is closed to others than root")
            yield folder
        except OSError:
            pytest.skip("root may not become somebody else here")
        finally:
            os.seteuid(0)
            os.setegid(0)


def test_an_interrupted_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("old", encoding="utf-8")

    def write_half():
        with atomic_write(path) as file:
            file.write(b"new")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half"):
        write_half()
    assert path.read_text(encoding="utf-8") == "old"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(mask, tmp_path, umask):
    umask(mask)
    with atomic_write(tmp_path / "new") as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o666 & ~mask
    assert permissions(tmp_path / "new") == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_file_that_is_there_keeps_its_permissions_also_while_it_is_written(mode, tmp_path):
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    with atomic_write(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
        file.write(b"new")
    assert permissions(path) == mode
    assert path.read_bytes() == b"new"


def test_every_writer_keeps_a_private_file_private(tmp_path):
    rankings = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["b", "a"]})
    model = pr.Borda().fit(rankings)
    for name, writer in {"m.permrank": model.save, "r.csv": rankings.write, "r.parquet": rankings.write}.items():
        path = tmp_path / name
        path.touch(mode=0o600)
        writer(path)
        assert permissions(path) == 0o600
        assert path.stat().st_size > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_root_leaves_a_file_to_its_owner(tmp_path):
    path = tmp_path / "file"
    path.touch(mode=0o640)
    try:
        os.chown(path, 65534, 65533)
    except OSError:
        pytest.skip("root may not give files away here")
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid, permissions(path)) == (65534, 65533, 0o640)


def test_a_group_that_cannot_be_kept_gets_what_everybody_had(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o664)
    found = path.stat()
    foreign = os.stat_result([*found[:5], found.st_gid + 1, *found[6:]])
    with path.open("wb") as file:
        atomic._keep_permissions(file.fileno(), foreign)
    assert permissions(path) == 0o644


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    target, link, further = tmp_path / "far" / "file", tmp_path / "link", tmp_path / "further"
    target.touch()
    target.chmod(0o600)
    link.symlink_to("far/file")
    further.symlink_to(link)
    write(further)
    assert further.is_symlink()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert permissions(target) == 0o600
    target.unlink()
    write(further, b"through links that lead nowhere")
    assert target.read_bytes() == b"through links that lead nowhere"
    remove(further)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "further", "link"]
    assert list(target.parent.iterdir()) == []


def test_links_in_a_circle_and_into_no_folder_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match="symbolic links"):
        write(tmp_path / "a")
    (tmp_path / "c").symlink_to("nowhere/file")
    with pytest.raises(InputError, match="nowhere does not exist"):
        write(tmp_path / "c")


def test_other_names_of_a_file_keep_the_old_content(tmp_path):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text("old", encoding="utf-8")
    other.hardlink_to(path)
    write(path)
    assert path.read_text(encoding="utf-8") == "new"
    assert other.read_text(encoding="utf-8") == "old"


def test_folders_and_sockets_are_refused_and_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name, words in {"folder": "is a folder", "socket": "is a socket"}.items():
            with pytest.raises(InputError, match=f"{name} {words}; give the name of a file"):
                write(tmp_path / name)
            with pytest.raises(InputError, match="not a regular file"):
                remove(tmp_path / name)
        assert stat.S_ISSOCK((tmp_path / "socket").lstat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "socket"]


def made_device(path, kind, minor):
    """A device of our own, so that no real one is at risk."""
    try:
        os.mknod(path, kind | 0o600, os.makedev(1, minor))
        with path.open("r+b"):  # a folder may be mounted without devices
            pass
    except PermissionError:
        pytest.skip("only root may make a device")


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    null = tmp_path / "null"
    made_device(null, stat.S_IFCHR, 3)
    write(null)
    pr.Borda().fit(pr.Rankings.from_lists([["a", "b"]])).save(null)
    assert stat.S_ISCHR(null.stat().st_mode)
    with pytest.raises(InputError, match="not a regular file"):
        pr.Checkpoint(null).remove()
    assert list(tmp_path.iterdir()) == [null]


def test_a_full_disk_is_named_with_the_file(tmp_path):
    full = tmp_path / "full"
    made_device(full, stat.S_IFCHR, 7)
    with pytest.raises(OSError, match=r"No space left on device: '.*full'"):
        write(full)


def test_a_fifo_is_written_to_if_somebody_reads_it(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(InputError, match="nobody reads"):
        write(path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write(path)
        assert reader.read() == b"new"
    assert stat.S_ISFIFO(path.lstat().st_mode)


# A link of our own, as /dev/stdout is one: tests may run as root, and code that is wrong would replace the real one.
@pytest.mark.parametrize("name", ["/dev/fd/1", "stdout", "further"])
@pytest.mark.parametrize("to", ["pipe", "file"])
def test_standard_output_is_written_to_wherever_it_goes(name, to, tmp_path):
    (tmp_path / "stdout").symlink_to("/dev/fd/1")
    (tmp_path / "further").symlink_to("stdout")
    code = (
        "import sys; from permrank.files.atomic import atomic_write\n"
        "print('before', flush=True)\n"
        f"with atomic_write({name!r}) as file: file.write(b'content')\n"
        "print('after')"
    )
    command, out = [sys.executable, "-c", code], tmp_path / "out"
    if to == "pipe":
        found = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
    else:
        with out.open("wb") as file:
            subprocess.run(command, cwd=tmp_path, check=True, stdout=file)
        found = out.read_bytes()
    assert found == b"before\ncontentafter\n"


def test_a_read_only_file_or_folder_is_refused_beforehand(as_somebody):
    path = as_somebody / "precious"
    path.touch()
    path.chmod(0o444)
    with pytest.raises(InputError, match="may not be written to"):
        write(path)
    path.chmod(0o600)
    as_somebody.chmod(0o500)
    try:
        with pytest.raises(InputError, match="may not be written to"):
            writable_target(path)
    finally:
        as_somebody.chmod(0o700)


LIMITED = """
import resource, sys
import permrank as pr
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
rankings = pr.Rankings.from_lists([[f"item {i}" for i in range(3_000)]])
for ending in ("csv", "parquet", "jsonl", "soc"):
    try:
        (rankings.merged() if ending == "soc" else rankings).write(f"{sys.argv[1]}/file.{ending}")
    except (OSError, pr.errors.PermrankError) as error:
        print(ending, error)
"""


def test_a_disk_that_fills_up_costs_the_new_file_only(tmp_path):
    for ending in ("csv", "parquet", "jsonl", "soc"):
        (tmp_path / f"file.{ending}").write_text("old", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["csv", "parquet", "jsonl", "soc"], done
    for line in done.stdout.splitlines():
        assert f"file.{line.split()[0]}" in line
    assert sorted(path.read_text(encoding="utf-8") for path in tmp_path.iterdir()) == ["old"] * 4


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "m"
    ours = [tmp_path / f".m.{LEFT}.tmp", tmp_path / f".m.{LEFT[::-1]}.tmp"]
    others = [f".n.{LEFT}.tmp", f".m.{LEFT}.tmp.bak", f"m.{LEFT}.tmp", f".m.{LEFT}0.tmp", ".m.tmp", f".mm.{LEFT}.tmp"]
    link = tmp_path / ".m.ffffffffffff.tmp"
    link.symlink_to(tmp_path / others[0])
    for left in [*ours, *(tmp_path / name for name in others)]:
        left.touch()
    write(path)
    assert sorted(left.name for left in tmp_path.iterdir()) == sorted([*others, "m", link.name])


def test_a_living_writer_is_left_alone(tmp_path):
    path = tmp_path / "m"
    with atomic_write(path) as file:
        file.write(b"first")
        write(path, b"second")
        remove_temporaries(path)
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    with atomic_folder(tmp_path / "f") as folder:
        remove_temporaries(tmp_path / "f")
        write(folder / "x")
    assert (tmp_path / "f" / "x").read_bytes() == b"new"


def test_a_temporary_file_taken_away_before_it_was_locked_is_made_anew(tmp_path, monkeypatch):
    locked = atomic.fcntl.flock
    taken = []

    def late(descriptor, operation):
        if not taken:
            (left,) = tmp_path.glob(".m.*.tmp")
            left.unlink()
            taken.append(left)
        locked(descriptor, operation)

    monkeypatch.setattr(atomic.fcntl, "flock", late)
    write(tmp_path / "m")
    assert taken
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_many_threads_write_one_file_and_it_is_always_whole(tmp_path):
    path, wrong = tmp_path / "m", []

    def save(number):
        try:
            for _ in range(30):
                write(path, bytes([number]) * 10_000)
                content = path.read_bytes()
                if len(content) != 10_000 or len(set(content)) != 1:
                    wrong.append(content)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert list(tmp_path.iterdir()) == [path]


def test_a_split_removes_what_a_killed_one_left_and_follows_no_link(tmp_path):
    left = tmp_path / f".s.{LEFT}.tmp"
    left.mkdir()
    (left / "train.csv").touch()
    split = pr.Given(2).split(pr.datasets.load("simulated", n_users=20, n_items=8, list_length=6), seed=0)
    split.save(tmp_path / "s")
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    (tmp_path / "t").symlink_to("nowhere")
    with pytest.raises(InputError, match="exists"):
        split.save(tmp_path / "t")


# The parent has done no work when it forks, only imports, so that twenty children start quickly.
KILLING = """
import os, random, signal, sys, time
from pathlib import Path
import permrank.families.baselines.borda
from permrank.core import model_files as files
from permrank.files import container
path, moments = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
torn = 0
for _ in range(20):
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        model = files.load(path)
        while True:
            files.save(model.fitted_, path)
            os.write(tell, b".")
    os.read(ready, 1)
    time.sleep(0.03 * moments.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready), os.close(tell)
    container.read_header(path.read_bytes(), path)  # raises if a byte is wrong
    torn += any(path.parent.glob(".*.tmp"))
print(torn)
"""


def test_twenty_kills_while_a_model_is_saved_cost_nothing(tmp_path):
    path = tmp_path / "m.permrank"
    model = pr.Borda().fit(pr.datasets.load("simulated", n_users=300, n_items=30))
    model.save(path)
    subprocess.run([sys.executable, "-c", KILLING, path, "0"], check=True, timeout=120)
    loaded = pr.load(path)
    assert loaded.rankings_ == model.rankings_
    loaded.save(path)
    assert list(tmp_path.iterdir()) == [path]
