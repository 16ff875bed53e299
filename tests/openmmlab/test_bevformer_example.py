"""examples/bevformer_npu: a plugin of a third party, installed and discovered like any other, migrates its model."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import patchcore as pc
from npu_emulator import NotEmulated
from patchcore.builtin.verify.verify import AGREES, verify

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bevformer_npu"
DISTRIBUTION = "bevformer-npu-patches"
PATCHES = ("bevformer.deformable_attention", "bevformer.spatial_cross_attention")
#: What the model and the plugin import as.
PACKAGES = ("bevformer", "bevformer_npu")

STEPS = 4
LEARNING_RATE = 2e-3
#: Largest difference of a loss (about 1) between the CPU and the patched run; none was found in its four digits.
LOSS_TOLERANCE = 2e-4
#: Largest difference of a weight: a quarter of what AdamW moves it in one step. It divides gradients by their size, so
#: that of weights with hardly any the rounding shows; 1.1e-4 was found after six steps (torch 2.13.0).
WEIGHT_TOLERANCE = LEARNING_RATE / 4

LAYERS, FRAMES, DCN_BLOCKS, BLOCKS = 2, 2, 6, 13


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip has installed the plugin into, which is on nobody's path yet."""
    folder = tmp_path_factory.mktemp("installed")
    options = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def example(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the installed plugin and the folder of the model on the path, for one test."""
    monkeypatch.syspath_prepend(str(EXAMPLE / "model"))
    monkeypatch.syspath_prepend(str(installation))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]


def load(path: str) -> ModuleType:
    """Run a file of the example as a module that nobody else sees."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLE / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script(example: None) -> ModuleType:
    """The model's train.py, as a module."""
    return load("model/train.py")


class Run(NamedTuple):
    """What came of a training run."""

    device: str
    losses: list[float]
    weights: dict[str, Tensor]


def train(script: ModuleType) -> Run:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        model = script.train(STEPS)
    losses = [float(line.rpartition(" ")[2]) for line in printed.getvalue().splitlines()]
    assert len(losses) == STEPS
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    return Run(next(model.parameters()).device.type, losses, weights)


def largest_difference(one: Run, other: Run) -> float:
    """Return the largest difference of a weight or running statistic."""
    assert one.weights.keys() == other.weights.keys()
    return max((one.weights[name] - other.weights[name]).abs().max().item() for name in one.weights)


class TestDiscovery:
    def test_found_by_its_entry_point(self, example: None) -> None:
        patcher = pc.Patcher.discover()
        assert not patcher.plugins.problems
        plan = patcher.plan()
        for name in PATCHES:
            provenance = plan[name].provenance
            found = (provenance.plugin, provenance.distribution, provenance.version, provenance.value)
            assert found == ("bevformer", DISTRIBUTION, "0.1.0", "bevformer_npu.plugin")
            assert plan[name].verdict == "apply"

    def test_loading_it_imports_neither_the_model_nor_the_kernels(self, installation: Path) -> None:
        code = (
            f"import sys; sys.path.insert(0, {str(installation)!r}); import bevformer_npu.plugin as plugin\n"
            "assert len(plugin.register_patches()) == 2\n"
            "print(*sorted({'torch', 'mmcv', 'bevformer', 'mx_driving'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900)
        assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


class TestTraining:
    def test_patched_run_on_the_npu_matches_the_cpu_run_and_revert_restores(
        self, script: ModuleType, calls: Counter[str]
    ) -> None:
        original = train(script)
        assert original.device == "cpu"
        assert not calls

        rebatching = sys.modules["bevformer.attention"].SpatialCrossAttention.__dict__["forward"]
        with pc.apply() as patcher:
            plugin = importlib.import_module("bevformer_npu.spatial_cross_attention")
            with mock.patch.object(plugin, "compact", wraps=plugin.compact) as compact:
                patched = train(script)
            report = patcher.report()
        assert patched.device == "npu"
        assert [report[name].status for name in PATCHES] == ["applied", "applied"]
        assert patched.losses == pytest.approx(original.losses, abs=LOSS_TOLERANCE, rel=0)
        assert largest_difference(patched, original) <= WEIGHT_TOLERANCE

        # the frame before is encoded without gradients
        attentions = 2 * LAYERS  # of each layer: to time, through mmcv's Function, and to the cameras, through the copy
        assert compact.call_count == STEPS * FRAMES * LAYERS
        assert calls == {
            "npu_max_pool2d": STEPS * FRAMES,
            "npu_add_relu": STEPS * FRAMES * BLOCKS,
            "npu_add_relu_backward": STEPS * BLOCKS,
            "deform_conv2d": STEPS * FRAMES * DCN_BLOCKS,
            "deform_conv2d_backward": STEPS * DCN_BLOCKS,
            "multi_scale_deformable_attn": STEPS * FRAMES * attentions,
            "multi_scale_deformable_attn_backward": STEPS * attentions,
        }

        assert sys.modules["bevformer.attention"].SpatialCrossAttention.__dict__["forward"] is rebatching
        calls.clear()
        restored = train(script)
        assert restored.losses == original.losses
        assert largest_difference(restored, original) == 0
        assert not calls

    def test_without_its_patch_the_models_copy_runs_on_that_of_mmcvs_operators(
        self, script: ModuleType, calls: Counter[str]
    ) -> None:
        off = ["bevformer.deformable_attention", "mmcv.multi_scale_deformable_attention"]
        with pc.apply(disable=off[:1]):
            assert train(script).device == "npu"
        assert calls["multi_scale_deformable_attn_backward"] == STEPS * 2 * LAYERS
        with pc.apply(disable=off), pytest.raises(NotEmulated, match=r"mmcv\._ext\.ms_deform_attn_forward"):
            train(script)


class Operators(TorchDispatchMode):
    """Counts operators, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[func.name().partition("::")[2].partition(".")[0]] += 1
        return func(*args, **(kwargs or {}))

    @property
    def waits(self) -> int:
        """How often the host had to know a value, or the size of a result, from the device."""
        return self.counts["_local_scalar_dense"] + self.counts["nonzero"]


class Echo(nn.Module):
    """Stands where the attention to the cameras was, which has operators of its own."""

    def forward(self, query: Tensor, *arguments: Tensor) -> Tensor:
        return query


class TestSpatialCrossAttention:
    BATCH, CAMERAS, QUERIES = 2, 6, 50

    @pytest.fixture
    def module(self, example: None) -> nn.Module:
        return importlib.import_module("bevformer.attention").SpatialCrossAttention(16, 2, 1, 2)

    def arguments(self, device: str) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        places = (self.BATCH, self.CAMERAS, self.QUERIES, 2)
        return (
            torch.randn(self.BATCH, self.QUERIES, 16, generator=generator).to(device),
            torch.randn(self.BATCH, self.CAMERAS, 12, 16, generator=generator).to(device),
            torch.rand(*places, 2, generator=generator).to(device),
            (torch.rand(places, generator=generator) < 0.3).to(device),
            torch.tensor([[3, 4]]).to(device),
            torch.tensor([0]).to(device),
        )

    def test_host_waits_once_not_for_each_camera(self, module: nn.Module) -> None:
        module.camera_attention = Echo()
        module.to("npu")
        with Operators() as original:
            expected = module(*self.arguments("npu"))
        with pc.Patcher.discover(plugins=["bevformer"]), Operators() as patched:
            actual = module(*self.arguments("npu"))
        assert original.counts["nonzero"] == self.BATCH * self.CAMERAS
        assert patched.waits == 1
        assert torch.allclose(actual.cpu(), expected.cpu(), atol=1e-6)


@pytest.fixture(scope="module")
def compact() -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The function by which the plugin finds what a camera sees."""
    return load("bevformer_npu/spatial_cross_attention.py").compact


@given(rows=st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=5))
def test_compact_finds_what_nonzero_finds(
    compact: Callable[[Tensor], tuple[Tensor, Tensor]], rows: list[list[bool]]
) -> None:
    chosen = torch.tensor(rows)
    index, taken = compact(chosen)
    assert index.shape == taken.shape == (len(rows), max(1, int(chosen.sum(1).max())))
    for number, row in enumerate(chosen):
        assert index[number][taken[number]].tolist() == row.nonzero().flatten().tolist()


def test_checks_agree_on_the_emulated_npu(example: None, calls: Counter[str]) -> None:
    plan = pc.Patcher.discover(plugins=["bevformer"]).plan()
    results = verify([plan[name].patch for name in PATCHES], device="npu")
    assert [result.status for result in results] == [AGREES] * 3, results
    assert calls["multi_scale_deformable_attn_backward"] > 0
