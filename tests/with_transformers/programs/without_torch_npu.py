"""Runs a program as if torch_npu were not installed: the libraries import it wherever it is, and it needs CANN."""

import os
import runpy
import sys

sys.modules["torch_npu"] = None  # type: ignore[assignment]  # importlib finds no such module then
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
if "RANK" in os.environ:
    # torch keeps a process group that existed when torch._dynamo was imported. A thread of gloo that frees a tensor
    # while the interpreter exits aborts the process (torch 2.13, https://github.com/pytorch/pytorch/pull/179291).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
