"""``python -m npu_emulator``: build the compiled core, show which core a program would get, list operators of mmcv."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import Optional

from npu_emulator.errors import EmulationError

__all__ = ["main"]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line, without the program's name.

    Returns:
        The exit code: 0, or 1 with a message on stderr.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # folders have any name, and PYTHONIOENCODING may be ascii
            stream.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(prog="python -m npu_emulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="compile the compiled core for the installed torch")
    build.add_argument("--force", action="store_true", help="compile it again even if it is built")
    commands.add_parser("info", help="show the core that would be used, and why")
    mmcv = commands.add_parser(
        "mmcv", help="list the operators that mmcv has if it is built for NPUs; the emulated NPU has the same"
    )
    mmcv.add_argument("version", nargs="?", help="a release of mmcv; by default all that differ")
    options = parser.parse_args(arguments)
    try:
        if options.command == "build":
            _build(options.force)
        elif options.command == "mmcv":
            _mmcv(options.version)
        else:
            _info()
    except (EmulationError, ModuleNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _build(force: bool) -> None:
    from npu_emulator.device.native.build import build

    build(force, report=lambda line: print(line, flush=True))


def _info() -> None:
    import torch

    from npu_emulator.device import native
    from npu_emulator.device.native.build import library_path
    from npu_emulator.settings import CORE, make_settings

    settings = make_settings()
    core, reason = "python", f"{CORE}=python"
    if settings.core == "native" or (settings.core == "auto" and native.is_built()):
        try:
            native.load()
            core, reason = "native", "built for this torch"
        except EmulationError as error:
            if settings.core == "native":
                raise
            reason = str(error)
    elif settings.core == "auto":
        reason = "the compiled core is not built for this torch; build it with `python -m npu_emulator build`"
    print(f"core     {core} ({reason})")
    print(f"devices  {settings.devices} x {settings.chip}")
    print(f"torch    {torch.__version__}")
    print(f"library  {library_path()}")


def _mmcv(version: Optional[str]) -> None:
    from npu_emulator.mmcv_operators.builds import BUILDS, PATCHES, PATCHES_OF_MMDET3D, build_of

    builds = BUILDS if version is None else (build_of(version),)
    names = sorted({name for build in builds for name in build.operators})
    width = max(map(len, ("OPERATOR", *names)))
    print("OPERATOR".ljust(width), *(f"{build.version:5}" for build in builds), sep="  ")
    for name in names:
        row = "  ".join("yes  " if name in build.operators else "-    " for build in builds)
        print(f"{name.ljust(width)}  {row.rstrip()}")
    print("\nAll other operators raise NotEmulated. These patches of mmcv-npu-patches replace them or their callers:")
    for beginning, patch in PATCHES.items():
        of_mmdet3d = PATCHES_OF_MMDET3D.get(patch)
        print(
            f"{(beginning + '*').ljust(width)}  {patch}{f', {of_mmdet3d} for callers in mmdet3d' if of_mmdet3d else ''}"
        )


if __name__ == "__main__":
    sys.exit(main())
