"""``torch.npu_conjugated_copies`` on the real torch_npu, which loses the conjugation of what it writes to."""

from __future__ import annotations

from typing import Any

PROGRAM = """
    import warnings
    import torch, torch_npu
    import patchcore as pc
    from patchcore.builtin.verify.verify import verify
    from torch_npu_patches.conjugated_copies import CONJUGATED_COPIES, KernelSlot

    warnings.simplefilter("error")

    def writes(device):
        x = torch.tensor([1 + 2j, 3 - 1j], device=device)
        y = torch.tensor([5 + 6j, 7 + 8j], device=device)
        for write in (
            lambda to: to.copy_(y),
            lambda to: to.copy_(y.conj()),
            lambda to: to.copy_(y.cpu()),
            lambda to: to.copy_(torch.tensor([1.0, 2.0], device=device)),
            lambda to: to.add_(y),
            lambda to: to.fill_(9j),
            lambda to: torch.add(x, y, out=to),
            lambda to: to.__setitem__(0, 9j),
            lambda to: to.imag.copy_(y.real),
        ):
            found = x.clone()
            write(found.conj())
            yield found.cpu()
        found = torch.zeros(2, dtype=torch.complex64)
        found.conj().copy_(y)
        yield found

    def of_both(device):  # conjugated and negated, and a gradient
        y = torch.tensor([1 + 2j, 3 - 1j], device=device)
        view = torch._neg_view(y.clone().conj())
        view.add_(1 + 1j)
        view.copy_(y)
        leaf = y.clone().requires_grad_()
        found = torch.zeros(2, dtype=torch.complex64, device=device)
        found.conj().copy_(leaf)
        torch.view_as_real(found * found).sum().backward()
        return view.cpu(), found.detach().cpu(), leaf.grad.cpu()

    def differing():
        return [place for place, (a, b) in enumerate(zip(writes("cpu"), writes("npu"))) if not torch.equal(a, b)]

    before = differing()
    assert before, "torch_npu keeps the conjugation: the patch is not needed any more"
    with pc.Patcher([CONJUGATED_COPIES], strict=True):
        assert differing() == []
        assert all(map(torch.equal, of_both("cpu"), of_both("npu")))
        assert KernelSlot.registered.is_needed(None)
    assert differing() == before
    (result,) = verify([CONJUGATED_COPIES], device="npu", rounds=2)
    assert result.status == "agrees", result.message
    print("ok")
    """


def test_a_conjugated_view_keeps_its_conjugation(on_cann: Any) -> None:
    assert on_cann(PROGRAM).stdout.endswith("ok\n")


def test_is_not_in_the_way_of_a_library_that_keeps_it(on_cann: Any) -> None:
    program = """
        import torch, torch_npu
        import patchcore as pc
        from torch_npu_patches import conjugated_copies

        class OnCpu(conjugated_copies.Kernel):
            def __init__(self):
                super().__init__("cpu")

        conjugated_copies.Kernel = OnCpu
        with pc.Patcher([conjugated_copies.CONJUGATED_COPIES], strict=True):
            x = torch.zeros(2, dtype=torch.complex64)
            x.conj().copy_(torch.tensor([1 + 2j, 3j]))
            assert x.tolist() == [1 - 2j, -3j]
            assert conjugated_copies.KernelSlot.registered._is_needed is False
        print("ok")
        """
    assert on_cann(program).stdout.endswith("ok\n")
