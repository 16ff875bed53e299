"""patchcore goes on as before while what it uses of the standard library is patched: nothing of it runs the patch."""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from programs import Programs

import patchcore as pc
from patchcore import stdlib
from patchcore.builtin.stdlib import private

ROOT = Path(__file__).resolve().parents[2]

#: What every program needs that does anything at all: classes, and what the interpreter itself keeps there.
_LANGUAGE = ("__future__", "abc", "collections.abc", "enum", "sys", "types", "typing")

#: What `import` runs, of any module: with such a patch the program itself cannot go on.
_IMPORT = {
    "_thread:RLock",  # of Python 3.13
    "_thread:get_ident",
    "importlib:_bootstrap._ModuleLock",
    "importlib:_bootstrap._module_locks",
    "io:open",
    "os:listdir",
    "os:stat",
    "weakref:ReferenceType",
    "weakref:ref",
}

#: Of types that nobody can change.
_IMMUTABLE = {"weakref:ref.__call__"}

#: What `logging` runs to make a record, see the limit below.
_LOGGING = {
    "logging:LogRecord",
    "os.path:basename",
    "os:fspath",
    "os:getpid",
    "os:path.basename",
    "threading:current_thread",
    "threading:get_ident",
    "time:time",
}

#: Not called by patchcore by these names, but by what it calls.
_BELOW = {
    "builtins": "input open print repr sorted sum vars",
    "copy": "deepcopy",
    "dataclasses": "_asdict_inner",
    "functools": "reduce update_wrapper",
    "inspect": "_signature_from_callable unwrap",
    "json.decoder": "JSONDecoder JSONDecoder.decode",
    "json.encoder": "JSONEncoder JSONEncoder.default JSONEncoder.encode JSONEncoder.iterencode _make_iterencode",
    "json": "JSONEncoder dump load",
    "os.path": "exists isabs normpath split",
    "os": "lstat mkdir open readlink remove scandir unlink",
    "pathlib": "Path.exists Path.mkdir Path.open Path.read_bytes Path.read_text Path.resolve Path.with_name "
    "Path.write_bytes Path.write_text PurePath.__fspath__ PurePath.__str__",
    "random": "random",
    "re": "match search split",
    "threading": "Thread",
    "traceback": "TracebackException.format format_exc print_exc",
    "warnings": "warn",
    "weakref": "ref",
}


def _is_language(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in _LANGUAGE)


def _is_standard(module: str) -> bool:
    return private.is_standard(module.partition(".")[0]) and not _is_language(module)


def _uses(path: Path) -> Iterator[str]:
    """Yield the targets of what a module takes from modules of the standard library."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                modules[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if node.module == "patchcore.stdlib" and alias.name in stdlib.LATER:
                    modules[alias.asname or alias.name] = stdlib.LATER[alias.name]
                elif _is_standard(node.module):
                    yield f"{node.module}:{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            names, value = [node.attr], node.value
            while isinstance(value, ast.Attribute):
                names.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name) and _is_standard(modules.get(value.id, "__future__")):
                yield f"{modules[value.id]}:{'.'.join(reversed(names))}"


def _all_uses() -> list[str]:
    features = ("call", "explain", "holders", "imports", "run", "signatures", "stdlib", "training")
    folders = ("", "declare", "engine", "objects", "planning", *(f"builtin/{name}" for name in features))
    found = {use for folder in folders for path in (ROOT / "patchcore" / folder).glob("*.py") for use in _uses(path)}
    found.update(f"{module}:{name}" for module, names in _BELOW.items() for name in names.split())
    return sorted(found - _IMPORT - _LOGGING - _IMMUTABLE)


#: Applies a patch of each target in turn, and does with a Patcher what can be done.
_DRIVER = """
    import importlib, json, os, sys, traceback
    import patchcore as pc
    from patchcore.builtin.run.process_report import ProcessReport
    from patchcore.builtin.run.session import Session
    from patchcore.patcher import Patcher
    from patchcore.settings import Settings
    from patchcore.declare.target import Target

    EXIT, WRITE, LISTDIR, OPEN, LOADS = os._exit, os.write, os.listdir, open, json.JSONDecoder().raw_decode
    FOLDER = "reports"
    os.makedirs(FOLDER)

    def raises(*args, **kwargs):
        raise ZeroDivisionError("the patch was run")

    def garbage(*args, **kwargs):
        return b"garbage"

    def dearer(original):
        return original() + 1

    def holds(target):
        try:
            owner = importlib.import_module(target.module)
            for name in target.path[:-1]:
                owner = getattr(owner, name)
                assert isinstance(owner, (type(os), type))
            return getattr(owner, target.path[-1])
        except (ImportError, AttributeError, AssertionError):  # of another version or system, or of an instance
            return None

    def check(text, replacement, number):
        sys.modules.pop("shop", None)
        patch = pc.Patch("library", [pc.Replace(text, replacement)])
        own = pc.Patch("own", [pc.Wrap("shop:price", dearer), pc.Replace("shop:missing", replacement)], after=["good"])
        good = pc.Patch("good", [pc.Wrap("shop:price", dearer)], legacy_names=["better"])
        patcher = Patcher([patch, own, good], settings=Settings(values={"report_dir": FOLDER}, count=True))
        process = ProcessReport(Session.of(patcher, patcher.plan()), patcher, "main")
        try:
            patcher.apply()
            import shop
            assert shop.price() == 11, shop.price()
            report = patcher.report(unreachable=not number)
            assert report["library"].status == "applied", report["library"]
            assert report["own"].status == "failed" and "missing" in report["own"].reason, report["own"]
            assert "the patch was run" not in str(report), str(report)
            view, _ = LOADS(report.to_json())
            assert view["environment"]["pid"] == PID, view["environment"]
            process.write(finished=True)
            process._rename()
            with Patcher([pc.Patch("second", [pc.Wrap("shop:price", dearer)], after=["good"])]):
                assert shop.price() == 12
            patcher.refresh()
        finally:
            patcher.revert()
        assert shop.price() == 10
        with OPEN(FOLDER + "/" + max(LISTDIR(FOLDER)), "rb") as file:
            written = file.read().decode()
        assert LOADS(written)[0]["finished"] is True
        for name in LISTDIR(FOLDER):
            os.remove(FOLDER + "/" + name)

    PID = os.getpid()
    failures = []
    for number, text in enumerate(sys.argv[1:]):
        target = Target.parse(text)
        original = holds(target)
        replacements = (raises, garbage) if text.startswith(("json", "os", "time")) else (raises,)
        for replacement in replacements if callable(original) else ():
            try:
                check(text, replacement, number)
            except BaseException:
                failures.append(f"{text} {replacement.__name__}: {traceback.format_exc()}")
            if holds(target) != original:
                failures.append(f"{text} {replacement.__name__}: not restored")
    print(len(failures), *failures, sep="\\n")
