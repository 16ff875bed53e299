"""Folders that others may write to: nothing is written through their links, and no code of theirs is run.

As root, the tests that need another user give files to one, or become one in a child process.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchcore.builtin.shared import files
from patchcore.builtin.shared.files import (
    UntrustedPath,
    append_text,
    private_folder,
    refuse_shared,
    user_cache,
    write_whole,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners and permissions of POSIX")

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
is_root = hasattr(os, "geteuid") and os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="only root can give files to others and become another user")


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file that nothing may write to; checked after the test."""
    path = tmp_path / "victim"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"
    assert not path.is_symlink()


def named_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Opened:
    """How files were opened for writing, by an audit hook, which cannot be removed."""

    def __init__(self) -> None:
        self.flags: list[tuple[str, int]] = []
        self.active = False
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_write = self.active and event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if is_write and not isinstance(arguments[0], int):  # not the descriptor of a file that is open
            self.flags.append((os.fsdecode(arguments[0]), arguments[2]))


OPENED = Opened()


@pytest.fixture
def opened() -> Iterator[list[tuple[str, int]]]:
    """What is opened for writing during the test."""
    OPENED.flags, OPENED.active = [], True
    yield OPENED.flags
    OPENED.active = False


# --- writing ----------------------------------------------------------------------------------------------------------


class TestWriteWhole:
    def test_no_link_beside_it_is_followed(self, tmp_path: Path, victim: Path) -> None:
        planted = [f"text{end}" for end in (".part", ".tmp", ".new", "~", ".lock")] + [".text.part", ".text"]
        for each in planted:
            (tmp_path / each).symlink_to(victim)
        write_whole(tmp_path / "text", "new")
        assert named_files(tmp_path) == sorted(["text", "victim", *planted])

    def test_files_are_made_under_a_new_name_without_following_links(
        self, tmp_path: Path, opened: list[tuple[str, int]]
    ) -> None:
        for _ in range(3):
            write_whole(tmp_path / "text", "new")
        wanted = os.O_EXCL | os.O_NOFOLLOW | os.O_CREAT
        own = [(path, flags) for path, flags in opened if path.startswith(str(tmp_path))]
        assert len({path for path, _ in own}) == 3
        assert all(flags & wanted == wanted for _, flags in own), own
        assert "text" not in {Path(path).name for path, _ in own}

    def test_a_link_in_its_place_is_replaced(self, tmp_path: Path, victim: Path) -> None:
        (tmp_path / "one").symlink_to(tmp_path / "two")
        (tmp_path / "two").symlink_to(tmp_path / "one")
        (tmp_path / "three").symlink_to(tmp_path / "absent")
        (tmp_path / "four").symlink_to(victim)
        for name in ("one", "three", "four"):
            write_whole(tmp_path / name, "new")
            assert ((tmp_path / name).read_text(), (tmp_path / name).is_symlink()) == ("new", False)
        assert not (tmp_path / "absent").exists()

    @pytest.mark.parametrize("linked", [False, True], ids=["itself", "by a link"])
    @pytest.mark.parametrize("kind", ["folder", "pipe"])
    def test_what_is_no_file_stays(self, tmp_path: Path, kind: str, linked: bool) -> None:
        path = tmp_path / "there"
        path.mkdir() if kind == "folder" else os.mkfifo(path)
        if linked:
            path = tmp_path / "link"
            path.symlink_to(tmp_path / "there")
        before = named_files(tmp_path)
        with pytest.raises(OSError, match="Is a directory" if kind == "folder" else "it is not a regular file"):
            write_whole(path, "new")
        assert named_files(tmp_path) == before
        assert path.is_symlink() == linked

    @pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no /dev/null")
    def test_a_device_stays(self) -> None:
        with pytest.raises(OSError, match="it is not a regular file"):
            write_whole(Path("/dev/null"), "new")
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)

    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444])
    def test_a_file_keeps_its_permissions(self, tmp_path: Path, mode: int) -> None:
        path = tmp_path / "file"
        path.write_text("old")
        path.chmod(mode)
        write_whole(path, "new")
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)

    def test_a_new_file_has_those_that_the_umask_leaves(self, tmp_path: Path) -> None:
        for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
            before = os.umask(mask)
            try:
                write_whole(tmp_path / str(mode), "new")
            finally:
                os.umask(before)
            assert stat.S_IMODE((tmp_path / str(mode)).stat().st_mode) == mode

    @needs_root
    def test_permissions_of_a_file_that_somebody_else_has_put_there_are_not_taken_over(self, tmp_path: Path) -> None:
        path = tmp_path / "patchcore.lock"
        path.write_text("")
        path.chmod(0o666)
        os.chown(path, NOBODY, NOBODY)
        write_whole(path, "new")
        assert (path.stat().st_uid, path.stat().st_mode & 0o022) == (0, 0)

    @pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["disk full", "ctrl-c"])
    @pytest.mark.parametrize("step", ["fdopen", "replace", "chmod"])
    def test_what_fails_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, step: str
    ) -> None:
        path = tmp_path / "file"
        path.write_text("old")

        def fail(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(files.os, step, fail)
        with pytest.raises(type(error)):
            write_whole(path, "new")
        monkeypatch.undo()
        assert (named_files(tmp_path), path.read_text()) == (["file"], "old")

    def test_names_as_long_as_the_system_allows(self, tmp_path: Path) -> None:
        for name in ("n" * 255, "ü" * 127, "名" * 85):
            write_whole(tmp_path / name, "new")
            assert (tmp_path / name).read_text() == "new"

    def test_readers_and_writers_at_once_see_whole_files_only(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        texts = [letter * 200_000 for letter in "abcd"]
        write_whole(path, texts[0])
        stop = threading.Event()
        seen = set()

        def read() -> None:
            while not stop.is_set():
                seen.add(path.read_text())

        def write(text: str) -> None:
            for _ in range(10):
                write_whole(path, text)

        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=write, args=(text,)) for text in texts]
        reader.start()
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        stop.set()
        reader.join()
        assert seen <= set(texts)
        assert named_files(tmp_path) == ["file"]


