"""``torch_npu.testing``: the names that tests of NPU libraries import."""

from __future__ import annotations

from npu_emulator.torch_npu.testing import testcase

__all__ = ["testcase"]
