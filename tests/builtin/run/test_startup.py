"""What a Python process does first: nothing outside a run; in one, patches wait until an import may concern a patch."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import PATCHES, ROOT, SELL, SHOP, Programs, make_environment

import patchcore_startup
from patchcore.builtin.install.command import install_arguments
from patchcore_startup import ActivationFinder

STATE = """
import sys
print([getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path], "patchcore" in sys.modules)
"""
JSON_PATCH = """
import patchcore as pc

@pc.wrap("json:dumps")
def sorted_keys(original, obj, **options):
    return original(obj, **{"sort_keys": True, **options})

@pc.hookimpl
def register_patches():
    return [sorted_keys]
"""


@pytest.fixture(params=["pth", "sitecustomize"])
def by_door(request: pytest.FixtureRequest, tmp_path: Path) -> Programs:
    """A Python whose children of a run come in by that door only, with a shop and a patch module for it."""
    programs = Programs(tmp_path, door=request.param)
    programs.write({**SHOP, "deals.py": PATCHES})
    return programs


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.write({**SHOP, "deals.py": PATCHES})
    return programs


class TestOutsideARun:
    @pytest.mark.parametrize("session", [{}, {"PATCHCORE_SESSION": ""}], ids=["none", "empty"])
    def test_a_process_is_untouched(self, programs: Programs, session: dict[str, str]) -> None:
        expected = programs.run(programs.python, "-c", STATE).stdout
        assert "ActivationFinder" not in expected
        site = str(patchcore_startup.SITE)
        for path in ("", site):  # a door may be open still
            done = programs.run(programs.python, "-c", STATE, PYTHONPATH=path, **session)
            assert (done.stdout, done.stderr) == (expected, "")

    def test_activate_tells_that_there_is_no_run(self, programs: Programs) -> None:
        code = "import patchcore_startup, sys; print(patchcore_startup.activate(), 'patchcore' in sys.modules)"
        assert programs.run(programs.python, "-c", code).stdout == "False False\n"


class TestActivatesLate:
    # copy, pickle: try to import Jython's org.python; the others: packages, extension modules, compiled lazily, frozen
    CODE = """
import copy, pickle, json.tool, decimal, zipfile, ctypes, xml.dom.minidom, multiprocessing.pool, importlib.resources
try:
    import nosuchmodule
except ImportError as error:
    print(error)
"""

    def test_while_only_the_standard_library_is_imported(self, by_door: Programs) -> None:
        done = by_door.child(self.CODE + STATE)
        said, state = done.stdout.splitlines()
        assert said == "No module named 'nosuchmodule'"
        assert state.startswith("['ActivationFinder', ")  # once
        assert state.count("ActivationFinder") == 1
        assert state.endswith(" False")
        assert done.stderr == ""

    def test_python_m_with_a_module_of_the_standard_library(self, shop: Programs) -> None:
        done = shop.run([*shop.python, "-v", "-m", "json.tool"], stdin="{}", **shop.in_run("deals"))
        assert "import 'patchcore_startup'" in done.stderr
        assert "import 'patchcore'" not in done.stderr


class TestActivates:
    def test_at_the_first_import_of_something_else(self, by_door: Programs) -> None:
        done = by_door.child(SELL + STATE)
        price, state = done.stdout.splitlines()
        assert price == "20"
        assert state.endswith(" True")
        assert "ActivationFinder" not in state  # all that patches are for could be found: there is nothing to wait for
        assert done.stderr == "patchcore: 1 applied\n"

    @pytest.mark.parametrize(
        ("flag", "door", "reached"),
        [
            ("-s", "pth", True),
            ("-E", "both", True),
            ("-I", "both", True),
            ("-s", "sitecustomize", True),
            ("-E", "sitecustomize", False),  # nothing but an installed patchcore can reach these
            ("-I", "sitecustomize", False),
            ("-S", "pth", False),
        ],
    )
    def test_under_flags_that_leave_a_door_open(self, tmp_path: Path, flag: str, door: str, reached: bool) -> None:
        programs = Programs(tmp_path, door=door)
        programs.write({**SHOP, "deals.py": PATCHES})
        code = f"import sys; sys.path.append({str(tmp_path)!r}); {SELL}"
        assert programs.child(code, flag).stdout == ("20\n" if reached else "10\n")

    def test_once_where_both_doors_are_open(self, shop: Programs) -> None:
        shop.write({"deals.py": f"import os; os.write(1, b'loaded ')\n{PATCHES}"})
        assert shop.child(SELL).stdout == "loaded 20\n"

    def test_at_a_part_of_the_standard_library_that_a_patch_is_for(self, programs: Programs) -> None:
        programs.write({"tidy.py": JSON_PATCH})
        run = programs.in_run("tidy", libraries=["json"])
        code = """
