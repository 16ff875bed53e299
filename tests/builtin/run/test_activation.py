"""A process of a run: it applies what the launcher was told, with what its own Python has, and says what is missing."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from programs import FAILING, PATCHES, SELL, SHOP, Programs, make_environment

OPTIONS = """
import os, sys
import patchcore as pc

@pc.hookimpl
def register_run_options(parser):
    parser.add_argument("--halt", type=int, default=0)

@pc.hookimpl
def configure_run(options, settings):
    os.write(1, f"halt {options.halt} {'shop' in sys.modules} {settings.on_failure}\\n".encode())
"""
# Starts itself in each way; every process shows whether it is patched.
CHILDREN = """
import multiprocessing, os, subprocess, sys

def sell():
    from shop.prices import price
    return price("apple")

if __name__ == "__main__":
    print("program", sell(), flush=True)
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.apply(sell), flush=True)
    if not os.fork():
        print("os.fork", sell(), flush=True)
        os._exit(0)
    os.wait()
    sell_in_child = "from children import sell; print(sys.argv[1], sell(), flush=True)"
    code = "import os, subprocess, sys; sys.path.insert(0, 'inside'); "
    python = [sys.executable, "-c"]
    subprocess.run([*python, code + sell_in_child, "subprocess"], check=True)
    grandchild = f"subprocess.run([*{python!r}, {code + sell_in_child!r}, 'grandchild'])"
    subprocess.run([*python, code + grandchild], check=True)
    os.execv(sys.executable, [*python, code + sell_in_child, "exec"])
"""


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.write({**SHOP, "deals.py": PATCHES})
    return programs


class TestEveryProcess:
    @pytest.fixture
    def inside(self, programs: Programs) -> Programs:
        """The program and its library are in a folder that is not the current one."""
        sources = {**SHOP, "children.py": CHILDREN}
        programs.write({**{f"inside/{name}": source for name, source in sources.items()}, "deals.py": PATCHES})
        return programs

    def test_is_patched_and_has_the_options_of_plugins(self, inside: Programs) -> None:
        inside.install({"halts.py": OPTIONS}, "shop-halts", halts="halts")
        done = inside.run(inside.patchcore, "-p", "deals", "--halt", "3", "inside/children.py", "--halt", "4")
        lines = done.stdout.splitlines()
        kinds = ["program", "fork", "spawn", "forkserver", "os.fork", "subprocess", "grandchild", "exec"]
        assert [line for line in lines if not line.startswith("halt")] == [f"{kind} 20" for kind in kinds]
        # but for fork, which leaves the child what its parent has, each is configured once
        assert [line for line in lines if line.startswith("halt")] == ["halt 3 False warn"] * 6
        assert "failed" not in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(("before", "ignored"), [("", True), ("gc.collect(); ", False)])
    def test_lets_the_garbage_collector_ignore_what_it_loads_first(
        self, shop: Programs, before: str, ignored: bool
    ) -> None:
        """Unless the program has worked for a while: its own objects would be ignored, too."""
        code = f"import gc; {before}import shop.prices; print(gc.isenabled(), gc.get_freeze_count() > 10_000)"
        starts_it = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)"
        shop.write({"starts.py": starts_it})
        done = shop.run(shop.patchcore, "-p", "deals", "starts.py")
        assert done.stdout == f"True {ignored}\n"

    def test_that_takes_the_place_of_the_program_speaks_for_it(self, shop: Programs) -> None:
        shop.write({"again.py": "import os, sys, shop; os.execv(sys.executable, [sys.executable, 'sell.py'])\n"})
        done = shop.run(shop.patchcore, "-p", "deals", "again.py")
        assert (done.stdout, done.stderr) == ("20\n", "patchcore: 1 applied\n")

    def test_has_required_patches_of_libraries_beside_the_script(self, inside: Programs) -> None:
        source = """
import multiprocessing
from children import sell
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(sell(), pool.apply(sell))
"""
        inside.write({"deals.py": PATCHES.replace('price")', 'price", required=True)'), "inside/script.py": source})
        done = inside.run(inside.patchcore, "-p", "deals", "--strict", "inside/script.py")
        assert (done.stdout, done.stderr) == ("20 20\n", "patchcore: 1 applied\n")

    @pytest.mark.parametrize("preloaded", [[], ["__main__"], ["shop.prices", "children"]], ids=str)
    def test_where_a_fork_server_is_the_start_method(self, inside: Programs, preloaded: list[str]) -> None:
        """That is so on Linux since Python 3.14. The server imports the modules that it is given before it forks."""
        source = f"""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from children import sell

