"""Runs modules of a library's tests and reads the result of each test."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from tools.library_tests.libraries import MODES, Library

__all__ = ["Outcome", "disabled_of", "folders_of", "get_sources", "is_in", "modules_of", "revision_of", "run_modules"]

#: Of pytest. Three minutes for a test.
OPTIONS = ("-q", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout=180", "--color=no")

#: Seconds that the process may take after the last test.
REST = 60

#: Why a module has no result but this: its tests need other devices, or it has none.
NONE = "no test runs on this device"

#: Seconds that a process of tests may take for each of its modules. pytest cannot end a test that hangs in C.
LIMIT = 900


class Outcome(NamedTuple):
    """The result of a test.

    Args:
        result: passed, failed, skipped, late, if it took longer than a test may, refused, if it calls something that is
            not emulated, or disabled, if it failed and the developers of the library do not run it.
        why: a line of the error, or the reason for which it was skipped.
    """

    result: str
    why: str = ""


def get_sources(library: Library, revision: str, folder: Path) -> None:
    """Clone the folders that the tests need into ``folder``, unless it is there.

    The sources of a library whose tests are made come from the package index.

    Args:
        library: whose repository.
        revision: a tag or a commit.
        folder: is there whole or not at all.

    Raises:
        CalledProcessError: git or pip failed; its message is printed.
    """
    if folder.is_dir():
        return
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a clone that was interrupted
    if library.made:
        _unpack_sources(f"{library.name}=={revision}", partial)
        _make_tests(library, partial / library.folders[0])
        partial.rename(folder)
        return
    subprocess.run(["git", "init", "--quiet", str(partial)], check=True)
    for command in (
        ("remote", "add", "origin", library.url),
        ("sparse-checkout", "set", *library.needed),
        ("fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", revision),
        ("-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"),
    ):
        subprocess.run(["git", "-C", str(partial), *command], check=True)
    partial.rename(folder)


def _unpack_sources(requirement: str, folder: Path) -> None:
    """Unpack the source distribution of a release, without its top folder."""
    folder.mkdir(parents=True)
    name = requirement.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--no-binary={name}"]
    with tempfile.TemporaryDirectory() as download:
        subprocess.run([*command, f"--dest={download}", requirement], check=True)
        (archive,) = Path(download).iterdir()
        shutil.unpack_archive(archive, download)
        (top,) = (path for path in Path(download).iterdir() if path.is_dir())
        for path in top.iterdir():
            shutil.move(path, folder)


def _make_tests(library: Library, folder: Path) -> None:
    """Write the modules of tests that are made, and stubs of those that the mixin imports from the repository."""
    tests = folder.parent
    for package in (tests, folder, tests / "generation", tests / "exporters", tests / "utils"):
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
    (tests / "generation" / "test_utils.py").write_text("class GenerationTesterMixin: ...\n", encoding="utf-8")
    (tests / "exporters" / "test_export.py").write_text("class ExportTesterMixin: ...\n", encoding="utf-8")
    (tests / "utils" / "test_configuration_utils.py").write_text("config_common_kwargs = {}\n", encoding="utf-8")
    shutil.copy(Path(__file__).with_name("of_models.txt"), folder / "of_models.py")
    for name, text in library.made.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")


def revision_of(library: Library, version: str) -> str:
    """Return the tag or the commit of the installed release; the library is not imported.

    Raises:
        RuntimeError: the library has no tag, and its release does not have its commit.
    """
    if library.tag:
        return library.tag.format(version)
    spec = importlib.util.find_spec(library.name)
    text = Path(spec.origin or "").with_name("version.py").read_text(encoding="utf-8") if spec else ""
    found = re.search(r"git_version = '(\w+)'", text)
    if found is None:
        raise RuntimeError(f"{library.name} {version} does not have the commit it was made of: use --sources")
    return found[1]


def modules_of(library: Library, sources: Path) -> list[str]:
    """Return the modules of tests, from the root of the library's tests. The folder ``"."`` is without those below."""
    root = sources / library.root
    found = [
        path
        for folder in library.folders
        for path in (root.glob("test_*.py") if folder == "." else (root / folder).rglob("test_*.py"))
    ]
    return sorted(str(path.relative_to(root)) for path in found)


def is_in(module: str, folders: Sequence[str]) -> bool:
    """Return whether a module lies in one of the folders or below; those of ``"."`` lie in no folder."""
    return any("/" not in module if folder == "." else module.startswith(f"{folder}/") for folder in folders)


def folders_of(modules: Iterable[str]) -> list[list[str]]:
    """Return modules by folder: those of one folder run in one process, as the library's own developers run them."""
    found: dict[str, list[str]] = {}
    for module in modules:
        found.setdefault(module.rpartition("/")[0], []).append(module)
    return list(found.values())


