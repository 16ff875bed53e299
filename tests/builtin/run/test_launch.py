"""``patchcore run``: a program sees what it would see without it, and is patched."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from programs import FAILING, PATCHES, SHOP, Programs

# Prints everything that a program can know about how it was started.
LOOK = """
import json, sys
main = vars(sys.modules["__main__"])
spec = main["__spec__"]
assert main is globals() or __name__ != "__main__"
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path,
    "spec": spec and [spec.name, spec.origin, spec.parent, type(spec.loader).__name__],
    "loader": type(main["__loader__"]).__name__,
    "builtins": type(main["__builtins__"]).__name__,
    **{name: main.get(name, "absent") for name in ("__name__", "__file__", "__package__", "__doc__")},
}, indent=1))
"""
FILES = {
    "script.py": LOOK,
    "elsewhere/script.py": "from sibling import LOOK\nexec(LOOK)\n",
    "elsewhere/sibling.py": f"LOOK = {LOOK!r}\n",
    "package/__init__.py": "",
    "package/__main__.py": f"from package import module\nfrom . import module as m\nassert m is module\n{LOOK}",
    "package/module.py": LOOK,
    "folder/__main__.py": f"import sibling\n{LOOK}",
    "folder/sibling.py": "",
}


class TestLooksLikeTheInterpreter:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["script.py", "--lr", "0.1", "-p", "nothing", "--", "--strict"],
            ["elsewhere/../elsewhere/script.py", "-m"],
            ["-m", "package", "--lr", "0.1", "--", "-m"],
            ["-m", "package.module", "--help"],
            ["./folder", "--lr", "0.1"],
        ],
        ids=" ".join,
    )
    def test_state(self, programs: Programs, arguments: list[str]) -> None:
        programs.write(FILES)
        assert '"__name__": "__main__"' in programs.compare(*arguments)

    def test_an_absolute_path_and_a_link(self, programs: Programs) -> None:
        programs.write(FILES)
        (programs.folder / "link.py").symlink_to(programs.folder / "elsewhere" / "script.py")
        programs.compare(str(programs.folder / "link.py"))

    def test_archive(self, programs: Programs) -> None:
        with zipfile.ZipFile(programs.folder / "archive", "w") as archive:
            archive.writestr("__main__.py", f"import sibling\n{LOOK}")
            archive.writestr("sibling.py", "")
        programs.compare("archive", "--lr", "0.1")

    def test_started_with_python_m(self, programs: Programs) -> None:
        programs.write(FILES)
        programs.patchcore = [*programs.python, "-m", "patchcore", "run"]
        programs.compare("-m", "package")

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="-P is new in Python 3.11")
    def test_without_an_unsafe_path(self, programs: Programs) -> None:
        programs.write(FILES)
        programs.environment["PYTHONSAFEPATH"] = "1"
        programs.compare("script.py")

    def test_source_encoding(self, programs: Programs) -> None:
        (programs.folder / "script.py").write_bytes(b"# coding: latin-1\nprint(ascii('\xe9'))\n")
        assert programs.compare("script.py") == "'\\xe9'\n"

    def test_double_dash_before_the_program(self, programs: Programs) -> None:
        programs.write({"script.py": "import sys; print(sys.argv)"})
        assert programs.run(programs.patchcore, "--", "script.py", "--", "-x").stdout == "['script.py', '--', '-x']\n"

    def test_the_program_reads_stdin(self, programs: Programs) -> None:
        programs.write({"script.py": "print(input())"})
        assert programs.compare("script.py", stdin="hello\n") == "hello\n"


class TestEnds:
    @pytest.mark.parametrize(
        ("source", "code"),
        [
            ("import sys; sys.exit(3)", 3),
            ("import os, sys; print('out', flush=True); os._exit(5)", 5),
        ],
    )
    def test_exit_code(self, programs: Programs, source: str, code: int) -> None:
        programs.write({"script.py": source})
        expected = programs.run(programs.python, "script.py", code=code)
        actual = programs.run(programs.patchcore, "script.py", code=code)
        assert actual.stdout == expected.stdout
        assert actual.stderr.replace("patchcore: no patches\n", "") == expected.stderr

    @pytest.mark.parametrize(
        "source",
        [
            "def f():\n    raise ValueError('wrong')\nf()\n",
            "import sibling\n",
            "import nosuchmodule\n",
            "def f(:\n",
            "import sys\nsys.excepthook = lambda kind, error, trace: print('mine', kind, trace.tb_lineno)\n1 / 0\n",
        ],
        ids=["raised", "in an import", "missing", "syntax", "hook"],
    )
    def test_traceback_is_the_interpreters(self, programs: Programs, source: str) -> None:
        programs.write({"script.py": source, "sibling.py": "1 / 0\n"})
        programs.compare("script.py", code=1)

    @pytest.mark.parametrize("arguments", [["-m", "package"], ["folder"]], ids=" ".join)
    def test_traceback_of_other_programs_is_the_interpreters(self, programs: Programs, arguments: list[str]) -> None:
        source = "def f():\n    raise ValueError('wrong')\nf()\n"
        programs.write({"package/__init__.py": "", "package/__main__.py": source, "folder/__main__.py": source})
        programs.compare(*arguments, code=1)

    @pytest.mark.parametrize(
        ("body", "statement"),
        [
            ("def f():\n    1 / 0\nf()\n", "import shop.prices"),
            ("import nosuchmodule\n", "from shop.prices import price"),
            ("def f(:\n", "import shop.prices"),
            ("", "from shop.prices import prize"),
        ],
        ids=["raised", "missing module", "syntax", "in the program"],
    )
    def test_traceback_through_a_module_that_a_patch_waits_for(
        self, programs: Programs, body: str, statement: str
    ) -> None:
        script = f"def main():\n    {statement}\nmain()\n"
        programs.write({**SHOP, "shop/prices.py": body, "deals.py": PATCHES, "script.py": script})
        expected = programs.run(programs.python, "script.py", code=1).stderr
        awake = programs.run(programs.patchcore, "-p", "deals", "script.py", code=1)
        asleep = programs.run(programs.python, "script.py", code=1, **programs.in_run("deals"))
        for done in (awake, asleep):
            lines = done.stderr.splitlines(keepends=True)
            assert "".join(line for line in lines if not line.startswith("patchcore: ")) == expected

    def test_keyboard_interrupt(self, programs: Programs) -> None:
        # A shell starts what goes to the background with SIGINT ignored, and so do the processes below it.
        heeding = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        programs.write({"script.py": f"{heeding}print('ready', flush=True)\nimport time\ntime.sleep(30)\n"})
        command = [*programs.patchcore, "script.py"]
        with subprocess.Popen(
            command,
            cwd=programs.folder,
            env=programs.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=900)
        assert process.returncode == -signal.SIGINT
        assert errors.splitlines()[-2:] == ["KeyboardInterrupt", "patchcore: no patches"]
        assert "launch" not in errors

    def test_atexit_functions_and_threads_still_have_their_module(self, programs: Programs) -> None:
        programs.write(
            {
                "script.py": """