def show(name):
    print(name, sell(), flush=True)

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload({preloaded!r})
    process = multiprocessing.Process(target=show, args=("Process",))
    process.start()
    process.join()
    with multiprocessing.Pool(1) as pool:
        print("Pool", pool.apply(sell), flush=True)
    with ProcessPoolExecutor(1) as executor:
        print("ProcessPoolExecutor", executor.submit(sell).result(), flush=True)
"""
        inside.write({"inside/script.py": source})
        done = inside.run(inside.patchcore, "-p", "deals", "inside/script.py")
        assert done.stdout == "Process 20\nPool 20\nProcessPoolExecutor 20\n"

    def test_has_the_modules_of_the_scripts_project(self, inside: Programs) -> None:
        """Its pyproject.toml is found from the script, and names modules beside itself."""
        project = inside.folder / "inside"
        shutil.move(str(inside.folder / "deals.py"), project)
        inside.write({"inside/pyproject.toml": '[tool.patchcore]\nmodules = ["deals"]\n'})
        source = f"""
import subprocess, sys
sys.path.insert(0, {str(project)!r})
import children
print(children.sell(), flush=True)
subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, 'inside'); import sell"], check=True)
"""
        inside.write({"inside/tools/train.py": source})
        done = inside.run(inside.patchcore, "inside/tools/train.py")
        assert (done.stdout, done.stderr) == ("20\n20\n", "patchcore: 1 applied\n")

    def test_has_required_patches_of_libraries_in_an_archive(self, programs: Programs) -> None:
        with zipfile.ZipFile(programs.folder / "app.pyz", "w") as archive:
            for name, source in SHOP.items():
                archive.writestr(name.replace("sell.py", "__main__.py"), source)
        programs.write({"deals.py": PATCHES.replace('price")', 'price", required=True)')})
        assert programs.run(programs.patchcore, "-p", "deals", "app.pyz").stdout == "20\n"

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="-P is new in Python 3.11")
    def test_finds_what_patches_import_where_the_folder_of_the_script_is_not_on_the_path(self, shop: Programs) -> None:
        lazy = 'import patchcore as pc\nP = pc.Patch("d.p", [pc.Replace("shop.prices:price", "deals_impl:fast")])\n'
        shop.write({"deals.py": f"{lazy}@pc.hookimpl\ndef register_patches():\n    return [P]\n"})
        shop.write({"deals_impl.py": "def fast(item):\n    return 30\n"})
        shop.write(SHOP, shop.site)
        assert shop.run(shop.patchcore, "-p", "deals", "sell.py", PYTHONSAFEPATH="1").stdout == "30\n"


class TestOptionsOfPlugins:
    @pytest.fixture
    def halted(self, shop: Programs) -> Programs:
        shop.install({"halts.py": OPTIONS}, "shop-halts", halts="halts")
        return shop

    @pytest.mark.parametrize(
        "failure",
        ["1 / 0", "sys.exit(3)"],
    )
    def test_that_fail_are_said_and_the_program_goes_on(self, halted: Programs, failure: str) -> None:
        halted.write({"halts.py": OPTIONS.replace("os.write", f"{failure}\n    os.write")}, halted.site)
        done = halted.run(halted.patchcore, "-p", "deals", "sell.py")
        assert done.stdout == "20\n"
        assert "patchcore: plugin halts (shop-halts 1.0): configure_run failed: " in done.stderr

    def test_that_fail_end_a_strict_run(self, halted: Programs) -> None:
        halted.write({"halts.py": OPTIONS.replace("os.write", "1 / 0\n    os.write")}, halted.site)
        done = halted.run(halted.patchcore, "-p", "deals", "--strict", "sell.py", code=1)
        assert done.stdout == ""
        last = done.stderr.splitlines()[-1]
        assert last.startswith("patchcore: ")
        assert "plugin halts (shop-halts 1.0): configure_run failed: ZeroDivisionError" in last


class TestAPythonWithOtherPlugins:
    """A child process of another Python, which has patchcore."""

    @pytest.fixture
    def other(self, shop: Programs) -> list[str]:
        shop.install({"sales.py": PATCHES}, "shop-sales", "2.1", sales="sales")
        make_environment(shop.folder / "other")
        return ["--", str(shop.folder / "other" / "bin" / "python")]

    def install(self, shop: Programs, version: str) -> None:
        (site,) = shop.folder.glob("other/lib/python*/site-packages")
        here = shop.site
        shop.site = site
        shop.install({"sales.py": PATCHES}, "shop-sales", version, sales="sales")
        shop.site = here

    def test_lacks_one(self, shop: Programs, other: list[str]) -> None:
        shop.write({"train.sh": f"{other[1]} sell.py; exit 3"})
        done = shop.run(shop.patchcore, "--", "bash", "train.sh", code=3)
        assert done.stdout == "10\n"
        warning, summary = done.stderr.splitlines()
        assert warning == (
            f"patchcore: plugin sales (shop-sales 2.1) is not installed for {other[1]}, but patchcore run has loaded "
            f"it; install the same plugins for every Python of the run"
        )
        assert summary == "patchcore: no patches"

    def test_has_another_version(self, shop: Programs, other: list[str]) -> None:
        self.install(shop, "2.0")
        done = shop.run(shop.patchcore, *other, "sell.py")
        assert done.stdout == "20\n"
        warning, summary = done.stderr.splitlines()
        assert warning.startswith("patchcore: plugin sales (shop-sales 2.1) of patchcore run is ")
        assert "shop-sales 2.0" in warning
        assert warning.endswith(f" for {other[1]}; install the same plugins for every Python of the run")
        assert summary == "patchcore: 1 applied"

    def test_has_the_same(self, shop: Programs, other: list[str]) -> None:
        self.install(shop, "2.1")
        done = shop.run(shop.patchcore, *other, "sell.py")
        assert (done.stdout, done.stderr) == ("20\n", "patchcore: 1 applied\n")

    @pytest.mark.parametrize("version", [None, "2.0"], ids=["none", "another version"])
    def test_ends_a_strict_run(self, shop: Programs, other: list[str], version: str) -> None:
        if version is not None:
            self.install(shop, version)
        done = shop.run(shop.patchcore, "--strict", *other, "sell.py", code=1)
        assert done.stdout == ""
        (message,) = done.stderr.splitlines()
        assert message.startswith("patchcore: plugin sales (shop-sales 2.1) ")
        assert message.endswith("install the same plugins for every Python of the run")

    def test_lacks_one_that_was_chosen(self, shop: Programs, other: list[str]) -> None:
        done = shop.run(shop.patchcore, "--plugin", "sales", "-p", "deals", "--enable", "sales", *other, "sell.py")
        assert done.stdout == "20\n"  # that of the local module
        assert done.stderr.startswith(f"patchcore: plugin sales (shop-sales 2.1) is not installed for {other[1]}, but")

    def test_lacks_one_that_has_added_an_option(self, shop: Programs, other: list[str]) -> None:
        shop.install({"halts.py": OPTIONS}, "shop-halts", halts="halts")
        shop.write({"deals.py": PATCHES + OPTIONS.replace("halt", "mark")})
        options = ["-p", "deals", "--disable", "sales", "--halt", "3", "--mark", "5"]
        done = shop.run(shop.patchcore, *options, *other, "sell.py")
        assert done.stdout.splitlines() == ["mark 5 False warn", "20"]


class TestARunInsideARun:
    @pytest.fixture
    def shop(self, shop: Programs) -> Programs:
        shop.write({"sales.py": PATCHES.replace("20", "30")})
        return shop

    def test_has_its_own_settings(self, shop: Programs) -> None:
        again = " ".join(shop.patchcore)
        shop.write({"train.sh": f"{again} -p sales sell.py; {again} sell.py; {shop.python[0]} sell.py; exit 7"})
        done = shop.run(shop.patchcore, "-p", "deals", "--", "bash", "train.sh", code=7)
        assert done.stdout == "30\n10\n20\n"
        assert done.stderr.splitlines() == ["patchcore: 1 applied", "patchcore: no patches", "patchcore: 1 applied"]

    def test_commands_of_patchcore_work_there(self, shop: Programs) -> None:
        command = [shop.python[0], "-m", "patchcore", "list"]
        expected = shop.run(command).stdout
        done = shop.run(command, **shop.in_run("deals"))
        assert (done.stdout, done.stderr) == (expected, "")
        assert shop.run(shop.patchcore, "-p", "deals", "--", *command).stdout == expected


class TestGoesOn:
    @pytest.mark.parametrize(
        "session",
        ["{", "2:=x:~y:z", '{"protocol": 1}', "3:x"],
        ids=["damaged", "2", "of the first version", "of a later version"],
    )
    def test_with_a_session_that_it_cannot_read(self, shop: Programs, session: str) -> None:
        done = shop.child(f"{SELL}; import sell", run={**shop.in_run("deals"), "PATCHCORE_SESSION": session})
        assert done.stdout == "10\n10\n"
        (message,) = done.stderr.splitlines()
        assert message.startswith(f"patchcore: this process ({shop.python[0]}) is not patched: ")

    UNKNOWN = pytest.mark.parametrize(
        "settings", [{"plugins": ("nosuch",)}, {"options": {"nosuch": {}}}], ids=["a plugin", "options of a patch"]
    )

    @UNKNOWN
    def test_where_settings_mean_nothing(self, shop: Programs, settings: Mapping[str, object]) -> None:
        done = shop.child(SELL, run=shop.in_run("deals", **settings))
        assert done.stdout == "10\n"
        assert done.stderr.startswith(f"patchcore: this process ({shop.python[0]}) is not patched: ")
        assert "Traceback" not in done.stderr

    @UNKNOWN
    def test_but_not_where_settings_mean_nothing_in_a_strict_run(
        self, shop: Programs, settings: Mapping[str, object]
    ) -> None:
        done = shop.child(SELL, run=shop.in_run("deals", on_failure="raise", **settings), exit_code=1)
        assert done.stderr.startswith(f"patchcore: this process ({shop.python[0]}) is not patched: ")
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("reports", [None, "reports"], ids=["", "with reports"])
    def test_when_the_first_import_is_at_its_end(self, shop: Programs, reports: str) -> None:
        run = shop.in_run("deals", report_dir=reports)
        done = shop.child(f"import atexit, threading\n@atexit.register\ndef last():\n    {SELL}", run=run)
        assert (done.stdout, "Traceback" in done.stderr) == ("20\n", False)


class TestAPatchThatFailsInAStrictRun:
    def test_ends_the_process_with_a_message(self, shop: Programs) -> None:
        shop.write({"deals.py": FAILING})
        done = shop.child(f"print(1, flush=True); {SELL}", run=shop.in_run("deals", on_failure="raise"), exit_code=1)
        assert done.stdout == "1\n"
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("patchcore: patch deals.double (plugin deals) failed: ")

    def test_leaves_errors_of_the_program_alone(self, shop: Programs) -> None:
        code = f"{SELL}\nimport patchcore\nraise patchcore.PatchError('mine')"
        expected = shop.run([*shop.python, "-c", code], code=1).stderr
        done = shop.child(code, run=shop.in_run("deals", on_failure="raise"), exit_code=1)
        assert done.stderr == f"{expected}patchcore: 1 applied\n"


def test_where_a_program_looks_for_its_modules_is_not_changed(shop: Programs) -> None:
    """A local patch module comes from its folder, which then is on the path, but after all else."""
    code = "import sys; print(sys.path)"
    expected = shop.run([*shop.python, "-c", code]).stdout.strip()
    actual = shop.child(f"import sell\n{code}").stdout.splitlines()[-1]
    assert actual == f"{expected[:-1]}, {str(Path(shop.folder))!r}]"


class TestAWorkerOfAnEngineWithoutAPlugin:
    """A script of an installed package that another process starts: it would be started again and again if it died."""

    #: Runs the task that is in the folder of the program, which it is given as a file, like a serialised function.
    WORKER = """
