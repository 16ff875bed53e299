"""Runs a program with a stub in the place of torchvision: its wheel on the index needs a CUDA build of torch."""

import runpy
import sys

import patchcore as pc

del sys.argv[0]
with pc.Patcher([pc.Patch("stub.torchvision", pc.StubImport("torchvision"))]):
    runpy.run_path(sys.argv[0], run_name="__main__")
