"""The vendor's package as programs import it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from checks import check
from comparing import assert_same


def run_program(code: str, **environment: str) -> str:
    """Return what a program prints that emulates an NPU and then runs the code."""
    program = "import npu_emulator\nnpu_emulator.install()\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@check("import torch_npu")
class TestImport:
    def test_the_module_of_the_device_is_torch_npu_npu(self) -> None:
        import torch_npu

        assert torch_npu.npu is torch.npu is importlib.import_module("torch_npu.npu") is sys.modules["torch.npu"]
        assert importlib.import_module("torch.npu.amp") is torch.npu.amp

    def test_the_usual_imports(self) -> None:
        from torch_npu.npu import amp
        from torch_npu.npu.amp import GradScaler, autocast

        assert amp.autocast is autocast
        assert amp.GradScaler is GradScaler
        assert issubclass(GradScaler, torch.amp.GradScaler)

    def test_an_unknown_name_raises(self) -> None:
        import torch_npu

        with pytest.raises(AttributeError, match="no_such_operator"):
            torch_npu.no_such_operator
        with pytest.raises(ImportError):
            importlib.import_module("torch_npu.no_such_module")

    def test_a_version_for_this_torch(self) -> None:
        import torch_npu

        assert torch_npu.__version__.split(".")[:2] == torch.__version__.split(".")[:2]

    def test_torch_imports_it_unasked(self) -> None:
        assert run_program("import torch, sys; print('torch_npu' in sys.modules, torch.ones(1).npu().device)") == (
            "True npu:0\n"
        )

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


@check("find_spec of torch_npu")
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


@check("transfer_to_npu")
class TestTransferToNpu:
    def test_a_script_for_cuda_runs_on_the_npu(self) -> None:
        printed = run_program(
            """
            import torch
            from torch_npu.contrib import transfer_to_npu

            assert torch.cuda.is_available()
            device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
            model = torch.nn.Linear(2, 1).cuda()
            scaler = torch.cuda.amp.GradScaler()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            x = torch.ones(4, 2, device="cuda").to(device)
            with torch.cuda.amp.autocast():
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            torch.cuda.synchronize()
            print(loss.device, model.weight.grad.device, torch.cuda.current_device(), torch.cuda.device_count() > 1)
            """
        )
        assert printed == "npu:0 npu:0 0 True\n"

    def test_without_it_cuda_stays_what_it_is(self) -> None:
        assert not torch.cuda.is_available()
        with pytest.raises((AssertionError, RuntimeError)):
            torch.ones(1).cuda()

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


@check("profiler")
class TestProfiler:
    def test_the_profiler_of_torch_npu_writes_a_trace(self, tmp_path: Path) -> None:
        import torch_npu

        handler = torch_npu.profiler.tensorboard_trace_handler(str(tmp_path))
        activities = [torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU]
        schedule = torch_npu.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
        x = torch.ones(8, 8, device="npu")
        with torch_npu.profiler.profile(activities=activities, schedule=schedule, on_trace_ready=handler) as profiler:
            for _ in range(3):
                x @ x
                profiler.step()
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert any("aten::mm" in path.read_text(errors="replace") for path in written)

    def test_the_profiler_of_torch_sees_operators_on_the_npu(self) -> None:
        x = torch.ones(8, 8, device="npu")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            x @ x
        assert "aten::mm" in {event.key for event in profiler.key_averages()}
        assert_same(x @ x, torch.full((8, 8), 8.0))
