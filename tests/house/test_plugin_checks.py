"""Every patch of the plugins that changes how something is computed can be verified."""

from __future__ import annotations

import importlib

import pytest

from patchcore import Patch

PLUGINS = (
    "diffusers_npu.plugin",
    "mmcv_npu.plugin",
    "mmdet3d_npu.plugin",
    "torch_npu_patches.plugin",
    "transformers_npu.plugin",
)

#: The patches after which every number is computed by the same operators as before, each with what it changes instead.
NOT_NUMERIC = {
    "diffusers.flux_processor": "the choice of a processor, when a model is made",
    "mmcv.torchvision": "what can be imported",
    "mmcv.version.mmdet": "which version a library sees while it is being imported",
    "mmcv.version.mmdet3d": "which version a library sees while it is being imported",
    "mmcv.stream": "on which stream a batch is copied",
    "mmcv.ddp": "how a batch gets to its device",
    "mmcv.ddp_forward": "which attributes are asked for before the model is called",
    "collections.compat": "which names there are",
    "numpy.compat": "which names there are",
    "torch.internal_format": "how the NPU lays tensors out in memory",
    "torch.compile": "which functions the compiler knows",
    "transformers.fast_images": "on which device pictures are processed",
    "transformers.remote_code": "how modules of remote code are found",
    "transformers.qwen3_vl_placeholders": "how the tokens that stand for images are counted",
}

#: Where tensors and modules are, and nothing of what is done with them there; what profilers are told.
NOT_NUMERIC_PREFIXES = ("torch.transfer_to_npu.", "torch.markers")


def patches() -> list[Patch]:
    plugins = map(importlib.import_module, PLUGINS)
    return [patch for one in plugins for patch in getattr(one, "PATCHES", None) or one.register_patches()]


def is_numeric(patch: Patch) -> bool:
    return patch.name not in NOT_NUMERIC and not patch.name.startswith(NOT_NUMERIC_PREFIXES)


@pytest.mark.parametrize("patch", [patch for patch in patches() if is_numeric(patch)], ids=str)
class TestNumericPatches:
    def test_declares_a_check(self, patch: Patch) -> None:
        assert patch.checks, (
            f"{patch.name} declares no checks: add checks=pc.Check(...) for patchcore verify, or, where it computes "
            f"nothing, name it in NOT_NUMERIC with what it changes instead"
        )

    def test_says_for_which_dtypes(self, patch: Patch) -> None:
        assert all("float32" in check.dtypes for check in patch.checks)


def test_the_exceptions_are_patches_without_checks() -> None:
    unchecked = {patch.name for patch in patches() if not patch.checks}
    assert NOT_NUMERIC.keys() <= unchecked
