"""torch gives the same answers about CUDA in its CUDA build and in its build without: those of the latter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.utils.cpp_extension
from torch import nn

NOT_COMPILED = (AssertionError, "Torch not compiled with CUDA enabled")
NOT_AVAILABLE = (TypeError, "not available. Torch not compiled with CUDA enabled")
NO_NVTX = (RuntimeError, "NVTX functions not installed")
DUMMY = (RuntimeError, "Tried to instantiate dummy base class")

#: Expressions, and what they are where no CUDA was compiled in: a value, or the error that they raise.
ANSWERS: dict[str, Any] = {
    "torch.version.cuda": None,
    "torch.cuda.is_available()": False,
    "torch.cuda.is_initialized()": False,
    "torch.cuda.device_count()": 0,
    "torch.cuda._is_compiled()": False,
    "torch.cuda.has_magma": False,
    "torch.cuda.default_generators": (),
    "torch.cuda.get_arch_list()": [],
    "torch.backends.cuda.is_built()": False,
    "torch.backends.cuda.is_flash_attention_available()": False,
    "torch.backends.cudnn.is_available()": False,
    "torch.backends.cudnn.version()": None,
    "torch.backends.cusparselt.is_available()": False,
    "torch.backends.cusparselt.version()": None,
    "torch.utils.cpp_extension.CUDA_HOME": None,
    "dist.is_nccl_available()": False,
    "dist.is_backend_available('nccl')": False,
    "hasattr(dist, 'ProcessGroupNCCL')": False,
    "torch.cuda.nccl.is_available([torch.ones(1)])": False,
    "torch.cuda.nccl.version()": (AttributeError, "_nccl_version"),
    "torch.cuda.init()": NOT_COMPILED,
    "torch.cuda.cudart()": NOT_COMPILED,
    "torch.cuda.current_device()": NOT_COMPILED,
    "torch.cuda.get_device_properties()": NOT_COMPILED,
    "torch.cuda.get_device_capability()": NOT_COMPILED,
    "torch.cuda.synchronize()": NOT_COMPILED,
    "torch.zeros(2, device='cuda')": NOT_COMPILED,
    "torch.zeros(2).cuda()": NOT_COMPILED,
    "torch.zeros(2).to('cuda')": NOT_COMPILED,
    "nn.Linear(1, 1).cuda()": NOT_COMPILED,
    "torch.cuda.FloatTensor(2)": NOT_AVAILABLE,
    "torch.cuda.FloatTensor()": NOT_AVAILABLE,
    "isinstance(torch.zeros(2), torch.cuda.FloatTensor)": False,
    "torch.cuda.Stream()": (RuntimeError, "requires CUDA support"),
    "torch.cuda.Event()": DUMMY,
    "torch.cuda.CUDAGraph()": DUMMY,
    "torch.cuda.MemPool()": DUMMY,
    "torch.cuda.graph_pool_handle()": DUMMY,
    "torch.cuda.is_current_stream_capturing()": DUMMY,
    "torch.cuda.device(0).__enter__()": (RuntimeError, "PyTorch was compiled without CUDA support"),
    "torch.cuda.device(-1).__enter__()": None,
    "torch.cuda.nvtx.range_push('forward')": NO_NVTX,
    "torch.cuda.nvtx.range_pop()": NO_NVTX,
    "torch.cuda.nvtx.mark('here')": NO_NVTX,
    "torch.amp.GradScaler('cuda').is_enabled()": False,
    "torch.autocast('cuda')._enabled": False,
    "torch.accelerator.current_accelerator().type": "npu",
    "torch.zeros(2).pin_memory().is_pinned()": True,
    "torch.random.fork_rng(device_type='cuda').__enter__()": None,
    "nn.DataParallel(nn.Linear(2, 2)).device_ids": list(range(8)),
}
NAMES = {"torch": torch, "dist": dist, "nn": nn}
PROGRAM = """
import sys
import torch
import torch.utils.cpp_extension
import torch.distributed as dist
from torch import nn
import npu_emulator
npu_emulator.install()
import torch_npu
for expression in sys.stdin.read().splitlines():
    try:
        print(repr(eval(expression)))
    except Exception as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}")
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_about_cuda(question: str) -> None:
    expected = ANSWERS[question]
    if isinstance(expected, tuple) and expected:
        with pytest.raises(expected[0], match=expected[1]):
            eval(question, NAMES)
    else:
        assert eval(question, NAMES) == expected


