"""Tests of diffusers-npu-patches with the real diffusers, on the real torch_npu with the fake CANN.

``python -m fake_cann run -m pytest tests/with_diffusers`` where diffusers is installed: ``nox -s transformers``.
Elsewhere the folder is left out.
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
    """Leave the folder out where there is no fake CANN or no diffusers."""
    return None if running.ON_CANN and importlib.util.find_spec("diffusers") else True


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: on tensors this small a second one costs more than it gives. No test asks the hub."""
    import torch

    torch.set_num_threads(1)
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    return


@pytest.fixture
def by_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library believe that there is no torch_npu, so that its layers use their formulas, on the NPU, too."""
    from diffusers.models import activations, normalization
    from diffusion_models import RELEASE

    monkeypatch.setattr(activations, "is_torch_npu_available", lambda: False)
    monkeypatch.setattr(normalization, "is_torch_npu_available", lambda: False)
    if RELEASE < (0, 36):  # see test_processors.py
        for name in ("flux", "chroma"):
            monkeypatch.setattr(f"diffusers.models.transformers.transformer_{name}.is_torch_npu_available", bool)
