"""Add up the JUnit files of a run and print the closing line: ``N passed, N failed, N skipped``.

    python3 .ci/totals.py FOLDER

Exits with 1 when a test failed or none passed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def main(folder: str) -> int:
    """Print the sum over the JUnit files in this folder; return the exit code."""
    passed = failed = skipped = 0
    for file in sorted(Path(folder).glob("*.xml")):
        suites = list(ElementTree.parse(file).iter("testsuite"))
        total, failures, errors, skips = (
            sum(int(suite.get(count, "0")) for suite in suites) for count in ("tests", "failures", "errors", "skipped")
        )
        passed += total - failures - errors - skips
        failed += failures + errors
        skipped += skips
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