"""


def test_nothing_that_patchcore_uses_is_run_from_a_patch(run_python, make_package, tmp_path) -> None:
    make_package({"shop": "def price():\n    return 10\n"})
    driver = tmp_path / "driver.py"
    driver.write_text("\n".join(line[4:] for line in _DRIVER.splitlines()))
    targets = _all_uses()
    assert len(targets) > 150
    count, *failures = run_python(driver, *targets, timeout=900).splitlines()
    assert count == "0", "\n".join(failures)


@pytest.mark.limit(
    "A patch of what `logging` itself runs (`time.time`, `os.getpid`, `LogRecord`): messages of patchcore go to the "
    "program's loggers, which run the patch, so that one that raises ends the apply when there is something to log",
    told="the exception of the patch",
)
def test_messages_go_to_the_logging_of_the_program() -> None:
    def raises() -> int:
        raise ZeroDivisionError("the patch was run")

    changes = pc.Replace("os:getpid", raises), pc.Replace("os:getpit", raises)
    patches = [pc.Patch(f"nobody.{number}", [change]) for number, change in enumerate(changes)]
    with pytest.raises(ZeroDivisionError, match="the patch was run"):
        pc.Patcher(patches).apply()
    assert os.getpid() > 0


#: A plugin whose patches break what commands of patchcore use.
_PLUGIN = """
import patchcore as pc

def raises(*args, **kwargs):
    raise ZeroDivisionError("the patch was run")

BROKEN = pc.Patch("broken", [pc.Replace(target, raises) for target in (
    "builtins:open", "json:dumps", "json.encoder:JSONEncoder.encode", "json:loads", "pathlib:Path.exists",
    "pathlib:Path.write_bytes", "os:getcwd", "os:replace", "os.path:exists", "time:monotonic", "inspect:signature",
    "inspect:getsource", "difflib:unified_diff", "hashlib:sha256", "dataclasses:asdict", "re:sub", "textwrap:dedent",
)])

@pc.wrap("shop:price", name="dearer", after=["broken"])
def dearer(original):
    return original() + 1

@pc.hookimpl
def register_patches():
    return [BROKEN, dearer]
