"""The private names that the plugins use are there in the torch that is installed; a message has those that are not."""

from __future__ import annotations

import importlib

import pytest

from patchcore.objects.lazy_names import PrivateNameMissing, look_up

pytestmark = pytest.mark.libraries

PACKAGES = (
    "fake_cann",
    "mmcv_npu",
    "npu_emulator",
    "npu_graph",
    "npu_migrate",
    "patchcore_torch",
    "torch_markers",
    "torch_npu_patches",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_torch_has_every_name(package: str) -> None:
    pytest.importorskip("torch")
    missing = []
    for place in importlib.import_module(f"{package}.private_torch").NAMES.values():
        try:
            look_up(place, package)
        except PrivateNameMissing as error:
            missing.append(str(error))
    assert missing == []


def test_a_name_that_a_release_has_lost_is_named_with_it() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(PrivateNameMissing) as failure:
        look_up("torch._C:_gone", "npu-graph")
    assert str(failure.value) == (
        f"torch {torch.__version__} has no torch._C._gone, which npu-graph uses; install a release of torch that "
        "has it, or a newer npu-graph"
    )