@pytest.mark.either_core
def test_the_answers_are_the_same_where_torch_was_imported_first() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        input="\n".join(ANSWERS),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    for question, found in zip(ANSWERS, done.stdout.splitlines(), strict=True):
        expected = ANSWERS[question]
        if isinstance(expected, tuple) and expected:
            assert found.startswith(f"{expected[0].__name__}: "), question
            assert expected[1] in found, question
        else:
            assert found == repr(expected), question


def test_no_python_code_can_reach_the_driver() -> None:
    assert [name for name in vars(torch._C) if name.startswith(("_cuda_init", "_cuda_get", "_cuda_set"))] == []
    assert not hasattr(torch._C, "_cudart")


def test_what_data_parallel_calls_is_that_of_the_npu() -> None:
    assert all(part.device.type == "npu" for part in torch._C._scatter(torch.ones(4), [0, 1]))


@pytest.mark.either_core
def test_a_process_that_uses_a_gpu_is_refused() -> None:
    program = "import torch; torch.cuda._initialized = True\nimport npu_emulator; npu_emulator.install()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "EmulationError: npu_emulator: this process uses CUDA already" in done.stderr
    assert "patchcore run --emulate-npu" in done.stderr


GPU_MACHINE = """
import sys
import patchcore as pc

@pc.hookimpl(tryfirst=True)
def configure_run(options):
    from npu_emulator import gpus
    gpus.DRIVERS = (sys.executable,)
"""
SEEN = """
import ctypes, os, subprocess, sys
if sys.argv[1] == "program":
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"  # as programs do, before they import torch
import torch
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
compiled = getenv(b"CUDA_VISIBLE_DEVICES").decode()
print(sys.argv[1], os.environ["CUDA_VISIBLE_DEVICES"], compiled, torch.cuda.device_count(), flush=True)
if sys.argv[1] == "program":
    subprocess.run([sys.executable, __file__, "child"], check=True)
    subprocess.run([sys.executable, __file__, "copied"], check=True, env=dict(os.environ))
    subprocess.run(["sh", "-c", "echo other $CUDA_VISIBLE_DEVICES"], check=True)
"""


@pytest.mark.either_core
def test_a_gpu_is_hidden_from_compiled_code_in_every_process_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "gpu_machine.py").write_text(GPU_MACHINE)
    (tmp_path / "seen.py").write_text(SEEN)
    command = [
        sys.executable,
        "-m",
        "patchcore",
        "run",
        "--emulate-npu=imitation",
        "-p",
        "gpu_machine",
        "seen.py",
        "program",
    ]
    environ = {name: value for name, value in os.environ.items() if "VISIBLE_DEVICES" not in name}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    hidden = "-1,npu-emulator=0,1"
    assert done.stdout.splitlines() == [
        f"program 0,1 {hidden} 2",
        f"child 0,1 {hidden} 2",
        f"copied 0,1 {hidden} 2",
        f"other {hidden}",
    ]


@pytest.mark.either_core
def test_without_a_gpu_the_environment_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from npu_emulator import gpus

    monkeypatch.setattr(gpus, "DRIVERS", ("/nowhere/driver",))
    monkeypatch.setenv(gpus.VISIBLE, "-1,npu-emulator=3")  # a parent had a GPU
    gpus.hide_gpus()
    assert os.environ[gpus.VISIBLE] == "3"
    monkeypatch.setenv(gpus.VISIBLE, "-1,npu-emulator")
    gpus.hide_gpus()
    assert gpus.VISIBLE not in os.environ