import atexit, pickle, sys, threading, time

class Record:
    pass

def last(where):
    print(where, pickle.loads(pickle.dumps(Record())).__class__ is Record, sys.modules["__main__"].Record is Record)

def later():
    time.sleep(0.05)
    last("thread")

atexit.register(last, "atexit")
threading.Thread(target=later).start()
print("end")
"""
            }
        )
        assert programs.compare("-m", "script") == "end\nthread True True\natexit True True\n"

    def test_spawned_children_of_a_module_have_its_classes(self, programs: Programs) -> None:
        source = """
import multiprocessing

class Square:
    def __init__(self, x):
        self.value = x * x

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([result.value for result in pool.map(Square, [1, 2, 3])])
"""
        programs.write({"pool.py": source})
        assert programs.compare("-m", "pool") == "[1, 4, 9]\n"

    def test_traceback_of_a_module_that_is_run_and_a_patch_waits_for(self, programs: Programs) -> None:
        programs.write({"shop/__init__.py": "", "shop/prices.py": "import nosuchmodule\n", "deals.py": PATCHES})
        programs.compare("-m", "shop.prices", code=1, options=["-p", "deals"], summary="1 pending")


class TestUsage:
    @pytest.mark.parametrize("name", ["nosuch.module", "package"])
    def test_no_such_module_is_said_by_the_interpreter(self, programs: Programs, name: str) -> None:
        programs.write({"package/__init__.py": ""})
        programs.compare("-m", name, code=1)

    @pytest.mark.parametrize("arguments", [["--strict"], ["-m"], ["--"]], ids=" ".join)
    def test_nothing_to_run(self, programs: Programs, arguments: list[str]) -> None:
        done = programs.run(programs.patchcore, *arguments, code=2)
        assert "expected a program to run: patchcore run train.py" in done.stderr


class TestPatches:
    def test_local_patch_module_and_script_in_another_directory(self, programs: Programs) -> None:
        """The module is found from the current directory, and can import from there when a patch is applied."""
        programs.write({f"other/{name}": source for name, source in SHOP.items()})
        lazy = 'import patchcore as pc\nP = pc.Patch("d.p", [pc.Replace("shop.prices:price", "deals_impl:fast")])\n'
        programs.write({"deals.py": f"{lazy}@pc.hookimpl\ndef register_patches():\n    return [P]\n"})
        programs.write({"deals_impl.py": "def fast(item):\n    return 30\n"})
        programs.write({"other/look.py": "import sys\nfrom shop.prices import price\nprint(price(''), sys.path[0])\n"})
        done = programs.run(programs.patchcore, "-p", "deals", "other/look.py")
        assert done.stdout == f"30 {programs.folder.resolve() / 'other'}\n"

    def test_local_patch_module_goes_before_an_installed_one(self, programs: Programs) -> None:
        programs.write({**SHOP, "deals.py": PATCHES})
        programs.write({"deals.py": "1 / 0\n"}, programs.site)
        assert programs.run(programs.patchcore, "-p", "deals", "sell.py").stdout == "20\n"

    def test_installed_plugin_and_selection(self, programs: Programs) -> None:
        programs.write(SHOP)
        programs.install({"deals.py": PATCHES}, "shop-deals", "2.1", deals="deals")
        assert programs.run(programs.patchcore, "sell.py").stdout == "20\n"
        assert programs.run(programs.patchcore, "--disable", "deals.double", "sell.py").stdout == "10\n"
        assert programs.run(programs.patchcore, "sell.py", PATCHCORE_PLUGINS="").stdout == "10\n"
        done = programs.run(programs.patchcore, "--disable", "deals.duble", "sell.py", code=2)
        assert "did you mean 'deals.double'?" in done.stderr

    def test_a_failure_is_said_and_the_program_goes_on(self, programs: Programs) -> None:
        programs.write({**SHOP, "deals.py": FAILING})
        done = programs.run(programs.patchcore, "-p", "deals", "sell.py")
        assert done.stdout == "10\n"
        failure, summary = done.stderr.splitlines()
        assert failure.startswith("patchcore: patch deals.double (plugin deals) failed: replace shop.prices:prize: ")
        assert "did you mean 'price'?" in failure
        assert summary == "patchcore: failed: deals.double; 1 failed"

    def test_strict_ends_the_run(self, programs: Programs) -> None:
        programs.write({**SHOP, "deals.py": FAILING})
        done = programs.run(programs.patchcore, "--strict", "-p", "deals", "sell.py", code=1)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "patchcore: patch deals.double (plugin deals) failed" in done.stderr

    def test_the_programs_own_patchcore_error_is_a_traceback(self, programs: Programs) -> None:
        source = "import patchcore\npatchcore.Patcher([], disable='nosuch').plan()\n"
        programs.write({"script.py": source})
        done = programs.run(programs.patchcore, "script.py", code=1)
        assert "patchcore.errors.UnknownName: " in done.stderr
        assert 'script.py", line 2' in done.stderr

    def test_a_program_that_applies_patches_itself(self, programs: Programs) -> None:
        source = "import patchcore, deals\nwith patchcore.Patcher([deals.double]):\n    import sell\n"
        programs.write({**SHOP, "deals.py": PATCHES, "script.py": source + "from sell import p\nprint(p(1))\n"})
        assert programs.run(programs.patchcore, "-p", "deals", "script.py").stdout == "20\n20\n"
        assert programs.run(programs.patchcore, "script.py").stdout == "20\n10\n"

    def test_nothing_of_the_program_is_imported_before_patches_are_applied(self, programs: Programs) -> None:
        source = "import shop.prices\nvalue = shop.prices.price(1)\n"
        programs.write({**SHOP, "deals.py": PATCHES, "tool/__init__.py": source})
        programs.write({"tool/__main__.py": "import tool\nprint(tool.value)\n"})
        assert programs.run(programs.patchcore, "-p", "deals", "-m", "tool").stdout == "20\n"

    def test_logging_of_the_program_takes_over(self, programs: Programs) -> None:
        logs = "import logging\nlogging.basicConfig(format='mine: %(message)s')\n"
        programs.write({**SHOP, "deals.py": FAILING, "script.py": f"{logs}import shop.prices\n"})
        done = programs.run(programs.patchcore, "-p", "deals", "script.py")
        failure, summary = done.stderr.splitlines()
        assert failure.startswith("mine: patch deals.double")
        assert summary == "patchcore: failed: deals.double; 1 failed"

    def test_log_level(self, programs: Programs) -> None:
        programs.write({**SHOP, "deals.py": PATCHES})
        done = programs.run(programs.patchcore, "-p", "deals", "sell.py", PATCHCORE_LOG="debug")
        assert "patchcore: deals.double applied on import" in done.stderr


class TestReport:
    def reports(self, folder: Path) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(folder.iterdir())]

    @pytest.mark.parametrize("end", ["1 / 0", "import os; os.chdir('shop')"])
    def test_is_written_however_the_program_ends(self, programs: Programs, end: str) -> None:
        programs.write({**SHOP, "deals.py": PATCHES, "end.py": f"import sell\n{end}\n"})
        code = 1 if "/" in end else 0
        programs.run(programs.patchcore, "-p", "deals", "end.py", code=code, PATCHCORE_REPORT_DIR="out")
        (report,) = self.reports(programs.folder / "out")
        assert report["patches"][0]["status"] == "applied"


PLUGIN = """
import sys
import patchcore as pc

