"""Two lines: patched from here on, and in every process that imports this file."""

# ruff: noqa: E402
import patchcore

patchcore.apply()

import training

if __name__ == "__main__":
    training.main()