import sys, traceback, runpy
import crew_lib
print("started", flush=True)
try:
    runpy.run_path(sys.argv[1])
except Exception as error:
    print("task:", type(error).__name__, error, flush=True)
"""
    MAIN = """
import subprocess, sys, crew, os
if os.path.exists("gone.py"):
    os.remove("gone.py")
script = os.path.join(os.path.dirname(crew.__file__), "worker.py")
subprocess.run([sys.executable, script, os.path.abspath("task.py")], check=True)
"""

    @pytest.fixture
    def crew(self, shop: Programs) -> Programs:
        files = {"crew/__init__.py": "", "crew/worker.py": self.WORKER, "crew_lib.py": ""}
        shop.install(files, "crew")
        shop.write({"main.py": self.MAIN, "task.py": SELL})
        return shop

    def test_under_strict_what_failed_is_raised_in_code_of_the_program(self, crew: Programs) -> None:
        crew.write({"deals.py": FAILING})
        done = crew.run(crew.patchcore, "-p", "deals", "--strict", "main.py")
        started, task, *_ = done.stdout.splitlines()
        assert started == "started"
        assert task.startswith("task: PatchError patch deals.double (plugin deals) failed:")

    def test_that_lacks_a_module_of_patches_starts_all_the_same(self, crew: Programs) -> None:
        crew.write({"gone.py": PATCHES})
        done = crew.run(crew.patchcore, "-p", "gone", "--strict", "main.py")
        assert done.stdout.splitlines()[0] == "started"
        assert "No module named 'gone'" in done.stdout.splitlines()[1], done.stdout
        assert "plugin gone" in done.stderr

    def test_that_is_patched_is_as_any_other(self, crew: Programs) -> None:
        done = crew.run(crew.patchcore, "-p", "deals", "--strict", "main.py")
        assert done.stdout == "started\n20\n"