import copy, sys
print("patchcore" in sys.modules)
from json import dumps
import json
print(dumps({"b": 1, "a": 2}), dumps is json.dumps, json.__spec__.name, type(json.__spec__).__name__)
"""
        done = programs.child(code, run=run)
        assert done.stdout == 'False\n{"a": 2, "b": 1} True json ModuleSpec\n'

    def test_at_once_where_such_a_part_is_loaded_while_the_site_is_set_up(self, programs: Programs) -> None:
        programs.write({"tidy.py": JSON_PATCH})
        programs.write({"aaa.pth": "import json\n"}, programs.site)
        code = "import sys; print(sys.modules['json'].dumps({'b': 1, 'a': 2}))"
        run = programs.in_run("tidy", libraries=["json"])
        assert programs.child(code, run=run).stdout == '{"a": 2, "b": 1}\n'

    def test_on_demand(self, shop: Programs) -> None:
        done = shop.child(f"import patchcore_startup as s; print(s.activate(), s.activate()){STATE}{SELL}")
        assert done.stdout.splitlines()[0] == "True True"
        assert done.stdout.endswith("20\n")


class TestTheUsersOwnSitecustomize:
    """It runs, once, as it would without the run, whichever door is open."""

    @pytest.mark.parametrize(
        "source",
        [
            "print('mine', __name__, __file__)",
            "raise ValueError('mine')",
            "import nosuchmodule",
            "raise ImportError('mine', name='sitecustomize')",
        ],
        ids=["runs", "raises", "misses a module", "pretends not to be there"],
    )
    def test_is_what_the_program_sees(self, by_door: Programs, source: str) -> None:
        by_door.write({"own/sitecustomize.py": f"print('begin')\n{source}\n"})
        code = "import sys; print(getattr(sys.modules.get('sitecustomize'), '__file__', None), sys.path, sys.argv)"
        path = {"PYTHONPATH": str(by_door.folder / "own")}
        expected = by_door.run(by_door.python, "-c", code, **path)
        actual = by_door.child(code, **path)
        assert (actual.stdout, actual.stderr) == (expected.stdout, expected.stderr)
        assert expected.stdout.startswith("begin\n")

    def test_there_need_not_be_one(self, by_door: Programs) -> None:
        code = "import sys; print('sitecustomize' in sys.modules, sys.path)"
        expected = by_door.run(by_door.python, "-c", code).stdout
        done = by_door.child(code)
        assert (done.stdout, done.stderr) == (expected, "")

    def test_is_patched_when_it_imports_what_a_patch_is_for(self, by_door: Programs) -> None:
        own = {"sitecustomize.py": f"{SELL}\n", "shop/__init__.py": "", "shop/prices.py": SHOP["shop/prices.py"]}
        by_door.write({f"own/{name}": source for name, source in own.items()})
        done = by_door.child(SELL, PYTHONPATH=str(by_door.folder / "own"))
        assert done.stdout == "20\n20\n"
        assert done.stderr == "patchcore: 1 applied\n"

    @pytest.mark.parametrize("door", ["pth", "sitecustomize"])
    def test_usercustomize(self, tmp_path: Path, door: str) -> None:
        programs = Programs(tmp_path, door=door, system=True)  # no other virtual environment has user packages
        base = {"PYTHONUSERBASE": str(tmp_path / "user")}
        user = programs.run([*programs.python, "-m", "site", "--user-site"], **base).stdout.strip()
        programs.write({**SHOP, "usercustomize.py": f"print(__name__)\n{SELL}\n"}, Path(user))
        programs.write({"deals.py": PATCHES})
        run = programs.in_run("deals", plugins=())
        expected = programs.run(programs.python, "-c", "import sys; print(sys.path)", **base).stdout.splitlines()
        actual = programs.child("import sys; print(sys.path)", run=run, **base).stdout.splitlines()
        assert expected[:2] == ["usercustomize", "10"]
        assert actual[:2] == ["usercustomize", "20"]
        # where local patch modules come from is at the end
        assert actual[2] == expected[2][:-1] + f", {str(programs.folder)!r}]"


# Says which modules were executed, how often, and whether importlib has left them as it should.
COUNTED = {
    "shop/__init__.py": "import sys\nsys.ran = [*getattr(sys, 'ran', []), __name__]\n",
    "shop/prices.py": "import sys\nsys.ran.append(__name__)\ndef price(item):\n    return 10\n",
}
LOOK = """
import sys
import shop.prices
import shop
for module in (shop, shop.prices):
    spec = module.__spec__
    print(module is sys.modules[module.__name__], spec.name, spec.parent, type(spec.loader).__name__, spec.origin)
    print(spec.submodule_search_locations, spec.cached, spec.has_location, module.__loader__ is spec.loader)
    print(module.__package__, module.__file__, getattr(module, "__path__", None), spec._initializing)
