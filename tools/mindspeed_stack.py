"""Fetch MindSpeed, Megatron-LM and the packages they need into a folder, for the tests and the page about them.

    python tools/mindspeed_stack.py ~/mindspeed-stack
    export MINDSPEED_STACK=~/mindspeed-stack

``--mindspeed`` and ``--megatron`` take other addresses or folders, mirrors for example. Parts that are there stay.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

MINDSPEED, MINDSPEED_COMMIT = "https://gitcode.com/Ascend/MindSpeed", "028de58c"
MEGATRON, MEGATRON_TAG = "https://github.com/NVIDIA/Megatron-LM", "core_v0.12.1"
PACKAGES = ["einops", "psutil", "protobuf", "pybind11", "regex", "sentencepiece"]


def fetch(address: str, revision: str, folder: Path) -> None:
    """Clone a repository, and check a revision out."""
    if not folder.exists():
        subprocess.run(["git", "clone", "--quiet", address, str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", revision], check=True)


def main() -> None:
    """Fetch what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to put them")
    parser.add_argument("--mindspeed", default=MINDSPEED, metavar="ADDRESS", help="default: %(default)s")
    parser.add_argument("--megatron", default=MEGATRON, metavar="ADDRESS", help="default: %(default)s")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    fetch(options.mindspeed, MINDSPEED_COMMIT, options.folder / "MindSpeed")
    fetch(options.megatron, MEGATRON_TAG, options.folder / "Megatron-LM")
    packages = options.folder / "packages"
    if not packages.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
        subprocess.run([*pip, *PACKAGES], check=True)
    print(f"export MINDSPEED_STACK={options.folder.resolve()}")


if __name__ == "__main__":
    main()
