"""Measure one subject in this process: ``python -m benchmarks.child NAME FILE [--quick]``, started by the runner."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.rows import Budget
from benchmarks.subjects import rows_of


def main() -> None:
    """Write the rows of the subject to the file, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = rows_of(options.name)(Budget(options.quick))
    options.file.write_text(json.dumps([row.to_dict() for row in rows]))


if __name__ == "__main__":
    main()
