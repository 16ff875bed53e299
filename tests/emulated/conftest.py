"""Tests of the emulated NPU: collected only where there is one, ``pytest tests/emulated --emulate-npu=imitation``.

torch can neither rename nor forget a device, so these tests have a process of their own. ``NPU_EMULATOR_CORE=python``
or ``native`` picks the core. ``python -m fake_cann run -m pytest tests/emulated`` runs some of the modules on the real
torch_npu, and any module that is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import running
from npu_fixtures import as_after_start  # noqa: F401

HERE = Path(__file__).resolve().parent

#: Modules about processes, programs and the interface of torch_npu: which core runs the operators makes no difference.
EITHER_CORE = {
    "test_cuda_names",
    "test_data_loading",
    "test_distributed",
    "test_hccl",
    "test_migrated_programs",
    "test_torch_npu",
    "test_torch_npu_devices",
    "test_torch_npu_transfer",
    "test_transfer_to_npu",
}


#: Modules about what patchcore's own plugins do with torch_npu: they run on the real one, too, where the fake CANN is.
ON_REAL_TORCH_NPU = {
    "test_autocast",
    "test_autograd",
    "test_compile",
    "test_copies",
    "test_indexing",
    "test_layers",
    "test_models",
    "test_optimizers",
    "test_tensors",
    "test_data_parallel",
    "test_distributed",
    "test_fused_adamw",
    "test_torch_verify",
    "test_torch_npu_amp",
    "test_torch_npu_moving",
    "test_cuda_names",
    "test_equal_devices",
    "test_migrated_programs",
    "test_transfer_to_npu",
}

#: Tests of these modules that the real torch_npu does not pass, by name, with what it does. docs/fake-cann.md has them.
DIFFERENT_ON_REAL_TORCH_NPU = {
    "test_a_dispatch_mode_sees_the_operators": "matmul reaches the backend as itself",
    "test_what_cannot_be_copied_raises": "the error has another text",
    "test_what_does_not_fit_is_refused": "the error has another text",
    "test_assigning_slices_and_numbers": "a number on the CPU cannot be assigned at indices on the NPU",
    "test_an_index_out_of_range_raises": "the operator fails with a RuntimeError: the adapter does not look at indices",
    "test_empty_has_shape_dtype_and_strides": "torch.empty takes no memory_format but the contiguous one",
    "test_an_infinite_gradient_is_skipped_with_a_scaler": "fused AdamW does not look at found_inf",
    "test_training[SGD-{'fused': True}]": "fused SGD needs a momentum",
    "test_training[SGD with momentum-{'fused': True}]": "the fake CANN has no FusedSgd",
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out unless the NPU is emulated: its modules need the device."""
    if config.getoption("emulate_npu", default=False):
        return None
    is_named = any(Path(argument.partition("::")[0]).name == collection_path.name for argument in config.args)
    is_chosen = collection_path == HERE or collection_path.stem in ON_REAL_TORCH_NPU or is_named
    return None if running.ON_CANN and is_chosen else True


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", "either_core: a test that one of the two cores is enough for")
    if running.ON_CANN:  # patches that call kernels of mx_driving are skipped without them, and their tests pass alike
        from fake_cann.kernels import install_kernels

        install_kernels()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the modules that one core is enough for, and those that the real torch_npu does not pass."""
    for item in items:
        if running.ON_CANN and item.path.parent == HERE and item.name in DIFFERENT_ON_REAL_TORCH_NPU:
            item.add_marker(pytest.mark.xfail(reason=DIFFERENT_ON_REAL_TORCH_NPU[item.name], strict=True))
        if item.path.parent == HERE and item.path.stem in EITHER_CORE:
            item.add_marker(pytest.mark.either_core)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Take the place of the fixture for the core's tests: an emulated device stays to the end of its process."""


@pytest.fixture
def device() -> str:
    """The device that operators run on."""
    return "npu"


@pytest.fixture
def no_calls() -> Iterator[None]:
    """Count the runs of kernels of this test alone."""
    from npu_emulator.mx_driving import calls

    calls.clear()
    yield
    calls.clear()
