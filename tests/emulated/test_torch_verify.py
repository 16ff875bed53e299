"""What the numeric patches of torch-npu-patches replace agrees with them, by the checks that they declare."""

from __future__ import annotations

import json

import pytest

import patchcore as pc
from npu_emulator.mx_driving import calls
from patchcore.builtin.verify.verify import verify
from patchcore.cli import main
from torch_npu_patches.batch_matmul import BATCH_MATMUL
from torch_npu_patches.conjugated_copies import CONJUGATED_COPIES
from torch_npu_patches.plugin import PATCHES

#: Writes through conjugated views are right on this NPU; tests/fake_cann verifies their patch on the real torch_npu.
CHECKED = [patch for patch in PATCHES if patch.checks and patch is not CONJUGATED_COPIES]
#: The kernels of mx_driving that each calls; indexing has none.
KERNELS = {
    "torch.batch_matmul": {"npu_batch_matmul"},
    "torch.npu_fused_adamw_step": {"fused_adamw_custom"},
    "torch.tensor_index": set(),
}


@pytest.mark.usefixtures("no_calls")
@pytest.mark.parametrize("patch", CHECKED, ids=str)
def test_the_patch_agrees_with_what_it_replaces(patch: pc.Patch) -> None:
    results = verify([patch], device="npu", rounds=3)
    assert len(results) == sum(len(check.dtypes) for check in patch.checks)
    for result in results:
        if result.status == "skipped":
            pytest.skip(result.message)
        assert result.status == "agrees", result.message
    assert calls.keys() == KERNELS.get(patch.name, calls.keys())


def test_an_emulated_npu_is_not_timed_and_the_result_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "npu", "--rounds", "1", "--dtype", "float32", "--format", "json"]
    assert main(["verify", BATCH_MATMUL.name, *options]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert {(speed["ratio"], speed["reason"]) for speed in result["speeds"]} == {
        (None, "npu is emulated: its speed does not show the speed of a real one")
    }
