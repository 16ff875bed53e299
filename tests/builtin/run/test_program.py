"""Commands: what is started is what was named, and it is started as it would be without patchcore."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from programs import PATCHES, SHOP, Programs

from patchcore.builtin.run.program import Command, find_command
from patchcore.errors import SettingsError

PYTHON = [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with one file of each kind; ``bin`` in it is all of PATH."""
    files = {
        "train.py": "",
        "train.pyw": "",
        "train": "print(1)\n",
        "claimed": "#!/usr/bin/env python3\n",
        "own": "#!/opt/python/bin/python\n",
        "train.sh": "echo\n",
        "shell": "#!/bin/sh\n",
        "ready.sh": "#!/bin/sh\n",
        "odd.toml": "[tool]\n",
        "binary": "\x7fELF\0\0",
        "folder/__main__.py": "",
        "package/__init__.py": "",
        "bin/torchrun": "#!/bin/sh\n",
        "bin/train": "#!/bin/sh\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for name in ("ready.sh", "own", "bin/torchrun", "bin/train"):
        (tmp_path / name).chmod(0o755)
    for name in ("archive", "archive.pyz"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("__main__.py", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


class TestWhatANameMeans:
    @pytest.mark.parametrize(
        "name",
        ["train.py", "./train.py", "train.pyw", "train", "claimed", "folder", "./folder/", "archive", "archive.pyz"],
    )
    def test_python_code_is_for_this_interpreter(self, folder: Path, name: str) -> None:
        expected = Command(sys.executable, (*PYTHON, name, "-x", "--", "-m"))
        assert find_command(name, ["-x", "--", "-m"], as_module=False) == expected

    def test_a_module_is_for_this_interpreter(self, folder: Path) -> None:
        assert find_command("train", ["-x"], as_module=True).arguments == (*PYTHON, "-m", "train", "-x")

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("torchrun", "bin/torchrun"),
            ("bin/torchrun", "bin/torchrun"),
            ("./ready.sh", "ready.sh"),
            ("./own", "own"),  # by the Python it names
        ],
    )
    def test_anything_else_is_a_command(self, folder: Path, name: str, path: str) -> None:
        command = find_command(name, ["-x"], as_module=False)
        assert Path(command.executable).resolve() == folder / path
        assert command.arguments == (name, "-x")  # a program may look at its own name

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("nosuch", r"can't find 'nosuch', neither a file in .* nor a command; expected a Python script, a command"),
            ("nosuch/train.py", "can't find 'nosuch/train.py'"),
            ("package", "can't find a __main__ module in 'package'; expected a script, or a folder with one"),
            ("train.sh", r"neither Python code nor executable; write: patchcore run -- bash train.sh \(or chmod"),
            ("shell", "shell is neither Python code nor executable"),
            ("odd.toml", "neither Python code nor executable"),
            ("binary", "neither Python code nor executable"),
        ],
    )
    def test_or_nothing(self, folder: Path, name: str, message: str) -> None:
        with pytest.raises(SettingsError, match=message):
            find_command(name, [], as_module=False)

    def test_the_scripts_of_this_interpreter_come_last(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """So that ``venv/bin/python -m patchcore run torchrun`` needs no activated environment."""
        monkeypatch.setattr(sysconfig, "get_path", {"scripts": str(folder / "bin")}.__getitem__)
        monkeypatch.setenv("PATH", str(folder))
        assert find_command("torchrun", [], as_module=False).executable == str(folder / "bin" / "torchrun")
        assert find_command("ready.sh", [], as_module=False).executable == str(folder / "ready.sh")

    def test_an_executable_in_the_current_directory_needs_no_dot(self, folder: Path) -> None:
        assert find_command("ready.sh", [], as_module=False).arguments[0] == "ready.sh"

    def test_a_pipe_is_not_read_before_it_is_the_programs(self, folder: Path) -> None:
        reading, writing = os.pipe()
        os.write(writing, b"print(1)\n")
        os.close(writing)
        try:
            command = find_command(f"/dev/fd/{reading}", [], as_module=False)
            assert command.executable == sys.executable
            assert os.read(reading, 100) == b"print(1)\n"
        finally:
            os.close(reading)

    @pytest.mark.parametrize(("name", "hint"), [("train.py", "train"), ("a/b.py", "a/b")])
    def test_a_path_is_no_module(self, folder: Path, name: str, hint: str) -> None:
        with pytest.raises(SettingsError, match=f"found '{name}'; leave out -m, or write '{hint}'"):
            find_command(name, [], as_module=True)

    def test_without_an_interpreter(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "")
        with pytest.raises(SettingsError, match="the path of this Python is not known"):
            find_command("train.py", [], as_module=False)


class TestIsStartedAsWithoutPatchcore:
    @pytest.fixture
    def shop(self, programs: Programs) -> Programs:
        programs.write({**SHOP, "deals.py": PATCHES})
        programs.environment["PATH"] = f"{programs.folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return programs

    def test_every_python_of_a_shell_script_is_patched(self, shop: Programs) -> None:
        shop.write({"train.sh": "python sell.py\npython -m sell\necho $0 $1\nexit 7\n"})
        done = shop.run(shop.patchcore, "-p", "deals", "--", "bash", "train.sh", "-x", code=7)
        assert done.stdout == "20\n20\ntrain.sh -x\n"
        assert done.stderr == "patchcore: 1 applied\n" * 2  # each is a program of its own

    def test_an_executable_script(self, shop: Programs) -> None:
        shop.write({"train.sh": "#!/usr/bin/env bash\npython sell.py\n"})
        (shop.folder / "train.sh").chmod(0o755)
        assert shop.run(shop.patchcore, "-p", "deals", "./train.sh").stdout == "20\n"

    def test_a_script_that_the_system_cannot_execute(self, shop: Programs) -> None:
        shop.write({"train.sh": "python sell.py\n"})
        (shop.folder / "train.sh").chmod(0o755)
        done = shop.run(shop.patchcore, "./train.sh", code=2)
        assert done.stderr.endswith(
            "train.sh cannot be started: Exec format error; write a shell script as: patchcore run -- bash SCRIPT\n"
        )

    def test_flags_of_the_interpreter_are_kept(self, shop: Programs) -> None:
        code = "import sys, warnings; print(sys.flags, sys.warnoptions, sorted(sys._xoptions))"
        shop.write({"script.py": code})
        flags = ["-OO", "-X", "dev", "-W", "error::UserWarning", "-s", "-q"]
        expected = shop.run([*shop.python, *flags, "script.py"]).stdout
        assert shop.run([*shop.python, *flags, "-m", "patchcore", "run", "script.py"]).stdout == expected

    def test_unbuffered_output_is_kept(self, shop: Programs) -> None:
        shop.write({"script.py": "import os; print('written'); os._exit(0)"})
        assert shop.run([*shop.python, "-u", "-m", "patchcore", "run", "script.py"]).stdout == "written\n"

    @pytest.mark.parametrize("name", ["SIGTERM", "SIGSEGV", "SIGKILL"])
    def test_a_signal_ends_it_as_it_would(self, shop: Programs, name: str) -> None:
        number = getattr(signal, name)
        shop.write({"script.py": f"import os, resource\nos.kill(os.getpid(), {int(number)})\n"})
        done = shop.run(shop.patchcore, "script.py", code=-number)
        assert done.stderr == ""

    def test_its_own_handler_gets_the_signal(self, shop: Programs) -> None:
        source = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *args: sys.exit(9))
