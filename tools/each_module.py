"""Run pytest on each module of tests in a process of its own, several at once.

    python tools/each_module.py [--junit PREFIX] PATH [PATH ...] [-- PYTEST_OPTION ...]

Applying a patch searches the objects of the process for names that hold its target. A process that has collected all
tests has several times the objects of one that has collected a module, and the same tests take twice as long in it.

A path is a module or a folder of modules; they are started in the order given, one more than there are cores at once:
some wait for processes that they have started. Prints a line for each module as it ends, and what pytest printed where
a test failed; the exit code is 1 then. ``--junit`` writes the results of ``tests/core/test_plan.py`` to
``PREFIX-tests.core.test_plan.xml``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Optional

NO_TESTS = 5


def main(arguments: Sequence[str]) -> int:
    """Run the modules; return the exit code."""
    end = [*arguments, "--"].index("--")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a module or a folder of modules")
    parser.add_argument("--junit", metavar="PREFIX", help="write results to PREFIX-MODULE.xml")
    chosen = parser.parse_args(arguments[:end])
    modules = modules_in(chosen.paths)
    failed = []
    with ThreadPoolExecutor(cores() + 1) as pool:
        running = {pool.submit(run, module, arguments[end + 1 :], chosen.junit): module for module in modules}
        try:
            for number, future in enumerate(as_completed(running), 1):
                done = future.result()
                printed = done.stdout.strip().splitlines() or ["pytest printed nothing"]
                print(f"[{number}/{len(modules)}] {running[future]}: {printed[-1]}", flush=True)
                if done.returncode not in (0, NO_TESTS):
                    failed.append(f"{running[future]}, exit code {done.returncode}")
                    print(done.stdout, end="", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for module in sorted(failed):
        print(f"failed: {module}")  # a negative code is that of a signal, after the last test perhaps
    return 1 if failed else 0


def modules_in(paths: Iterable[Path]) -> list[Path]:
    """Return the modules of tests in these folders, and those of the paths that are modules themselves, each once."""
    found = (sorted(path.rglob("test_*.py")) if path.is_dir() else [path] for path in paths)
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def run(module: Path, options: Sequence[str], junit: Optional[str]) -> subprocess.CompletedProcess[str]:
    """Run the tests of a module; return the exit code and what pytest printed."""
    written = [] if junit is None else [f"--junit-xml={junit}-{'.'.join(module.with_suffix('').parts)}.xml"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *written, *options, str(module)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