print(sys.ran, shop.prices is vars(shop)["prices"])
"""


class TestAnImportInsideTheOneThatActivates:
    """A plugin imports the module whose import has activated the run."""

    @pytest.mark.parametrize("needed", ["shop", "shop.prices", "json, shop.prices", "nosuchmodule"])
    def test_the_module_is_executed_once(self, programs: Programs, needed: str) -> None:
        programs.write({**COUNTED, "deals.py": f"import {needed}\n{PATCHES}"})
        expected = programs.run(programs.python, "-c", LOOK).stdout
        assert programs.child(LOOK).stdout == expected

    def test_of_a_part_of_the_standard_library(self, programs: Programs) -> None:
        """The activation itself imports json."""
        programs.write({"tidy.py": f"import json.tool\n{JSON_PATCH}"})
        code = "import json.decoder, json; print(json, json.__spec__.name, json.decoder)"
        expected = programs.run(programs.python, "-c", code).stdout
        assert programs.child(code, run=programs.in_run("tidy", libraries=["json"])).stdout == expected

    def test_of_a_module_that_has_put_something_else_in_its_place(self, programs: Programs) -> None:
        own = "import sys\nclass Odd:\n    __slots__ = ()\n    price = 10\nsys.modules[__name__] = Odd()\n"
        programs.write({**SHOP, "odd.py": own, "deals.py": f"import odd\n{PATCHES}"})
        done = programs.child(f"import odd, sys; print(odd.price, odd is sys.modules['odd'])\n{SELL}")
        assert done.stdout == "10 True\n20\n"

    def test_of_a_module_that_is_looked_for_only(self, programs: Programs) -> None:
        """As libraries do to know whether there is another one."""
        programs.write({**COUNTED, "deals.py": f"import shop.prices\n{PATCHES}"})
        look = "import importlib.util, sys; spec = importlib.util.find_spec('shop')\n"
        code = f"{look}print(spec.origin, 'shop' in sys.modules, 'patchcore' in sys.modules){LOOK}"
        expected = programs.run(programs.python, "-c", code).stdout.replace("False False", "True True", 1)
        assert programs.child(code).stdout == expected

    def test_of_a_module_that_fails(self, programs: Programs) -> None:
        """Executed again, it fails again, as it does without a run: the error is the program's own."""
        programs.write({**SHOP, "broken.py": "1 / 0\n"})
        programs.write({"deals.py": f"try:\n    import broken\nexcept ZeroDivisionError:\n    pass\n{PATCHES}"})
        code = f"{SELL}\nimport broken"
        expected = programs.run(programs.python, "-c", code, code=1).stderr
        assert "ZeroDivisionError" in expected
        done = programs.child(code, exit_code=1)
        assert done.stdout == "20\n"
        assert done.stderr == f"{expected}patchcore: 1 applied\n"


