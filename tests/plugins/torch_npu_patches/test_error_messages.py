"""error_messages.py: a run that ends with a known error says what to do, as docs/troubleshooting.md does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torch_npu_patches.error_messages import _MESSAGES, _MODULES, advise_on_error, advise_on_module
from torch_npu_patches.plugin import advise

PAGE = Path(__file__).resolve().parents[3] / "docs" / "troubleshooting.md"


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("RuntimeError: Cannot re-initialize NPU in forked subprocess. To use NPU with", "spawn"),
        ("RuntimeError: NVTX functions not installed. Are you sure you have a CUDA build?", "record_function"),
        ("OSError: CUDA_HOME environment variable is not set. Please set it to your", "patchcore migrate ."),
        ("RuntimeError: nms_impl: implementation for device npu:0 not found.", "patchcore list mmcv --all"),
        ("RuntimeError: aclnnAdd ... not implemented for DT_DOUBLE, should be in dtype", "patchcore ops"),
        ("RuntimeError: 0 active drivers ([]). There should only be one.", "triton-ascend"),
        (
            "RuntimeError: The following ... Cannot initialize CUDA without ATen_cuda library. PyTorch",
            "torch.jit.script",
        ),
        ("RuntimeError: Only contiguous_format or preserve_format is supported. [ERROR]", "channels_last"),
        ("RuntimeError: NPU contiguous operator only supported contiguous memory format.", "channels_last"),
        ("TypeError: invalid type object", "set_default_device"),
        ("ImportError: libhccl.so: cannot open shared object file: No such file", "set_env.sh"),
    ],
)
def test_known_errors(message: str, advice: str) -> None:
    assert advice in (advise(message, "error") or "")
    assert advise(message, "import") is None


def test_other_errors_and_modules() -> None:
    assert advise_on_error("ValueError: no data") is None
    assert advise_on_module("numpy") is None
    assert "vllm-ascend" in (advise("vllm.engine", "import") or "")
    assert "transfer_to_npu.apex" in (advise("apex", "import") or "")


def test_the_page_has_each_message_and_module() -> None:
    page = PAGE.read_text(encoding="utf-8")
    messages = " ".join(re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)) + "nvidia-ml-py pynvml"
    assert not [words for words in (*_MESSAGES, *_MODULES) if words not in messages]
