"""Training steps: losses equal to those of the CPU."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.mark.parametrize("model", ["mlp", "cnn", "gpt", "llama", "bert"])
@pytest.mark.parametrize("queue", ["0", "1"])
def test_losses(on_cann: Any, model: str, queue: str) -> None:
    done = on_cann("training_program.py", model, TASK_QUEUE_ENABLE=queue)
    losses = json.loads(done.stdout.splitlines()[-1])
    assert losses["npu"] == pytest.approx(losses["cpu"], rel=2e-5)
    assert losses["cpu"][-1] < losses["cpu"][0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_autocast_and_the_scaler(on_cann: Any, dtype: str) -> None:
    done = on_cann("training_program.py", "mlp", dtype)
    losses = json.loads(done.stdout.splitlines()[-1])
    assert losses["npu"] == pytest.approx(losses["cpu"], rel=2e-2)
    assert losses["cpu"][-1] < losses["cpu"][0]
