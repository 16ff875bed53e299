"""A ``torch_npu`` of a few lines, for releases of torch whose own torch_npu does not run on the fake CANN."""

from __future__ import annotations

from pathlib import Path

import pytest

ADAPTER = """
__version__ = "0"
import torch
torch.utils.rename_privateuse1_backend("npu")
from torch_npu import npu
"""
NPU = """
import sys, types, torch
config = types.SimpleNamespace(allow_internal_format=True)
def is_available(): return True
def device_count(): return 1
def current_device(): return 0
def manual_seed_all(seed): pass
def _is_in_bad_fork(): return False
torch._register_device_module("npu", sys.modules[__name__])
"""


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """Return a folder for ``PYTHONPATH``."""
    package = tmp_path / "adapter" / "torch_npu"
    (package / "npu").mkdir(parents=True)
    (package / "__init__.py").write_text(ADAPTER)
    (package / "npu" / "__init__.py").write_text(NPU)
    (package / "contrib").mkdir()
    (package / "contrib" / "__init__.py").touch()
    (package / "contrib" / "transfer_to_npu.py").touch()
    return package.parent
