"""Runs a program as if torch_npu were not installed: the libraries import it wherever it is, and it needs CANN."""

import runpy
import sys

sys.modules["torch_npu"] = None  # type: ignore[assignment]  # importlib finds no such module then
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
