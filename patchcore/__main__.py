"""``python -m patchcore``."""

from __future__ import annotations

import sys

from patchcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
