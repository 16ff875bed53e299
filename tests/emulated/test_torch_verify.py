"""What the numeric patches of torch-npu-patches replace agrees with them, by the checks that they declare."""

from __future__ import annotations

import pytest

import patchcore as pc
from patchcore.verify import verify
from torch_npu_patches.plugin import PATCHES

CHECKED = [patch for patch in PATCHES if patch.checks]


def test_every_numeric_patch_declares_checks() -> None:
    names = ["torch.tensor_index", "torch.batch_matmul", "torch.npu_fused_adamw_step", "torch_scatter.scatter"]
    assert [patch.name for patch in CHECKED] == names


@pytest.mark.parametrize("patch", CHECKED, ids=str)
def test_the_patch_agrees_with_what_it_replaces(patch: pc.Patch) -> None:
    results = verify([patch], device="npu", rounds=10)
    assert len(results) == len(patch.checks)
    for result in results:
        if result.status == "skipped":
            pytest.skip(result.message)
        assert result.status == "agrees", result.message
