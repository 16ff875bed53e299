"""Programs for CUDA, unchanged, under ``patchcore run``: the losses of the CPU, every call of a kernel counted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import running
from comparing_models import MAJOR, tiny

PROGRAMS = Path(__file__).resolve().parent / "programs"
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_DISABLED": "true",
}
#: The largest difference of a loss; in bfloat16 a loss of about 3 has steps of 0.016.
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.05}
TRAINING = (
    "--per_device_train_batch_size=4",
    "--max_steps=4",
    "--logging_steps=1",
    "--learning_rate=0.01",
    "--lr_scheduler_type=constant",
    "--save_strategy=no",
    "--report_to=none",
    "--disable_tqdm=true",
)


def torchrun(ranks: int = 2) -> tuple[str, ...]:
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")


def on_cpu(folder: Path, *command: str, launch: tuple[str, ...] = ()) -> None:
    """Run a program without patches, where there is neither an NPU nor torch_npu."""
    command = (*launch, str(PROGRAMS / "without_torch_npu.py"), *command)
    run(folder, command, {**running.without_npu(), "CUDA_VISIBLE_DEVICES": "", **ENVIRONMENT})


def on_npu(folder: Path, *command: str) -> dict[str, tuple[int, int]]:
    """Run a program under ``patchcore run``; return calls and those of replacements by patch, of all processes."""
    reports = folder / "reports"
    options = ("--emulate-npu=cann", "--count", "--report-dir", str(reports))
    run(folder, ("-m", "patchcore", "run", *options, *command), {**os.environ, **ENVIRONMENT})
    counted: dict[str, tuple[int, int]] = {}
    for file in reports.glob("*.json"):
        for patch in json.loads(file.read_text(encoding="utf-8")).get("patches", ()):
            for change in patch["changes"]:
                calls, replaced = counted.get(patch["name"], (0, 0))
                counted[patch["name"]] = calls + (change.get("calls") or 0), replaced + (change.get("replaced") or 0)
    return counted


def run(folder: Path, command: tuple[str, ...], environ: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


def losses_of(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def train(tmp_path: Path, *options: str, launch: tuple[str, ...] = ()) -> tuple[Any, Any, dict[str, tuple[int, int]]]:
    """Train by Trainer on the CPU and on the NPU; return both results, and what was counted."""
    script = (str(PROGRAMS / "train_clm.py"), *TRAINING, *options)
    files = [tmp_path / "cpu.json", tmp_path / "npu.json"]
    out = f"--output_dir={tmp_path / 'out'}"
    on_cpu(tmp_path, *script, out, f"--losses={files[0]}", "--use_cpu=true", launch=launch)
    counted = on_npu(tmp_path, *launch, *script, out, f"--losses={files[1]}")
    cpu, npu = (losses_of(file) for file in files)
    assert cpu["device"].startswith("cpu")
    assert npu["device"].startswith("npu")
    assert cpu["world"] == npu["world"]
    assert len(cpu["losses"]) == len(npu["losses"]) == 4
    assert cpu["losses"][0] > cpu["losses"][-1]
    return cpu, npu, counted


def assert_losses(cpu: Any, npu: Any, dtype: str = "float32") -> None:
    assert npu["losses"] == pytest.approx(cpu["losses"], abs=TOLERANCES[dtype])


@pytest.mark.parametrize("model", ["Llama", *["Mixtral"] * (MAJOR >= 5)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_trainer(tmp_path: Path, model: str, dtype: str) -> None:
    cpu, npu, counted = train(tmp_path, f"--model_type={model}", f"--bf16={str(dtype == 'bfloat16').lower()}")
    assert_losses(cpu, npu, dtype)
    assert counted["transformers.attention"] == (8, 8)
    if model == "Mixtral":
        assert counted["transformers.experts"] == (8, 8)


def test_trainer_with_gradient_checkpointing(tmp_path: Path) -> None:
    cpu, npu, counted = train(tmp_path, "--gradient_checkpointing=true")
    assert_losses(cpu, npu)
    assert counted["transformers.attention"] == (16, 16)  # each layer forward twice


def test_lora(tmp_path: Path) -> None:
    cpu, npu, counted = train(tmp_path, "--lora=true")
    assert_losses(cpu, npu)
    assert counted["transformers.attention"] == (8, 8)


def test_trainer_with_torchrun_on_two_devices(tmp_path: Path) -> None:
    cpu, npu, counted = train(tmp_path, launch=torchrun())
    assert cpu["world"] == 2
    assert_losses(cpu, npu)
    assert counted["transformers.attention"] == (16, 16)


def test_trainer_with_accelerate_launch_on_two_devices(tmp_path: Path) -> None:
    launch = ("-m", "accelerate.commands.launch", "--num_processes=2", "--num_machines=1", "--mixed_precision=no")
    launch += ("--dynamo_backend=no", "--main_process_port=0")
    script = (str(PROGRAMS / "train_clm.py"), *TRAINING, f"--output_dir={tmp_path / 'out'}")
    files = [tmp_path / "cpu.json", tmp_path / "npu.json"]
    on_cpu(tmp_path, *script, f"--losses={files[0]}", "--use_cpu=true", launch=torchrun())
    counted = on_npu(tmp_path, *launch, "--multi_gpu", *script, f"--losses={files[1]}")
    cpu, npu = (losses_of(file) for file in files)
    assert npu["world"] == cpu["world"] == 2
    assert_losses(cpu, npu)
    assert counted["transformers.attention"] == (16, 16)


@pytest.mark.parametrize("how", ["fsdp2", "tensor parallel"])
def test_two_ranks_of_a_loop_for_cuda(tmp_path: Path, how: str) -> None:
    folders = [tmp_path / "cpu", tmp_path / "npu"]
    for folder in folders:
        tiny("Llama", vocab_size=32)().save_pretrained(folder)
    script = (str(PROGRAMS / "parallel.py"), how)
    on_cpu(tmp_path, *script, str(folders[0]), launch=torchrun())
    counted = on_npu(tmp_path, *torchrun(), *script, str(folders[1]))
    cpu, npu = (losses_of(folder / "losses.json") for folder in folders)
    assert (cpu["device"], npu["device"]) == ("cpu", "npu:0")
    assert_losses(cpu, npu)
    assert cpu["losses"][0] > cpu["losses"][-1]
    assert counted["transformers.attention"] == (20, 20)


def test_a_loop_of_generating_scoring_and_training(tmp_path: Path) -> None:
    files = [tmp_path / "cpu.json", tmp_path / "npu.json"]
    on_cpu(tmp_path, str(PROGRAMS / "policy.py"), str(files[0]))
    counted = on_npu(tmp_path, str(PROGRAMS / "policy.py"), str(files[1]))
    cpu, npu = (losses_of(file) for file in files)
    assert npu["losses"] == pytest.approx(cpu["losses"], abs=1e-3)
    assert npu["rewards"] == cpu["rewards"]
    calls, replaced = counted["transformers.attention"]
    assert calls == replaced == 4 * 2 * (6 + 2)


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="TRL is in the session with transformers 5")
def test_the_sft_trainer_of_trl(tmp_path: Path) -> None:
    files = [tmp_path / "cpu.json", tmp_path / "npu.json"]
    program = str(PROGRAMS / "sft.py")
    on_cpu(tmp_path, program, str(files[0]), str(tmp_path / "out"))
    counted = on_npu(tmp_path, program, str(files[1]), str(tmp_path / "out"))
    cpu, npu = (losses_of(file) for file in files)
    assert (cpu["device"], npu["device"]) == ("cpu", "npu:0")
    assert len(cpu["losses"]) == 4
    assert_losses(cpu, npu)
    calls, replaced = counted["transformers.attention"]
    assert calls == replaced >= 8
    assert counted["transformers.rms_norm"][1] >= 4 * 5


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs timm")
@pytest.mark.parametrize("model", ["vit_tiny_patch16_224", "resnet18"])
def test_models_of_timm(tmp_path: Path, model: str) -> None:
    files = [tmp_path / "cpu.json", tmp_path / "npu.json"]
    program = (str(PROGRAMS / "without_torchvision.py"), str(PROGRAMS / "train_timm.py"), model)
    on_cpu(tmp_path, *program, str(files[0]))
    on_npu(tmp_path, *program, str(files[1]))
    cpu, npu = (losses_of(file) for file in files)
    assert (cpu["device"], npu["device"]) == ("cpu", "npu:0")
    assert cpu["losses"][0] > cpu["losses"][-1]
    assert_losses(cpu, npu)
