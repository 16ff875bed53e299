"""An operator that fails in torch_npu's queue: the program learns of it, computes nothing after it, and ends."""

from __future__ import annotations

from typing import Any

import pytest

FAILS = {
    "aclnnIndex: index 9 is out of bounds": "torch.ones(4).npu()[torch.tensor([9]).npu()]",
    "operator NPUAllocFloatStatus (aclop)": "torch_npu.npu_alloc_float_status(torch.ones(4).npu())",
}


@pytest.mark.parametrize("queue", ["1", "2"])
@pytest.mark.parametrize("message", FAILS)
def test_nothing_is_computed_after_a_failure(on_cann: Any, message: str, queue: str) -> None:
    program = f"""
        import torch, torch_npu

        torch.ones(4).npu().sum().item()
        errors = []
        for step in range(6):
            try:
                if step == 0:
                    {FAILS[message]}
                    torch.npu.synchronize()
                else:
                    print("a sum:", torch.ones(4).npu().sum().item())
            except RuntimeError as error:
                errors.append(str(error))
        assert len(errors) == 6, errors
        print(*errors)
        """
    done = on_cann(program, TASK_QUEUE_ENABLE=queue, timeout=120)
    assert message in done.stdout
    assert "a sum:" not in done.stdout


@pytest.mark.parametrize("queue", ["1", "2"])
@pytest.mark.parametrize("message", FAILS)
def test_a_failure_at_the_end_ends_the_program_with_an_error(on_cann: Any, message: str, queue: str) -> None:
    program = f"import torch, torch_npu\n{FAILS[message]}\ntorch.npu.synchronize()\nprint('after')"
    done = on_cann(program, TASK_QUEUE_ENABLE=queue, timeout=120, code=1)
    assert message in done.stderr
    assert "after" not in done.stdout


@pytest.mark.parametrize("queue", ["1", "2"])
def test_results_are_those_without_the_queue(on_cann: Any, queue: str) -> None:
    plain, queued = (on_cann("training_program.py", "gpt", TASK_QUEUE_ENABLE=on).stdout for on in ("0", queue))
    assert plain.startswith('{"cpu": [')
    assert queued == plain