class TestThreads:
    def test_that_import_at_the_same_moment_wait_for_the_patches(self, programs: Programs) -> None:
        programs.write({**SHOP, "other.py": "from shop.prices import price\n"})
        programs.write({"deals.py": f"import time; time.sleep(0.2)\n{PATCHES}"})
        code = """
import patchcore_startup, threading
patchcore_startup._PATIENCE = 300
together = threading.Barrier(3)
def use(name):
    together.wait()
    found.append(__import__(name, fromlist=["price"]).price("apple"))
found = []
threads = [threading.Thread(target=use, args=[name]) for name in ("shop.prices", "shop.prices", "other")]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found)
"""
        assert programs.child(code).stdout == "[20, 20, 20]\n"

    def test_that_wait_for_each_other_do_not_do_so_for_ever(self, programs: Programs) -> None:
        """The activating thread imports what another one is importing, which then imports something else itself."""
        body = "import sys; sys.begun.set(); sys.activating.wait()\nimport colorsys\n"
        programs.write({**SHOP, "__mp_main__.py": body})  # never activates the run
        programs.write({"deals.py": f"import sys, time; sys.activating.set(); import __mp_main__\n{PATCHES}"})
        code = f"""
import faulthandler, sys, threading
faulthandler.dump_traceback_later(300, exit=True)
sys.begun, sys.activating = threading.Event(), threading.Event()
threading.Thread(target=lambda: __import__("__mp_main__"), daemon=True).start()
sys.begun.wait()
{SELL}
"""
        assert programs.child(code).stdout == "20\n"

    def test_a_plugin_that_hangs_holds_up_no_other_thread_for_ever(self, programs: Programs) -> None:
        programs.write(
            {**SHOP, "other.py": "", "deals.py": f"import sys, time; sys.activating.set(); time.sleep(900)\n{PATCHES}"}
        )
        code = f"""
import faulthandler, os, patchcore_startup, sys, threading
faulthandler.dump_traceback_later(300, exit=True)
patchcore_startup._PATIENCE = 0.1
sys.activating = threading.Event()
threading.Thread(target=lambda: __import__("other"), daemon=True).start()
sys.activating.wait()
{SELL}
os._exit(0)
"""
        assert programs.child(code).stdout == "10\n"


class TestAPluginThatCannotBeImported:
    def test_is_said_and_the_program_goes_on(self, shop: Programs) -> None:
        shop.write({"broken.py": "1 / 0\n"})
        done = shop.child(SELL, run=shop.in_run("broken", "deals"))
        assert done.stdout == "20\n"
        assert done.stderr.startswith("patchcore: plugin broken: load failed: ZeroDivisionError: division by zero\n")

    @pytest.mark.parametrize("program", [False, True], ids=["child", "program"])
    def test_ends_a_strict_run(self, shop: Programs, program: bool) -> None:
        shop.write({"broken.py": "1 / 0\n", "script.py": f"print('begin')\n{SELL}\n"})
        run = shop.in_run("broken", "deals", on_failure="raise")
        if program:  # bash becomes the Python that runs the script: its process id stays
            session = 'PATCHCORE_SESSION="${PATCHCORE_SESSION/:/:$$:}"'
            command = ["bash", "-c", f"{session} exec {shlex.quote(shop.python[0])} script.py"]
        else:
            command = [*shop.python, "script.py"]
        done = shop.run(command, code=1, **run)
        assert done.stdout == ("" if program else "begin\n")
        # first the log, with the plugin's own traceback
        assert done.stderr.endswith("\npatchcore: plugin broken: load failed: ZeroDivisionError: division by zero\n")
        assert "patchcore_startup" not in done.stderr


