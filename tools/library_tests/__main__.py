"""Runs the tests of accelerate and Lightning on the CPU and on the emulated NPU, and compares test by test.

python -m tools.library_tests                        # modules that have no result yet; writes docs/library-tests.md
python -m tools.library_tests accelerate             # of one library
python -m tools.library_tests accelerate --again hooks  # modules with hooks in their name, once more
python -m tools.library_tests --mode npu             # in one way only: cpu, npu, npu-plain
python -m tools.library_tests --list                 # the modules
python -m tools.library_tests --write                # only writes the results and the page

``nox -s library-tests`` makes an environment for it. The tests are cloned from the repository of the library at the tag
of the installed release. Interrupted, it goes on with the next folder. A module has a result if it is in the table of
that release, or was run here. Outcomes, logs and sources: .library-tests.
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

from tools.library_tests import page, running
from tools.library_tests.libraries import LIBRARIES, MODES, Library

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".library-tests"


def main(arguments: Optional[list[str]] = None) -> int:
    """Run the tests that the arguments choose; return 1 if one fails on the NPU alone for no known reason."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.library_tests", description=(__doc__ or "").partition("\n")[0]
    )
    names = [library.name for library in LIBRARIES]
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"{' or '.join(names)}; all by default")
    parser.add_argument("--again", metavar="WORD", help="run modules with it in their names, once more")
    parser.add_argument("--mode", choices=MODES, action="append", help="in this way only; all by default")
    parser.add_argument("--sources", type=Path, help="a checkout of the one library that is named, instead of a clone")
    parser.add_argument("--list", action="store_true", help="show the modules")
    parser.add_argument("--write", action="store_true", help="write results and page from the outcomes that there are")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.libraries if name not in names]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(names)}")
    chosen = [library for library in LIBRARIES if not options.libraries or library.name in options.libraries]
    if options.sources and len(chosen) != 1:
        parser.error("--sources needs the name of one library")
    try:
        for library in chosen:
            version = metadata.version(library.name)
            sources = options.sources or WORK / f"{library.name}-{version}"
            if not options.write:
                running.get_sources(library, version, sources)
                modules = running.modules_of(library, sources)
                if options.list:
                    print("\n".join(f"{library.name} {module}" for module in modules))
                    continue
                for mode in options.mode or MODES:
                    run_all(library, version, sources.resolve(), modules, mode, again=options.again)
            collect(library, version)
    except KeyboardInterrupt:
        print("\ninterrupted: run it again to go on", file=sys.stderr)
        return 130
    if options.list:
        return 0
    page.PAGE.write_text(page.rendered(), encoding="utf-8")
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
    folders = running.folders_of(wanted)
    for number, group in enumerate(folders, 1):
        started = time.monotonic()
        folder = f"{group[0].rpartition('/')[0]}, folder {number} of {len(folders)}"
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


def collect(library: Library, version: str) -> None:
    """Write the results of a library from the outcomes of its modules; keep those of modules that were not run here."""
    found: dict[tuple[str, str], dict[str, running.Outcome]] = {}
    known, old = page.read(library)
    for row in old if known == version else ():
        reason_of = "npu" if row.results.get("npu", "passed") != "passed" else "cpu"
        for mode, result in row.results.items():
            if not outcome_of(library, version, row.module, mode).is_file():
                why = row.why if mode == reason_of else ""
                found.setdefault((row.module, row.test), {})[mode] = running.Outcome(result, why)
    for mode in MODES:
        for path in sorted(outcome_of(library, version, "x.py", mode).parent.glob("*.json")):
            outcomes = json.loads(path.read_text(encoding="utf-8"))
            for test, outcome in outcomes["tests"].items():
                found.setdefault((outcomes["module"], test), {})[mode] = running.Outcome(*outcome)
    rows = []
    for (module, test), by_mode in sorted(found.items()):
        shown = next((by_mode[mode] for mode in ("npu", "cpu") if by_mode.get(mode, ("", ""))[1]), running.Outcome(""))
        rows.append(page.Row(module, test, {mode: outcome.result for mode, outcome in by_mode.items()}, shown.why))
    if rows:
        page.write_rows(library, version, rows)


if __name__ == "__main__":
    raise SystemExit(main())
