"""Runs tests of accelerate and Lightning on the emulated NPU, and of torch_npu and transformers on a fake CANN.

python -m tools.library_tests                        # modules that have no result yet; writes docs/library-tests.md
python -m tools.library_tests accelerate             # of one library
python -m tools.library_tests accelerate --again hooks  # modules with hooks in their name, once more
python -m tools.library_tests torch_npu --folder npu   # modules of a folder; "." are those in no folder
python -m tools.library_tests --mode npu             # in one way only: cpu, npu, npu-plain
python -m tools.library_tests torch_npu              # writes docs/torch-npu-tests.md
python -m tools.library_tests transformers           # of five models, on a fake CANN
python -m tools.library_tests --list                 # the modules
python -m tools.library_tests --write                # only writes the results and the page

``nox -s library-tests`` makes an environment for it, ``nox -s torch-npu-tests`` the one of torch_npu, and ``nox -s
transformers-tests`` that of transformers, whose tests come from the package index. The other tests are
cloned from the repository of the library, at the tag or commit of the installed release. Interrupted, it goes on with
the next folder. A module has a result if it is in the table of that release, or was run here. Outcomes, logs and
sources: .library-tests.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Optional

from tools.library_tests import adapter_page, page, running
from tools.library_tests.libraries import LIBRARIES, MODES, TORCH_NPU, TRANSFORMERS, Library

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".library-tests"
#: Why a test that passes might not do so on the real device.
DISABLED = "disabled by the developers of the library"


def main(arguments: Optional[list[str]] = None) -> int:
    """Run the tests that the arguments choose; return 1 if one fails on the NPU alone for no known reason."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.library_tests", description=(__doc__ or "").partition("\n")[0]
    )
    names = [library.name for library in (*LIBRARIES, TORCH_NPU, TRANSFORMERS)]
    everywhere = " and ".join(library.name for library in LIBRARIES)
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"{', '.join(names)}; {everywhere} by default")
    parser.add_argument("--again", metavar="WORD", help="run modules with it in their names, once more")
    parser.add_argument("--folder", action="append", metavar="FOLDER", help="modules of it and below; all by default")
    parser.add_argument("--mode", choices=MODES, action="append", help="in this way only; all by default")
    parser.add_argument("--sources", type=Path, help="a checkout of the one library that is named, instead of a clone")
    parser.add_argument("--list", action="store_true", help="show the modules")
    parser.add_argument("--write", action="store_true", help="write results and page from the outcomes that there are")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.libraries if name not in names]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(names)}")
    wanted = options.libraries or [library.name for library in LIBRARIES]
    chosen = [library for library in (*LIBRARIES, TORCH_NPU, TRANSFORMERS) if library.name in wanted]
    for library in chosen:
        if options.mode and not set(options.mode) <= set(library.modes):
            parser.error(f"{library.name} runs as {', '.join(library.modes)}")
    if options.sources and len(chosen) != 1:
        parser.error("--sources needs the name of one library")
    try:
        for library in chosen:
            version = metadata.version(library.name)
            sources = options.sources or WORK / f"{library.name}-{version}"
            if not options.write:
                if not sources.is_dir():
                    try:
                        revision = running.revision_of(library, version)
                    except RuntimeError as error:
                        parser.error(str(error))
                    running.get_sources(library, revision, sources)
                modules = running.modules_of(library, sources)
                if options.folder:
                    modules = [module for module in modules if running.is_in(module, options.folder)]
                if options.list:
                    print("\n".join(f"{library.name} {module}" for module in modules))
                    continue
                for mode in options.mode or library.modes:
                    run_all(library, version, sources.resolve(), modules, mode, again=options.again)
            collect(library, version, sources)
    except KeyboardInterrupt:
        print("\ninterrupted: run it again to go on", file=sys.stderr)
        return 130
    if options.list:
        return 0
    for written in {adapter_page if library is TORCH_NPU else page for library in chosen}:
        written.PAGE.write_text(written.rendered(), encoding="utf-8")
    return int(any(page.faults(library) for library in chosen))


def outcome_of(library: Library, version: str, module: str, mode: str) -> Path:
    """Return the file with the outcomes of a module of tests."""
    return WORK / "outcomes" / f"{library.name}-{version}" / mode / module.replace("/", ".").replace(".py", ".json")


def run_all(
    library: Library, version: str, sources: Path, modules: list[str], mode: str, *, again: Optional[str]
) -> None:
    """Run modules of tests, those of a folder together, with a line for each."""
    known, rows = page.read(library)
    done = {row.module for row in rows if mode in row.results} if known == version else set()
    wanted = [
        module
        for module in modules
        if (
            again in module
            if again is not None
            else module not in done and not outcome_of(library, version, module, mode).is_file()
        )
    ]
    folders = [[module] for module in wanted] if library.alone else running.folders_of(wanted)
    for number, group in enumerate(folders, 1):
        started = time.monotonic()
        kind = "module" if library.alone else "folder"
        folder = f"{group[0].rpartition('/')[0]}, {kind} {number} of {len(folders)}"
        print(f"{library.name}, {mode}: {folder}: {len(group)} module{'s' * (len(group) > 1)}", flush=True)
        log = outcome_of(library, version, group[0], mode).with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        for module, found in running.run_modules(library, sources, group, mode, log).items():
            path = outcome_of(library, version, module, mode)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps({"module": module, "tests": found}, indent=1), encoding="utf-8")
            partial.replace(path)
            counts = Counter(outcome.result for outcome in found.values())
            shown = ", ".join(f"{count} {result}" for result, count in sorted(counts.items())) or "no tests"
            print(f"{library.name}, {mode}: {module}: {shown}", flush=True)
        print(f"{time.monotonic() - started:.0f} s", flush=True)


def collect(library: Library, version: str, sources: Path) -> None:
    """Write the results of a library from the outcomes of its modules; keep those of modules that were not run here."""
    disabled = running.disabled_of(library, sources)
    found: dict[tuple[str, str], dict[str, running.Outcome]] = {}
    known, old = page.read(library)
    for row in old if known == version else ():
        judged = library.judged
        is_of_judged = library.reference not in library.modes or row.results.get(judged, "passed") != "passed"
        reason_of = judged if is_of_judged else library.reference
        for mode, result in row.results.items():
            if not outcome_of(library, version, row.module, mode).is_file():
                why = row.why if mode == reason_of else ""
                found.setdefault((row.module, row.test), {})[mode] = running.Outcome(result, why)
    for mode in library.modes:
        for path in sorted(outcome_of(library, version, "x.py", mode).parent.glob("*.json")):
            outcomes = json.loads(path.read_text(encoding="utf-8"))
            for test, outcome in outcomes["tests"].items():
                result, why = outcome
                is_disabled = (outcomes["module"], test) in disabled or ("", test) in disabled
                if is_disabled and result in ("passed", "failed", "refused"):
                    result = "disabled" if result != "passed" else result
                    why = why or DISABLED
                found.setdefault((outcomes["module"], test), {})[mode] = running.Outcome(result, why)
    rows = []
    for (module, test), by_mode in sorted(found.items()):
        shown = next(
            (by_mode[mode] for mode in (library.judged, library.reference) if by_mode.get(mode, ("", ""))[1]),
            running.Outcome(""),
        )
        rows.append(page.Row(module, test, {mode: outcome.result for mode, outcome in by_mode.items()}, shown.why))
    if rows:
        page.write_rows(library, version, rows)


if __name__ == "__main__":
    raise SystemExit(main())