class TestAPythonWithoutPatchcore:
    @pytest.fixture
    def bare(self, shop: Programs) -> Programs:
        make_environment(shop.folder / "bare", packages=(), pth=False)
        shop.python = [str(shop.folder / "bare" / "bin" / "python")]
        return shop

    def test_says_so_when_it_matters(self, bare: Programs) -> None:
        done = bare.child("import json, pickle, sys; sys.exit(3)", exit_code=3)
        assert (done.stdout, done.stderr) == ("", "")
        done = bare.child(f"{SELL}; import sell, sys; sys.exit(3)", exit_code=3)
        assert done.stdout == "10\n10\n"
        python = bare.python[0]
        assert done.stderr == (
            f"patchcore: this process is not patched: {python} cannot import patchcore (No module named 'patchcore'); "
            f"install it, and the plugins, for that Python: {python} -m pip install {install_arguments('patchcore')}\n"
        )

    def test_names_the_distributions_where_the_python_of_the_run_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        session = {"python": "/nowhere/python", "plugins": [["sales", "shop-sales", "2.1"], ["local", "", ""]]}
        monkeypatch.setenv(patchcore_startup.SESSION, patchcore_startup.encode_session("2", [], session))
        assert patchcore_startup._install_arguments() == "patchcore shop-sales"

    def test_is_silent_when_told_so(self, bare: Programs) -> None:
        done = bare.child(SELL, run=bare.in_run("deals", on_failure="ignore"))
        assert (done.stdout, done.stderr) == ("10\n", "")

    def test_goes_no_further_in_a_strict_run(self, bare: Programs) -> None:
        run = bare.in_run("deals", on_failure="raise")
        assert bare.child("import json; print(1)", run=run).stdout == "1\n"
        done = bare.child(f"print(1, flush=True); {SELL}", run=run, exit_code=1)
        assert done.stdout == "1\n"
        assert f"{bare.python[0]} cannot import patchcore" in done.stderr.splitlines()[-1]

    def test_that_lacks_only_what_patchcore_needs(self, bare: Programs) -> None:
        done = bare.child(SELL, PYTHONPATH=str(ROOT))
        assert done.stdout == "10\n"
        assert "cannot import patchcore (No module named 'pluggy')" in done.stderr


class TestLibrariesThatAppearLater:
    LATER = "import sys; sys.path.insert(0, 'later'); "

    @pytest.fixture
    def later(self, programs: Programs) -> Programs:
        programs.write({**{f"later/{name}": source for name, source in SHOP.items()}, "deals.py": PATCHES, "a.py": ""})
        return programs

    def test_are_patched_after_the_program_has_put_them_on_the_path(self, later: Programs) -> None:
        code = f"import a\ntry:\n    import shop\nexcept ImportError as error:\n    print(error)\n{self.LATER}{SELL}"
        assert later.child(code + STATE).stdout.splitlines()[:2] == ["No module named 'shop'", "20"]

    def test_are_looked_for_no_more_when_they_have_come(self, later: Programs) -> None:
        done = later.child(f"import a, sys; print(type(sys.meta_path[0]).__name__); {self.LATER}{SELL}{STATE}")
        assert done.stdout.splitlines()[0] == "ActivationFinder"
        assert "ActivationFinder" not in done.stdout.splitlines()[-1]
        assert done.stderr == "patchcore: 1 applied\n"

    @pytest.mark.parametrize("policy", ["warn", "raise"])
    def test_come_too_late_for_a_patch_that_is_required(self, later: Programs, policy: str) -> None:
        later.write({"deals.py": PATCHES.replace('price")', 'price", required=True)')})
        run = later.in_run("deals", on_failure=policy)
        done = later.child(f"print(1, flush=True); import a; {self.LATER}{SELL}", run=run, exit_code=1)
        assert done.stdout == "1\n"
        assert done.stderr == "patchcore: patch deals.double (plugin deals) cannot be applied: shop is not installed\n"


