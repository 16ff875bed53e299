"""Names of torch_npu that libraries import: the version of CANN, the counter of operations, types without tensors."""

from __future__ import annotations

import pytest
import torch

from npu_emulator.errors import NotEmulated


def test_there_is_no_cann() -> None:
    from torch_npu.utils.collect_env import get_cann_version

    assert get_cann_version() == "not known"


def test_the_counter_of_operations_can_be_imported_and_not_be_made() -> None:
    from torch_npu.utils.flops_count import FlopsCounter

    with pytest.raises(NotEmulated, match=r"torch_npu\.utils\.flops_count\.FlopsCounter cannot be emulated"):
        FlopsCounter()


@pytest.mark.parametrize("module", ["utils", "utils.collect_env", "utils.flops_count"])
def test_other_names_are_missing_with_their_module(module: str) -> None:
    import importlib

    with pytest.raises(AttributeError, match=rf"torch_npu\.{module}"):
        _ = importlib.import_module(f"torch_npu.{module}").something


def test_quantized_types_have_no_tensors() -> None:
    import torch_npu

    assert torch.qint8 in torch_npu.unsupported_dtype
    assert torch.float16 not in torch_npu.unsupported_dtype