print("ready", flush=True)
signal.pause()
"""
        shop.write({"script.py": source})
        command = [*shop.patchcore, "script.py"]
        with subprocess.Popen(
            command, cwd=shop.folder, env=shop.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.terminate()
            _, errors = process.communicate(timeout=900)
        assert (process.returncode, errors) == (9, "patchcore: no patches\n")

    def test_signals_that_python_ignores_are_not_ignored_in_it(self, shop: Programs) -> None:
        script = "grep SigIgn /proc/self/status; yes | head -n 1; echo ${PIPESTATUS[0]}"
        expected = shop.run(["bash", "-c", script])
        actual = shop.run(shop.patchcore, "--", "bash", "-c", script)
        assert (actual.stdout, actual.stderr) == (expected.stdout, expected.stderr)

    @pytest.mark.parametrize("stream", ["1", "2"], ids=["stdout", "stderr"])
    def test_with_a_stream_closed(self, shop: Programs, stream: str) -> None:
        shop.write({"script.py": "raise SystemExit(7)"})
        shop.run(["bash", "-c", f'"$@" {stream}>&-', "bash", *shop.patchcore, "script.py"], code=7)

    def test_in_a_folder_that_is_gone(self, shop: Programs) -> None:
        script = 'mkdir gone; cd gone; rmdir ../gone; "$@"'
        arguments = ["-m", "this"]
        expected = shop.run(["bash", "-c", script, "bash", *shop.python, *arguments])
        run = [*shop.python, "-m", "patchcore", "run"]
        actual = shop.run(["bash", "-c", script, "bash", *run, *arguments])
        assert (actual.stdout, actual.stderr) == (expected.stdout, f"{expected.stderr}patchcore: no patches\n")

    def test_with_as_many_arguments_as_the_system_takes(self, shop: Programs) -> None:
        shop.write({"script.py": "import sys; print(len(sys.argv))"})
        many = ["x" * 60] * 3000
        assert shop.run(shop.python, "script.py", *many).stdout == "3001\n"
        assert shop.run(shop.patchcore, "script.py", *many).stdout == "3001\n"

    def test_on_the_same_terminal(self, shop: Programs) -> None:
        code = "import os, sys; print([os.isatty(fd) for fd in (0, 1, 2)], os.getpgid(0) == os.getpgid(os.getppid()))"
        shop.write({"script.py": code})
        reading, terminal = os.openpty()
        try:
            subprocess.run(
                [*shop.patchcore, "script.py"],
                cwd=shop.folder,
                env=shop.environment,
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                timeout=900,
                check=True,
            )
            assert os.read(reading, 1000).startswith(b"[True, True, True] True\r\n")
        finally:
            os.close(reading)
            os.close(terminal)
