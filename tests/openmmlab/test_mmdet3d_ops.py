"""mmdet3d's own copies of operators: ``mmdet3d.voxelization`` (mmcv 2) and ``mmdet3d.bev_pool`` (mmcv 1)."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

import mmdet3d_libraries  # noqa: F401  (mmdet3d as such refuses mmcv 1)
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import patchcore as pc
from mmdet3d_npu import ops_checks as cases
from mmdet3d_npu.ops import BEV_POOL, VOXELIZATION
from patchcore.builtin.verify.verify import AGREES, verify
from patchcore_torch.tensors.framework import Tensors

#: Share of the largest value expected; the largest difference found here is 5.2e-7.
run, compare = Tensors().run, Tensors().compare

POOLING_TOLERANCE = 1e-5


@pytest.mark.openmmlab(2)
class TestVoxelization:
    SIZE = [0.5, 0.5, 1.0]
    RANGE = [-4.0, -4.0, -2.0, 4.0, 4.0, 2.0]

    def test_the_checks_agree(self, calls: Counter[str]) -> None:
        results = verify([VOXELIZATION], device="npu", sizes=[pc.Size.SMALL])
        assert [result.check for result in results] == ["hard_voxelization", "dynamic_voxelization"]
        assert {result.status for result in results} == {AGREES}, results
        assert calls["hard_voxelize"] > 0
        assert calls["dynamic_voxelization"] > 0

    @pytest.mark.parametrize("case", [cases.hard_voxelization, cases.dynamic_voxelization], ids=lambda c: c.__name__)
    @given(seed=st.integers(0, 2**32))
    @settings(max_examples=25)
    def test_it_gives_the_same_voxels(self, case: Any, seed: int) -> None:
        expected = run(case(random.Random(seed)))
        with pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True):
            actual = run(case(random.Random(seed)), "npu")
        assert compare(actual, expected, 0.0).message == ""

    @pytest.mark.parametrize("kind", ["hard", "dynamic"])
    def test_a_data_preprocessor_takes_the_kernel(self, kind: str, device: torch.device, calls: Counter[str]) -> None:
        from mmdet3d.models.data_preprocessors import Det3DDataPreprocessor

        most = {"hard": (3, 100), "dynamic": (-1, -1)}[kind]
        layer = dict(zip(("max_num_points", "max_voxels"), most), point_cloud_range=self.RANGE, voxel_size=self.SIZE)
        preprocessor = Det3DDataPreprocessor(voxel=True, voxel_type=kind, voxel_layer=layer).eval()
        points = [10 * torch.rand(count, 4) - 5 for count in (80, 50)]
        expected = preprocessor.voxelize(points, [])
        assert not calls
        with pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True):
            actual = preprocessor.to(device).voxelize([sample.to(device) for sample in points], [])
        assert calls == {{"hard": "hard_voxelize", "dynamic": "dynamic_voxelization"}[kind]: 2}
        assert actual.keys() == expected.keys()
        for name, wanted in expected.items():
            assert torch.equal(actual[name].cpu(), wanted), name

    def test_points_on_the_cpu_stay_with_mmcv(self, calls: Counter[str]) -> None:
        with pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True):
            run(cases.hard_voxelization(random.Random(0)))
        assert not calls


@pytest.mark.openmmlab(1)
class TestBevPool:
    def test_the_checks_agree(self, calls: Counter[str]) -> None:
        (result,) = verify([BEV_POOL], device="npu", sizes=[pc.Size.SMALL])
        assert (result.check, result.status) == ("view_pooling", AGREES), result
        assert calls["bev_pool"] > 0
        assert calls["bev_pool_backward"] > 0

    @given(seed=st.integers(0, 2**32))
    @settings(max_examples=40)
    def test_it_pools_as_mmdet3d_does(self, seed: int) -> None:
        expected = run(cases.view_pooling(random.Random(seed)))
        with pc.Patcher([BEV_POOL], enable=BEV_POOL, strict=True):
            actual = run(cases.view_pooling(random.Random(seed)), "npu")
        assert "gradient of args[1]" in expected
        assert compare(actual, expected, POOLING_TOLERANCE).message == ""

    @given(seed=st.integers(0, 2**32), batch=st.integers(1, 3), spread=st.sampled_from([0.5, 1.0, 2.0]))
    @settings(max_examples=40)
    def test_several_samples_are_pooled_apart(self, seed: int, batch: int, spread: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        transformer = view_transformer()
        places = spread * 8 * (torch.rand(batch, 2, 4, 3, 2, 3, generator=generator) - 0.5)
        features = torch.randn(batch, 2, 4, 3, 2, 5, generator=generator)
        on_npu = features.to("npu").requires_grad_()
        with pc.Patcher([BEV_POOL], enable=BEV_POOL, strict=True):
            view = transformer.voxel_pooling(places.to("npu"), on_npu)
            view.square().sum().backward()
        expected = features.clone().requires_grad_()
        wanted = pooled_by_definition(transformer, places, expected)
        wanted.square().sum().backward()
        assert torch.allclose(view.detach().cpu(), wanted.detach(), rtol=0, atol=1e-5)
        assert torch.allclose(on_npu.grad.cpu(), expected.grad, rtol=0, atol=1e-4)

    def test_nothing_inside_the_grid_gives_zeros_and_zero_gradients(self, device: torch.device) -> None:
        places = torch.full((2, 1, 4, 3, 2, 3), 100.0, device=device)
        features = torch.randn(2, 1, 4, 3, 2, 5, device=device, requires_grad=True)
        with pc.Patcher([BEV_POOL], enable=BEV_POOL, strict=True):
            view = view_transformer().voxel_pooling(places, features)
            view.sum().backward()
        assert view.shape == (2, 10, 6, 8)
        assert not view.cpu().any()
        assert not features.grad.cpu().any()

    def test_the_view_transformer_runs_on_the_kernel(self, device: torch.device, calls: Counter[str]) -> None:
        transformer = view_transformer()
        cameras = 2
        rotations = torch.eye(3).expand(1, cameras, 3, 3).clone()
        rest = [rotations, torch.randn(1, cameras, 3), rotations + 0.1, rotations, torch.zeros(1, cameras, 3)]
        inputs = [torch.randn(1, cameras, 4, 2, 2), *rest]
        expected = transformer(inputs)
        assert expected.any()
        on_npu = copy.deepcopy(transformer).to(device)
        with pc.Patcher([BEV_POOL], enable=BEV_POOL, strict=True):
            actual = on_npu([tensor.to(device) for tensor in inputs])
            assert calls == {"bev_pool": 1}
        assert torch.allclose(actual.detach().cpu(), expected.detach(), atol=1e-5)

    def test_tensors_on_the_cpu_stay_with_mmdet3d(self, calls: Counter[str]) -> None:
        with pc.Patcher([BEV_POOL], enable=BEV_POOL, strict=True):
            run(cases.view_pooling(random.Random(0)))
        assert not calls

    @pytest.mark.parametrize(
        ("dtype", "channels"), [(torch.float64, 5), (torch.float32, 1025)], ids=["double", "many channels"]
    )
    def test_what_the_kernel_does_not_take_stays_with_mmdet3d(
        self, dtype: torch.dtype, channels: int, device: torch.device, calls: Counter[str]
    ) -> None:
        places = torch.zeros(1, 1, 4, 1, 1, 3, dtype=dtype, device=device)
        features = torch.ones(1, 1, 4, 1, 1, channels, dtype=dtype, device=device)
        with pc.Patcher([BEV_POOL], enable=BEV_POOL, strict=True):
            # where mmdet3d's own code fails on a device, as it does without the patch
            with pytest.raises(RuntimeError):
                view_transformer().voxel_pooling(places, features)
        assert not calls


def test_the_patch_for_the_other_mmcv_is_skipped_with_its_reason(major: int) -> None:
    own, other = {1: (BEV_POOL, VOXELIZATION), 2: (VOXELIZATION, BEV_POOL)}[major]
    with pc.Patcher([own, other], enable=["mmdet3d.voxelization", "mmdet3d.bev_pool"]) as patcher:
        report = patcher.report()
        assert report[own.name].status == "applied"
        assert report[other.name].status == "skipped"
        assert f"requires {other.requires[0]}, found mmdet3d 1." in report[other.name].reason


@pytest.mark.parametrize("patch", [VOXELIZATION, BEV_POOL], ids=lambda patch: patch.name)
def test_they_apply_only_when_asked_for(patch: pc.Patch) -> None:
    with pc.Patcher([patch]) as patcher:
        assert patcher.report()[patch.name].status == "skipped"


def view_transformer() -> Any:
    """A view of 8 x 6 x 2 cells, of half a metre and more."""
    from mmdet3d.models.necks import LSSViewTransformer

    grid = {"x": [-4.0, 4.0, 1.0], "y": [-1.5, 1.5, 0.5], "z": [-2.0, 2.0, 2.0], "depth": [1.0, 5.0, 1.0]}
    return LSSViewTransformer(grid, input_size=(32, 32), downsample=16, in_channels=4, out_channels=5)


def pooled_by_definition(transformer: Any, places: Tensor, features: Tensor) -> Tensor:
    """Add every feature up in its cell, one at a time."""
    width, height, depth = map(int, transformer.grid_size)
    view: dict[tuple[int, ...], Tensor] = {}
    for index in torch.cartesian_prod(*map(torch.arange, places.shape[:-1])).tolist():
        cell = ((places[tuple(index)] - transformer.grid_lower_bound) / transformer.grid_interval).long().tolist()
        if all(0 <= place < size for place, size in zip(cell, (width, height, depth))):
            key = (index[0], *reversed(cell))
            view[key] = view.get(key, 0) + features[tuple(index)]
    grid = features.new_zeros(places.shape[0], depth, height, width, features.shape[-1])
    if view:
        grid = grid.index_put(tuple(torch.tensor(list(view)).T), torch.stack(list(view.values())))
    return grid.permute(0, 1, 4, 2, 3).flatten(1, 2) + 0 * features.sum()
