"""Changes of imports with the real mmdet3d 1.4 and torch: what they import optionally.

Each case runs in a process of its own, as it is about the first import of these libraries.
"""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from warm import Warm

pytest.importorskip("torch")

needs_mmdet3d = pytest.mark.skipif(importlib.util.find_spec("mmdet3d") is None, reason="needs mmdet3d 1.4")

STUBS = """
    import patchcore as pc
    from patchcore import Literal

    def stub(*names, **options):
        patcher = pc.Patcher([pc.Patch("stubs", [pc.StubImport(name, **options) for name in names])], strict=True)
        patcher.apply()
        return patcher

    def error_of(use):
        try:
            use()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
"""


@pytest.fixture
def run_with_stubs(run_python) -> Callable[[str], str]:
    """Return a function that runs code in a fresh interpreter after ``STUBS``, and returns what it printed."""
    return lambda code: run_python(textwrap.dedent(STUBS) + textwrap.dedent(code))


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A process that has imported what mmcv and mmdet need, none of which is looked at here."""
    imports = "import torch, torch._dynamo, numpy, cv2, matplotlib.pyplot, scipy.optimize, mmengine.runner\n"
    with Warm(tmp_path_factory.mktemp("warm"), imports) as warm:
        yield warm


@pytest.fixture
def run_after_torch(warm: Warm, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that runs code in a process that has imported torch and mmengine."""

    def run(code: str) -> str:
        done = warm.run(textwrap.dedent(code), cwd=tmp_path)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def run_with_stubs_after_torch(run_after_torch: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that does so after ``STUBS``."""
    return lambda code: run_after_torch(textwrap.dedent(STUBS) + textwrap.dedent(code))


@needs_mmdet3d
class TestStubsInMmdet3d:
    def test_spconv_of_version_0_is_not_taken_for_spconv_2(self, run_with_stubs_after_torch) -> None:
        """``mmdet3d/models/layers/spconv/__init__.py`` compares the version, and keeps mmcv's operators."""
        done = run_with_stubs_after_torch("""
            patcher = stub("spconv")
            from mmdet3d.models.layers.spconv import IS_SPCONV2_AVAILABLE
            from mmdet3d.models.layers import make_sparse_convmodule
            from mmengine.registry import MODELS
            print(IS_SPCONV2_AVAILABLE, MODELS.get("SubMConv3d").__module__, patcher.report()["stubs"].status)
            """)
        assert done.endswith("False mmcv.ops.sparse_conv applied\n")

    def test_spconv_of_version_2_registers_stubs_that_say_so(self, run_with_stubs_after_torch) -> None:
        done = run_with_stubs_after_torch("""
            stub("spconv", version="2.3.6")
            from mmdet3d.models.layers.spconv import IS_SPCONV2_AVAILABLE
            from mmdet3d.models.middle_encoders import SparseEncoder
            from mmengine.registry import MODELS
            print(IS_SPCONV2_AVAILABLE)
            print(error_of(lambda: MODELS.build(dict(type="SubMConv3d", in_channels=4, out_channels=4, kernel_size=3))))
            """)
        lines = done.splitlines()
        assert lines[-2] == "True"
        assert "spconv.pytorch.SubMConv3d was called, but is a stub" in lines[-1]
        assert "write_spconv2.py:" in lines[-1]  # where mmdet3d imports it

    def test_visualizer_with_open3d(self, run_with_stubs_after_torch) -> None:
        done = run_with_stubs_after_torch("""
            stub("open3d")
            from mmdet3d.visualization import local_visualizer
            print(error_of(lambda: local_visualizer.geometry.PointCloud()))
            """)
        assert "open3d.geometry.PointCloud was called, but is a stub" in done


class TestTorchAmongStubs:
    """torch looks for some of these libraries, and walks over all modules for torch.compile."""

    def test_flash_attn(self, run_with_stubs) -> None:
        done = run_with_stubs("""
            patcher = stub("flash_attn")
            import torch
            from flash_attn import flash_attn_func
            from flash_attn.flash_attn_interface import _flash_attn_forward

            q = torch.ones(1, 2, 2, 8)
            try:
                flash_attn_func(q, q, q)
            except pc.StubError as error:
                print("named", error)

            class Attention(torch.nn.Module):
                def forward(self, x):
                    return flash_attn_func(x, x, x) if x.is_cuda else x * 2

            compiled = torch.compile(Attention(), backend="eager")
            print(torch.equal(compiled(q), q * 2))
            for note in patcher.revert().notes:
                print(note)
            """)
        assert "named flash_attn.flash_attn_func was called, but is a stub" in done
        assert "True\n" in done
        assert "__main__:_flash_attn_forward, __main__:flash_attn_func: still a stub of flash_attn" in done

    def test_triton_kernels_of_a_module_can_be_imported(self, run_with_stubs, make_package) -> None:
        if importlib.util.find_spec("triton") is not None:
            pytest.skip("triton is installed here")
        kernels = """
            import triton
            import triton.language as tl

            def configs():
                return [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (2, 4)]

            @triton.autotune(configs=configs(), key=["n"])
            @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
            @triton.jit(do_not_specialize=["n"])
            def add(x, y, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr = tl.constexpr(True)):
                pid = tl.program_id(0)

            def launch(x):
                add[(1,)](x, x, x, 3)
            """
        make_package({"kernels": kernels})
        done = run_with_stubs("""
            stub("triton")
            import torch, kernels
            print(error_of(lambda: kernels.launch(torch.ones(3))))
            """)
        assert "StubError: kernels.add (decorated with jit(...))[...] was called, but is a stub: triton" in done