@pc.hookimpl
def register_run_options(parser):
    parser.add_argument("--halt", type=int, default=0, help="stop after this many sales")
    parser.add_argument("--report", action="store_true")

@pc.hookimpl
def configure_run(options, settings):
    print("halt", options.halt, options.report, "shop" in sys.modules, settings.on_failure)
"""


class TestPluginOptions:
    @pytest.fixture
    def halted(self, programs: Programs) -> Programs:
        programs.write({**SHOP, "deals.py": PATCHES})
        programs.install({"halts.py": PLUGIN}, "shop-halts", halts="halts")
        return programs

    def test_options_and_configuration(self, halted: Programs) -> None:
        done = halted.run(halted.patchcore, "--strict", "-p", "deals", "--halt", "3", "sell.py", "--halt", "4")
        assert done.stdout == "halt 3 False False raise\n20\n"

    def test_an_option_that_begins_like_one_of_ours(self, halted: Programs) -> None:
        assert halted.run(halted.patchcore, "--report", "sell.py").stdout == "halt 0 True False warn\n10\n"

    def test_a_plugin_that_fails_to_add_its_options(self, halted: Programs) -> None:
        halted.write({"halts.py": PLUGIN.replace("--halt", "--strict")}, halted.site)
        done = halted.run(halted.patchcore, "sell.py")
        assert "plugin halts (shop-halts 1.0): register_run_options failed: ArgumentError" in done.stderr
        assert "10\n" in done.stdout
