"""The vendor's package as programs import it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import textwrap

import pytest
from running import INSTALL, output_of


def run_program(code: str, **environ: str) -> str:
    """Return what a program prints that emulates an NPU and then runs the code."""
    return output_of(INSTALL + textwrap.dedent(code), **environ)


class TestImport:
    @pytest.mark.parametrize("autoload", ["0", "1"])
    @pytest.mark.parametrize("order", ["torch, torch_npu", "torch_npu, torch", "torch_npu.npu, torch"])
    def test_any_order(self, order: str, autoload: str) -> None:
        code = f"import {order}; print(torch.ones(1).npu().device, torch_npu.npu is torch.npu)"
        assert run_program(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload) == "npu:0 True\n"

    def test_every_module_has_both_names(self) -> None:
        code = """
            import sys, torch
            own = "npu_emulator.torch_npu"
            names = [name for name in sys.modules if name == own or name.startswith(own + ".")]
            print([name for name in names if sys.modules.get(name[len("npu_emulator."):]) is not sys.modules[name]])
            print({"torch_npu.npu.amp", "torch_npu.optim", "torch_npu.profiler", "torch_npu._C"} <= set(sys.modules))
        """
        assert run_program(code) == "[]\nTrue\n"

    @pytest.mark.parametrize("importing", ["torch_npu", "npu_emulator.torch_npu.optim", "torch"])
    def test_patches_that_wait_for_a_submodule_are_applied(self, importing: str) -> None:
        code = f"""
            import patchcore as pc
            patched = lambda self, closure=None: "patched"
            steps = pc.Patch("steps", [pc.Replace("torch_npu.optim:NpuFusedAdamW.step", patched)])
            with pc.Patcher([steps]) as patcher:
                print(patcher.report()["steps"].status)
                import {importing}
                print(patcher.report()["steps"].status)
                import torch, torch_npu
                print(torch_npu.optim.NpuFusedAdamW([torch.ones(1).npu()]).step())
        """
        assert run_program(code) == "pending\napplied\npatched\n"

    def test_torch_can_be_told_not_to(self) -> None:
        printed = run_program(
            "import torch, sys; print('torch_npu' in sys.modules); import torch_npu; print(torch.ones(1).npu().device)",
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        )
        assert printed == "False\nnpu:0\n"


class TestFindSpec:
    def test_it_answers(self) -> None:
        assert importlib.util.find_spec("torch_npu") is not None
        assert importlib.util.find_spec("torch_npu.contrib") is not None

    def test_it_answers_before_the_import_without_importing(self) -> None:
        code = "import importlib.util as u, sys; print(u.find_spec('torch_npu').name, 'torch' in sys.modules)"
        assert run_program(code) == "torch_npu False\n"

    def test_it_answers_alike_after_the_import(self) -> None:
        for name in ("torch_npu", "torch_npu.optim"):
            module = importlib.import_module(name)
            spec = importlib.util.find_spec(name)
            assert (spec.name, spec.origin) == (name, module.__file__)
            assert spec.submodule_search_locations == module.__path__

    def test_so_does_the_metadata(self) -> None:
        import torch_npu

        assert importlib.metadata.version("torch_npu") == torch_npu.__version__

    def test_what_libraries_ask(self) -> None:
        mmengine_device = pytest.importorskip("mmengine.device")
        assert mmengine_device.is_npu_available()
        assert mmengine_device.get_device() == "npu"


class TestTransferToNpu:
    def test_the_profiler_gets_its_own_schedule(self) -> None:
        printed = run_program(
            """
            import torch
            from torch_npu.contrib import transfer_to_npu

            steps = []
            schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
            activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(
                activities=activities, schedule=schedule, on_trace_ready=lambda found: steps.append(found.step_num)
            ) as profiler:
                for _ in range(5):
                    torch.ones(1, device="cuda")
                    profiler.step()
            print(steps, type(profiler).__module__.endswith("torch_npu.profiler.profiler"))
            """
        )
        assert printed == "[4] True\n"
