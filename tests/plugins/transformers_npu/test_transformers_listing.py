"""The plugin transformers_npu: what it registers, without torch and transformers."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("transformers_npu")


def test_the_plugin_is_listed_without_importing_a_library() -> None:
    names = ("torch", "transformers", "torch_npu")
    program = (
        "import sys, transformers_npu.plugin as plugin\n"
        f"print(len(plugin.register_patches()) > 0, [name for name in {names} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out == "True []\n"
