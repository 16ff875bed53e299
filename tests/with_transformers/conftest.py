"""Tests of transformers-npu-patches with the real transformers, on the real torch_npu with the fake CANN.

``python -m fake_cann run -m pytest tests/with_transformers`` in an environment with transformers 4 or 5;
``nox -s transformers transformers-4`` makes both. Elsewhere the folder is left out.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import running
from npu_fixtures import as_after_start  # noqa: F401


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out where there is no fake CANN or no transformers."""
    return None if running.ON_CANN and importlib.util.find_spec("transformers") else True


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: on tensors this small a second one costs more than it gives. No test asks the hub."""
    import torch

    torch.set_num_threads(1)
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    return