class TestTheFinder:
    """Inside this process: when it activates the run, with stand-ins for the activation."""

    @pytest.fixture
    def activated(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        calls: list[str] = []
        monkeypatch.setattr(patchcore_startup, "_activate_run", lambda: calls.append("activate") or {"nosuchlibrary"})
        monkeypatch.setattr(patchcore_startup, "_look_again", lambda: calls.append("look again") or ())
        return calls

    def make(self, *triggers: str, ready: bool = True) -> ActivationFinder:
        finder = ActivationFinder(triggers)
        if ready:
            finder.complete_site()
        return finder

    @pytest.mark.parametrize("listed", [True, False], ids=["", "without a list of the standard library"])
    @pytest.mark.parametrize(
        ("name", "triggers"),
        [
            ("json.tool", False),
            ("_json", False),
            ("sys", False),
            ("zipimport", False),
            ("org.python", False),
            ("patchcore.builtin.run.command", False),
            ("pluggy", False),
            ("_pytest", True),
            ("pytest", True),
            ("xmlrpc", True),
        ],
    )
    def test_activates_at(
        self, activated: list[str], monkeypatch: pytest.MonkeyPatch, listed: bool, name: str, triggers: bool
    ) -> None:
        if not listed:  # Python 3.9
            monkeypatch.delattr(sys, "stdlib_module_names", raising=False)
        finder = self.make("xmlrpc")
        parent, _, last = name.rpartition(".")
        path = getattr(sys.modules.get(parent), "__path__", None) if last else None
        spec = finder.find_spec(name, path)
        assert activated == (["activate"] if triggers else [])
        assert (spec is not None) == triggers

    def test_does_not_activate_before_the_site_is_complete(self, activated: list[str]) -> None:
        finder = self.make(ready=False)
        assert finder.find_spec("pytest") is None
        assert activated == []
        assert finder.find_spec("sitecustomize") is None  # looked up when it is
        assert finder.find_spec("pytest") is not None
        assert activated == ["activate"]

    @pytest.mark.parametrize(
        ("triggers", "calls"), [([str(os.getpid())], 1), (["os"], 1), (["nosuchlibrary", str(os.getppid())], 0)]
    )
    def test_activates_when_the_site_is_complete(self, activated: list[str], triggers: list[str], calls: int) -> None:
        path = list(sys.path)
        finder = self.make(*triggers)
        assert activated == ["activate"] * calls
        assert sys.path == path
        finder.complete_site()
        assert activated == ["activate"] * calls

    def test_looks_again_at_libraries_that_were_missing(
        self, activated: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        finder = self.make()
        finder.activate()
        assert finder.find_spec("pytest") is None  # no concern of any patch
        assert finder.find_spec("nosuchlibrary") is None
        assert activated == ["activate"]
        (tmp_path / "nosuchlibrary.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path)
        assert finder.find_spec("nosuchlibrary") is not None
        assert finder.find_spec("nosuchlibrary") is None
        assert activated == ["activate", "look again"]

    def test_raises_at_every_import_what_the_activation_has_raised(
        self, activated: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> Any:
            activated.append("failed")
            raise ValueError("strict")

        monkeypatch.setattr(patchcore_startup, "_activate_run", fail)
        finder = self.make()
        for _ in range(2):
            with pytest.raises(ValueError, match="strict"):
                finder.find_spec("pytest")
        assert activated == ["failed"]

    def test_finders_of_the_old_kind_are_passed_over(
        self, activated: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
        assert self.make().find_spec("pytest") is not None


class TestTheFolderOfTheProgram:
    @pytest.mark.parametrize(
        ("name", "folders"),
        [
            ("-c", ["."]),
            ("-m", ["."]),
            ("-", ["."]),
            ("", ["."]),
            ("inside/script.py", ["inside"]),
            ("inside/link.py", ["elsewhere"]),
            ("inside", ["inside"]),
        ],
    )
    def test_is_what_the_interpreter_puts_on_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, folders: list[str]
    ) -> None:
        for file in ("inside/script.py", "elsewhere/script.py"):
            (tmp_path / file).parent.mkdir()
            (tmp_path / file).write_text("")
        (tmp_path / "inside" / "link.py").symlink_to(tmp_path / "elsewhere" / "script.py")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name])
        monkeypatch.setenv("PATCHCORE_FOLDER", "")
        found = patchcore_startup._program_folders()
        assert [Path(folder) for folder in found] == [tmp_path / folder for folder in folders]

    def test_is_known_to_spawned_children(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "inside").mkdir()
        monkeypatch.setenv("PATCHCORE_FOLDER", "")
        monkeypatch.setattr(sys, "argv", ["inside"])
        patchcore_startup._program_folders()
        monkeypatch.setattr(sys, "argv", ["-c", "--multiprocessing-fork"])
        assert patchcore_startup._program_folders() == [str(tmp_path), str(tmp_path / "inside")]