def run_modules(
    library: Library, sources: Path, modules: Sequence[str], mode: str, log: Path
) -> dict[str, dict[str, Outcome]]:
    """Run modules of tests in one process; return the results of the tests of each, by name with class and parameters.

    If the process ends in the middle of them, or takes too long, each module is run alone; one that cannot be has one
    test, which failed or is late.

    Args:
        library: whose tests.
        sources: of the library.
        modules: some of :func:`modules_of`.
        mode: one of ``MODES``.
        log: file for the output; the JUnit file lies beside it.
    """
    junit = log.with_suffix(".xml")
    junit.unlink(missing_ok=True)
    command = [sys.executable, *MODES[mode], "-m", "pytest"]
    command += [*modules, *OPTIONS, "--continue-on-collection-errors", f"--junit-xml={junit}"]
    programs = str(Path(sys.executable).parent)  # tests start them by name
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        "OMP_NUM_THREADS": "1",
        **library.environment,
        **library.of_folders.get(modules[0].partition("/")[0], {}),
    }
    limit = LIMIT * len(modules)
    with log.open("w", encoding="utf-8") as file:
        ended = _run(command, limit, junit, cwd=sources / library.root, env=environment, stdout=file)
    if junit.is_file():
        return _read(junit, modules, library.refusals)
    if len(modules) == 1 and not ended:
        return {modules[0]: {"(module)": Outcome("late", f"the process took more than {limit // 60} minutes")}}
    if len(modules) == 1:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return {modules[0]: {"(module)": Outcome("failed", f"the process ended: {(lines or ['no output'])[-1]}")}}
    found = {}
    for module in modules:
        alone = log.with_name(f"{log.stem}.{Path(module).stem}.log")
        found.update(run_modules(library, sources, [module], mode, alone))
    return found


def _run(command: Sequence[str], limit: float, last: Path, **options: Any) -> bool:
    """Run a command with all processes that it starts; return false if they were killed after ``limit`` seconds.

    pytest writes the file ``last`` at its end, and waits for processes that a late test has left: these are killed.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True, **options
    )
    end = time.monotonic() + limit
    try:
        while process.poll() is None:
            if last.is_file():
                end = min(end, time.monotonic() + REST)
            if time.monotonic() > end:
                return last.is_file()
            time.sleep(0.2)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # workers that a test has left, too
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return True


def _read(junit: Path, modules: Sequence[str], refusals: Sequence[str] = ()) -> dict[str, dict[str, Outcome]]:
    """Return the outcomes in a JUnit file, by module."""
    found: dict[str, dict[str, Outcome]] = {module: {} for module in modules}
    names = {module: f".{module.removesuffix('.py').replace('/', '.')}." for module in modules}
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        # a module that cannot be imported has its name in the place of the test's
        owner = f".{case.get('classname') or case.get('name')}."
        module = next((module for module, name in names.items() if name in owner), None)
        if module is None:
            continue
        inside = owner.partition(names[module])[2].strip(".")
        name = f"{inside}.{case.get('name')}" if inside else case.get("name", "")
        outcome = Outcome("passed")
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                line = _line_of(child)
                late = line.startswith("Failed: Timeout")
                outcome = Outcome("skipped" if child.tag == "skipped" else "late" if late else "failed", line)
                refused = _refusal(child, refusals)
                if refused and outcome.result == "failed":
                    outcome = Outcome("refused", refused)
        outcomes = found[module]
        if name not in outcomes or outcomes[name].result != "failed":  # of subtests, one that failed counts
            outcomes[name] = outcome
    return {module: outcomes or {"(module)": Outcome("skipped", NONE)} for module, outcomes in found.items()}


def disabled_of(library: Library, sources: Path) -> frozenset[tuple[str, str]]:
    """Return module and test of those that the developers of the library have disabled on the real device.

    The module is empty for a test whose module was run as the program.
    """
    path = sources / library.root / library.disabled
    if not library.disabled or not path.is_file():
        return frozenset()
    found = set()
    for key in json.loads(path.read_text(encoding="utf-8")):
        test, _, place = key.rstrip(")").partition(" (")
        module, _, owner = place.rpartition(".")
        found.add(("" if module == "__main__" else f"{module.replace('.', '/')}.py", f"{owner}.{test}"))
    return frozenset(found)


def _refusal(child: ElementTree.Element, refusals: Sequence[str]) -> str:
    """Return the line of a message that refuses something which is not emulated; empty if there is none."""
    lines = (child.get("message") or "").splitlines()
    lines += [line[1:] for line in (child.text or "").splitlines() if line.startswith("E  ")]
    found = next((line.strip() for line in lines if any(part in line for part in refusals)), "")
    return re.sub(r"^.*?(?=aclnn\w+ or aclnn|NotEmulated|the fake CANN has no)", "", found).rstrip(', "')[:160]


def _line_of(child: ElementTree.Element) -> str:
    """Return the line of a message that has the error, without addresses and folders, which differ from run to run.

    That is the first line; the last one if a process that the test has started raised the error, or if the module could
    not be imported.
    """
    lines = [line.strip() for line in (child.get("message") or "").splitlines() if line.strip()]
    if lines and ("ProcessRaisedException" in lines[0] or lines[0] == "collection failure"):  # pytest cuts it off
        lines = [line[1:].strip() for line in (child.text or "").splitlines() if line.startswith("E  ")][-1:]
    text = re.sub(r"0x[0-9a-f]+", "0x", lines[0] if lines else "")
    return re.sub(r"/(?:[\w.+-]+/)+", "", text)[:160]
