"""A release of torch may lack the private names by which compilers are reached: patches are applied all the same."""

from __future__ import annotations

from typing import Any

import pytest

import patchcore as pc


@pytest.mark.libraries("torch")
def test_a_function_of_torch_is_patched_without_any_private_name_for_compilers(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch._dynamo

    from patchcore_torch import private_torch

    names = ("builtin_table", "dynamo_output_codes", "dynamo_parameters", "dynamo_rules", "overloads")
    for name in (*names, "functorch_config", "TensorBase", "VariableFunctions"):
        monkeypatch.setitem(private_torch.NAMES, name, "torch._C:_no_such_name")
    targets = ("torch.nn.functional:relu", "torch:sigmoid", "torch:Tensor.clamp", "torch:nn.Linear.forward")
    x = torch.ones(2)

    def more(original: Any, *args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) + 100

    with pc.Patcher([pc.Patch("p", [pc.Wrap(target, more) for target in targets])], strict=True):
        assert torch.equal(torch.nn.functional.relu(x), x + 100)
        assert torch.equal(x.clamp(0), x + 100)
    assert torch.equal(torch.nn.functional.relu(x), x)