class TestAppend:
    def test_it_starts_with_a_new_file(self, tmp_path: Path, victim: Path) -> None:
        path = tmp_path / "trace"
        append_text(path, "a", new=True)
        append_text(path, "b", new=False)
        assert path.read_text() == "ab"
        with pytest.raises(FileExistsError):
            append_text(path, "c", new=True)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            append_text(path, "c", new=False)
        path.symlink_to(victim)
        for new in (True, False):
            with pytest.raises(OSError):
                append_text(path, "c", new=new)


#: Calls that write a file some other way, by module and function, and why that is safe.
OTHER_WAYS = {
    ("patchcore/builtin/shared/files.py", "write_whole"): "the way itself",
    ("patchcore/builtin/shared/files.py", "append_text"): "the way itself",
    ("patchcore/cli/__init__.py", "_write_no_more"): "opens os.devnull",
    ("patchcore/cli/streams.py", "streams_that_take_any_text"): "opens os.devnull",
    ("plugins/npu_graph/npu_graph/c/toolchain.py", "_accepts"): "in a new folder with a name that cannot be guessed",
    ("plugins/npu_migrate/npu_migrate/migrate/command.py", "_save"): "other files of a project, which may "
    "be large, are copied to the folder that the command has made",
}


def writing_calls(path: Path) -> Iterator[str]:
    """Yield the functions of a module that open a file for writing, or copy one."""
    text = path.read_text(encoding="utf-8")
    if not any(word in text for word in ("open(", "write_text(", "write_bytes(", "shutil.copy", "tempfile.")):
        return
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        texts = [
            each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        writes = name in ("write_text", "write_bytes", "copy", "copy2", "copyfile", "copytree") and (
            not name.startswith("copy") or owner == "shutil"
        )
        writes |= name == "open" and any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)
        writes |= (owner, name) == ("os", "fdopen") or (
            (owner, name) == ("os", "open") and "WRONLY" in ast.unparse(node)
        )
        writes |= (owner, name) in (("tempfile", "NamedTemporaryFile"), ("tempfile", "mkstemp"), ("tempfile", "mktemp"))
        if writes:
            around = [f for f in functions if f.lineno <= node.lineno <= (f.end_lineno or 0)]
            yield around[-1].name if around else ""


def test_every_file_is_written_by_the_same_functions() -> None:
    found = set()
    for top in ("patchcore", "patchcore_startup", "plugins"):
        for path in (ROOT / top).rglob("*.py"):
            relative = path.relative_to(ROOT).as_posix()
            if "/tests/" not in relative:
                found |= {(relative, function) for function in writing_calls(path)}
    assert found == set(OTHER_WAYS)


# --- trusting ---------------------------------------------------------------------------------------------------------


