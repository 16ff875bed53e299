"""Trains stock configurations on the CPU and on the emulated NPU, and compares the losses, digit by digit.

python -m tools.models                  # what has no result yet, for the installed mmcv; writes docs/models.md
python -m tools.models fcos detr        # models whose names contain a word
python -m tools.models --again fcos     # although there is a result
python -m tools.models --list           # the models
python -m tools.models --write          # only writes the page

``nox -s models`` runs it in the environments of mmcv 1.x and mmcv 2.x. Interrupted, it goes on where it
was: each result is a file in .models/results. Configurations, logs and losses are in .models/runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Optional

from tools.models import page, training
from tools.models.zoo import ROWS, Row

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".models"


def main(arguments: Optional[list[str]] = None) -> int:
    """Train what is asked for; return 1 where a model does not train."""
    parser = argparse.ArgumentParser(prog="python -m tools.models", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="WORD", help="models whose names contain it; all by default")
    parser.add_argument("--again", action="store_true", help="train although there is a result")
    parser.add_argument("--list", action="store_true", help="show the models")
    parser.add_argument("--write", action="store_true", help="write the page from the results that there are")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if not options.names or any(word in row.name for word in options.names)]
    if not rows:
        parser.error(f"no model has {' or '.join(options.names)} in its name; --list shows them")
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    failed = 0
    try:
        if not options.write:
            failed = train_all([row for row in rows if row.major == installed_mmcv_major()], again=options.again)
    except KeyboardInterrupt:
        print("\ninterrupted: run it again to go on", file=sys.stderr)
        return 130
    finally:
        page.write(WORK / "results")
    return 1 if failed else 0


def train_all(rows: list[Row], *, again: bool) -> int:
    """Train models one after the other, with a line for each; return how many do not train."""
    results = WORK / "results"
    results.mkdir(parents=True, exist_ok=True)
    data = training.make_data(WORK / f"data-{installed_mmcv_major()}")
    failed = 0
    for number, row in enumerate(rows, 1):
        path = results / f"{row.name}.json"
        counted = f"[{number}/{len(rows)}] {row.name}"
        if path.is_file() and not again:
            print(f"{counted}: done before")
        else:
            print(f"{counted} ...", end="\r" if sys.stdout.isatty() else "\n", flush=True)
            started = time.monotonic()
            found = training.train(row, WORK / "runs" / row.name, data)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(found, indent=1), encoding="utf-8")
            partial.replace(path)
            print(f"{counted}: {page.outcome(found)}, {time.monotonic() - started:.0f} s", flush=True)
        failed += page.failed(json.loads(path.read_text(encoding="utf-8")))
    return failed


def installed_mmcv_major() -> int:
    """Return 1 or 2, the major version of the mmcv that is installed."""
    for distribution in ("mmcv", "mmcv-full"):
        try:
            return int(metadata.version(distribution).partition(".")[0])
        except metadata.PackageNotFoundError:
            continue
    raise SystemExit("neither mmcv nor mmcv-full is installed here: nox -s models")


if __name__ == "__main__":
    raise SystemExit(main())