"""


class TestCommands:
    """With patches in force that break the library, commands say what they say without."""

    @pytest.fixture
    def shop(self, programs: Programs) -> Programs:
        programs.write({"shop.py": "def price():\n    return 10\n", "deals.py": _PLUGIN})
        programs.write({"sell.py": "import shop\nprint(shop.price())\n"})
        return programs

    def test_run_writes_its_reports(self, shop: Programs) -> None:
        done = shop.run(shop.patchcore, "-p", "deals", "--count", "--report-dir", "reports", "sell.py")
        assert done.stdout == "11\n"
        assert "2 applied" in done.stderr
        assert "is not patched" not in done.stderr
        (report,) = (shop.folder / "reports").glob("*.json")
        view = json.loads(report.read_text())
        assert view["finished"]
        assert view["patches"][1]["changes"][0]["calls"] == 1

    @pytest.mark.parametrize(
        "command", [["explain", "--apply", "shop:price"], ["check", "--apply"], ["doctor", "--apply"]]
    )
    def test_that_apply(self, shop: Programs, command: list[str]) -> None:
        script = [*shop.python, str(shop.folder / "bin" / "patchcore")]
        done = shop.run(script, *command, "-p", "deals", "--format", "json", code=0, PYTHONPATH=str(shop.folder))
        assert json.loads(done.stdout)
        assert "the patch was run" not in done.stdout + done.stderr


class TestCopies:
    """When they are made, and what stays the program's."""

    def test_are_in_use_while_a_patch_of_the_library_is_in_force(self) -> None:
        import patchcore.process as module

        patcher = pc.Patcher([pc.Patch("quiet", [pc.Replace("json:dumps", _as_bytes)])])
        assert module.os is os
        with patcher:
            assert json.dumps({}) == b"{}"
            assert module.os is not os
            assert module.os.environ is os.environ
        assert module.os is os
        assert json.dumps({}) == "{}"

    def test_end_with_the_last_of_several_patches(self) -> None:
        import patchcore.process as module

        first = pc.Patcher([pc.Patch("a", [pc.Replace("json:dumps", _as_bytes)])])
        second = pc.Patcher([pc.Patch("b", [pc.Replace("time:time", _zero)])])
        with first:
            with second:
                assert time.time() == 0
            assert module.os is not os
        assert module.os is os

    def test_are_not_made_for_other_patches(self, make_package, monkeypatch) -> None:
        make_package({"shop": "def price():\n    return 10\n"})
        monkeypatch.setattr(private, "_Copies", None)
        with pc.Patcher([pc.Patch("own", [pc.Replace("shop:price", _zero)])]) as patcher:
            assert patcher.report().ok

    def test_end_with_a_patch_that_fails(self) -> None:
        import patchcore.process as module

        changes = [pc.Replace("json:dumps", _as_bytes), pc.Replace("json:dumpz", _as_bytes)]
        with pc.Patcher([pc.Patch("misspelt", changes)]) as patcher:
            assert patcher.report()["misspelt"].status == "failed"
            assert module.os is os

    def test_names_of_patchcore_are_not_rebound(self, make_package) -> None:
        make_package({"clock": "from time import perf_counter\n"})
        import clock  # type: ignore[import-not-found]

        from patchcore.builtin.run import activation

        with pc.Patcher([pc.Patch("stopped", [pc.Replace("time:perf_counter", _zero)])]) as patcher:
            (change,) = patcher.report()["stopped"].changes
            assert clock.perf_counter() == 0
            assert activation.time.perf_counter() > 0
            assert not [place for place in change.rebound if place.startswith("patchcore")]

    def test_a_module_that_is_imported_while_they_are_used_gets_them_before_the_next_patch(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        late = ModuleType("patchcore.late_x")
        with pc.Patcher([pc.Patch("first", [pc.Replace("json:dumps", _as_bytes)])]):
            late.time = time  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, "patchcore.late_x", late)
            with pc.Patcher([pc.Patch("second", [pc.Replace("time:perf_counter", _zero)])]):
                assert time.perf_counter() == 0
                assert late.time.perf_counter() > 0
        assert late.time is time

    @pytest.mark.parametrize("name", sorted(stdlib.LATER))
    def test_late_imports_get_the_copy(self, name: str) -> None:
        before = getattr(stdlib, name)
        with pc.Patcher([pc.Patch("quiet", [pc.Replace("json:dumps", _as_bytes)])]):
            assert getattr(stdlib, name) is not before
        assert getattr(stdlib, name) is before

    def test_functions_import_the_library_from_where_it_is_private(self) -> None:
        """A function that imported ``json`` itself would get the program's, with the patch."""
        later = []
        for folder in ("", "launch", "training", "markers", "cli"):
            for path in (ROOT / "patchcore" / folder).glob("*.py"):
                for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        later += [f"{path.name}: {name}" for name in _imports_of(function)]
        assert sorted(set(later) - _FINE) == []


#: Of the program, or before anything is patched.
_FINE = {
    "__init__.py: importlib",
    "ending.py: multiprocessing.util",
    "files.py: grp",  # tools load this module alone
    "files.py: pwd",
    "lockfile.py: tomllib",
    "probe.py: json",
    "settings.py: tomllib",
    "stdlib.py: pkgutil",
    "stubs.py: opcode",
}


def _imports_of(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_standard(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _is_standard(node.module):
            yield node.module


def _as_bytes(obj: object, **kwargs: object) -> bytes:
    return b"{}"


def _zero() -> float:
    return 0