class TestRefuseShared:
    @pytest.mark.parametrize("mode", [0o700, 0o500, 0o710, 0o701, 0o750, 0o755, 0o777, 0o1777, 0o2770])
    def test_a_folder_that_others_may_enter_is_refused_with_the_line_that_fixes_it(
        self, tmp_path: Path, mode: int
    ) -> None:
        folder = tmp_path / "my cache; rm -r $HOME"
        folder.mkdir()
        folder.chmod(mode)
        if not mode & 0o077:
            assert refuse_shared(folder) == Path(os.path.realpath(folder))
            return
        with pytest.raises(UntrustedPath, match=r"chmod 700 '.*/my cache; rm -r \$HOME'$") as caught:
            refuse_shared(folder)
        subprocess.run(str(caught.value).partition("change that: ")[2], shell=True, check=True)
        assert refuse_shared(folder) == Path(os.path.realpath(folder))

    def test_links_are_resolved_once(self, tmp_path: Path) -> None:
        for name in ("own", "other"):
            (tmp_path / name).mkdir(mode=0o700)
        way = tmp_path / "link"
        way.symlink_to(tmp_path / "own")
        real = refuse_shared(way)
        way.unlink()
        way.symlink_to(tmp_path / "other")
        assert real == Path(os.path.realpath(tmp_path)) / "own"

    def test_a_link_to_what_others_may_enter_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared").chmod(0o777)
        (tmp_path / "cache").symlink_to(tmp_path / "shared")
        with pytest.raises(UntrustedPath, match=r"chmod 700 .*/shared$"):
            refuse_shared(tmp_path / "cache")

    def test_what_is_not_there_is_not_refused(self, tmp_path: Path) -> None:
        assert refuse_shared(tmp_path / "a" / "b") == Path(os.path.realpath(tmp_path)) / "a" / "b"

    @needs_root
    def test_a_folder_of_somebody_else_is_refused(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        os.chown(tmp_path, 54321, 54321)
        with pytest.raises(UntrustedPath, match="belongs to user 54321"):
            refuse_shared(tmp_path)


class TestPrivateFolder:
    @pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
    def test_what_it_makes_is_closed_to_others_whatever_the_umask(self, tmp_path: Path, mask: int) -> None:
        before = os.umask(mask)
        try:
            made = private_folder(tmp_path / "a" / "b" / "c")
        finally:
            os.umask(before)
        assert stat.S_IMODE(made.stat().st_mode) == 0o700

    def test_a_file_in_the_way(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        for path in (tmp_path / "file", tmp_path / "file" / "folder"):
            with pytest.raises(OSError, match=r"Not a directory|File exists"):
                private_folder(path)

    def test_threads_that_make_it_at_once(self, tmp_path: Path) -> None:
        start = threading.Barrier(8)
        made = []

        def make() -> None:
            start.wait()
            made.append(private_folder(tmp_path / "a" / "b" / "c" / "d"))

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8


# --- caches -----------------------------------------------------------------------------------------------------------


def graph_cache(environ: dict[str, str]) -> Path:
    options = pytest.importorskip("npu_graph.options")
    return options.cache_folder({}, environ)  # type: ignore[no-any-return]


def emulator_cache(environ: dict[str, str]) -> Path:
    build = importlib.import_module("npu_emulator.device.native.build")
    return build.cache_folder(environ)  # type: ignore[no-any-return]


def wheel_cache(environ: dict[str, str]) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        tool = importlib.import_module("mmcv_wheel")
        for name in ("PATCHCORE_CACHE", "XDG_CACHE_HOME"):
            patch.delenv(name, raising=False)
        for name, value in environ.items():
            patch.setenv(name, value)
        return tool.cache_root()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "cache",
    [user_cache, graph_cache, pytest.param(emulator_cache, marks=pytest.mark.libraries("torch")), wheel_cache],
    ids=lambda f: f.__name__,
)
def test_a_relative_folder_of_caches_is_ignored(cache: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    by_default = cache({})
    for relative in ("cache", "./cache", "../cache", ".", ""):
        assert cache({"XDG_CACHE_HOME": relative}) == by_default
    assert by_default.is_absolute()
    assert cache({"XDG_CACHE_HOME": "/own/cache"}).parts[:3] == ("/", "own", "cache")


def test_no_message_recommends_a_folder_that_everybody_may_write_to() -> None:
    shared = [f"{before}{folder}" for before in "= " for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    found = []
    for path in itertools.chain.from_iterable((ROOT / top).rglob("*.py") for top in ("patchcore", "plugins", "tools")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{path}: {line}" for line in lines if any(each in line for each in shared)]
    assert found == []
