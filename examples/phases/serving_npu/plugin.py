"""The entry point: two phases, as vllm-ascend has them, in one plugin."""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc


def attention() -> str:
    """In the place of the model's attention."""
    return "attention of the NPU"


def block_size(original: Callable[[], int]) -> int:
    """Return the block size of the NPU's kernels."""
    return max(original(), 128)


def platform_found(original: Callable[[], str]) -> str:
    """Reach the first phase when the server looks for its platform."""
    pc.reach("serving.platform")
    return original()


def worker_starts(original: Callable[[], Any]) -> Any:
    """Reach the second phase when a worker starts."""
    pc.reach("serving.worker")
    return original()


MOMENTS = pc.Patch(
    "serving_npu.moments",
    [pc.Wrap("serving.config:find_platform", platform_found), pc.Wrap("serving.worker:start_worker", worker_starts)],
    summary="reaches the phases",
)
PLATFORM = pc.Patch(
    "serving_npu.block_size", pc.Wrap("serving.config:block_size", block_size), phase="serving.platform"
)
WORKER = pc.Patch("serving_npu.attention", pc.Replace("serving.model:attention", attention), phase="serving.worker")


@pc.hookimpl
def register_phases() -> list[str]:
    """Name the phases, in order."""
    return ["serving.platform", "serving.worker"]


@pc.hookimpl
def register_patches() -> list[pc.Patch]:
    """Return the patches of both phases."""
    return [MOMENTS, PLATFORM, WORKER]
