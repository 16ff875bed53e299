"""MindSpeed and Megatron-LM as they are, on the emulated NPU: owners, revert, losses equal to those of its manager.

In an environment with torch_npu's wheel, all of it runs with the real torch_npu on the fake CANN.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("torch") is None:
    pytest.skip("needs torch", allow_module_level=True)
pytest.importorskip("npu_emulator")
pytest.importorskip("mindspeed_compat")

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "mindspeed.md"
STACK = os.environ.get("MINDSPEED_STACK", "")
if not Path(STACK, "packages").is_dir() or not STACK:
    pytest.skip(
        "needs MindSpeed and Megatron-LM: python tools/mindspeed_stack.py FOLDER, then MINDSPEED_STACK=FOLDER",
        allow_module_level=True,
    )

#: Libraries that MindSpeed imports and that an NPU brings.
STUBS = """
import patchcore as pc

STUBS = pc.Patch("mindspeed.stubs", [pc.StubImport("torchair"), pc.StubImport("acl")])

@pc.hookimpl
def register_patches():
    return [STUBS]
"""
#: The tokens of Megatron's mock data go up to 4,095.
TRAINING = """
--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--micro-batch-size 1 --global-batch-size 2 --train-iters 3 --lr 1e-3 --seed 1
--tokenizer-type NullTokenizer --vocab-size 8191 --mock-data --split 100,0,0 --num-workers 0
--transformer-impl local --no-gradient-accumulation-fusion --no-masked-softmax-fusion --no-persist-layer-norm
--no-bias-dropout-fusion --no-bias-swiglu-fusion --no-rope-fusion --attention-dropout 0 --hidden-dropout 0
--log-interval 1 --eval-iters 0 --eval-interval 1000
"""
#: Two ranks with tensor and sequence parallelism, and experts.
PARALLEL = """
--tensor-model-parallel-size 2 --sequence-parallel --num-experts 4 --moe-router-topk 2
--moe-token-dispatcher-type alltoall --use-fused-rmsnorm --use-fused-swiglu --swiglu --normalization RMSNorm
--disable-bias-linear
"""
#: Two ranks with pipeline parallelism, bfloat16 and the NPU's attention.
PIPELINE = "--pipeline-model-parallel-size 2 --bf16 --use-flash-attn"
#: Arguments as in a training on many NPUs: experts, tensor and pipeline parallelism, and the NPU's kernels.
TYPICAL = """
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --num-experts 4
--moe-router-topk 2 --moe-token-dispatcher-type alltoall --moe-permute-fusion --use-flash-attn --use-fused-rmsnorm
--normalization RMSNorm --use-fused-swiglu --swiglu --use-fused-rotary-pos-emb --position-embedding-type rope
--use-distributed-optimizer --bf16 --reuse-fp32-param --recompute-activation-function
"""
#: The real torch_npu where its wheel is installed, else the imitation of it.
IS_REAL = find_spec("torch_npu") is not None
EMULATED = "--emulate-npu=cann" if IS_REAL else "--emulate-npu=imitation"
#: Registrations and targets of all features, and how many features fail: one needs a name that the imitation lacks.
EVERYTHING, FAILED = ((319, 280), 7) if IS_REAL else ((315, 278), 8)
MANAGERS = {
    "patchcore": ("--compat", "mindspeed"),
    "mindspeed": ("--disable", "*"),
    "example": ("--disable", "*", "-p", "adapter", "--enable", "adapter.features"),
}
#: What a launcher sets for the only rank of a job.
ONE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29613"}
LOSS = re.compile(r"lm loss: (\S+) .* grad norm: (\S+)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with Megatron's own program, in which MindSpeed's adaptor is imported, as MindSpeed's page says."""
    (tmp_path / "stubs.py").write_text(STUBS)
    source = Path(STACK, "Megatron-LM", "pretrain_gpt.py").read_text()
    adapted = source.replace("import torch\n", "import torch\nimport mindspeed.megatron_adaptor\n", 1)
    assert adapted != source
    (tmp_path / "pretrain_gpt.py").write_text(adapted)
    return tmp_path


def environment() -> dict[str, str]:
    path = [str(Path(STACK, part)) for part in ("MindSpeed", "Megatron-LM", "packages")]
    example = HERE.parents[1] / "examples" / "mindspeed_adapter"
    limits = {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **limits, "PYTHONPATH": os.pathsep.join([*path, str(example)])}


def run(folder: Path, manager: str, *program: str, ranks: int = 1) -> str:
    env = {**environment(), **(ONE_RANK if ranks == 1 else {})}
    launcher = ["--", "torchrun", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    ours = [EMULATED, *MANAGERS[manager], "-p", "stubs", "--enable", "mindspeed.stubs"]
    return started(folder, env, "run", *ours, *launcher, *program)


def started(folder: Path, env: Mapping[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "patchcore", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout + done.stderr


def facts(folder: Path, manager: str, *arguments: str) -> dict[str, Any]:
    """Return the facts of the second of two runs: it knows which modules to import before the features are applied."""
    for _ in range(2):
        out = run(folder, manager, str(HERE / "mindspeed_probe.py"), "modules.json", *arguments)
    (line,) = [line for line in out.splitlines() if line.startswith("FACTS ")]
    found: dict[str, Any] = json.loads(line.removeprefix("FACTS "))
    return found


def test_each_target_of_the_default_arguments_has_its_feature_and_is_reverted(folder: Path) -> None:
    ours = facts(folder, "patchcore")
    assert (ours["registrations"], len(ours["targets"])) == (91, 90)
    assert [target for target in ours["targets"] if target not in ours["owners"]] == []
    assert {owner.split()[1] for owners in ours["owners"].values() for owner in owners} == {"applied"}
    assert ours["places"] > 100_000
    assert ours["changed"] > 100
    assert ours["left"] == ["megatron.core.utils:_te_version"]  # Megatron's own cache
    tails = {target.rpartition(".")[2] for target in ours["targets"]}
    assert tails.isdisjoint(ours["made"])


@pytest.mark.parametrize(
    ("arguments", "registrations", "targets"),
    [(TYPICAL, 107, 105), ("everything", *EVERYTHING)],
    ids=["typical", "everything"],
)
def test_larger_sets_of_features_have_owners_and_are_reverted(
    folder: Path, arguments: str, registrations: int, targets: int
) -> None:
    ours = facts(folder, "patchcore", *arguments.split())
    assert (ours["registrations"], len(ours["targets"])) == (registrations, targets)
    doubled = (
        "megatron.core.distributed.distributed_data_parallel.DistributedDataParallel.DistributedDataParallel.__init__"
    )
    assert {target for target in ours["targets"] if target not in ours["owners"]} <= {doubled}  # found without one
    assert {owner.split()[1] for owners in ours["owners"].values() for owner in owners} == {"applied"}
    # the feature virtual_optimizer sets these itself, and not through the manager
    by_hand = {"torch:Tensor.detach", "torch:Tensor.npu", "torch:Tensor.npu (code)"}
    assert set(ours["left"]) - by_hand == {"megatron.core.utils:_te_version"}
    if arguments == "everything":
        counts = {"needed": 88, "rivals": 6, "missing": 0, "signatures": 8, "failed": FAILED}
        assert {key: ours[key] for key in counts} == counts


def test_mindspeeds_own_manager_leaves_places_and_makes_names(folder: Path) -> None:
    """The test above can fail."""
    theirs = facts(folder, "mindspeed")
    assert len(theirs["left"]) > 1
    assert len(theirs["made"]) > 50


@pytest.mark.parametrize(("ranks", "arguments"), [(1, ""), (2, PARALLEL), (2, PIPELINE)])
def test_losses_are_those_of_mindspeeds_own_manager(folder: Path, ranks: int, arguments: str) -> None:
    found = {
        manager: LOSS.findall(run(folder, manager, "pretrain_gpt.py", *f"{TRAINING} {arguments}".split(), ranks=ranks))
        for manager in MANAGERS
    }
    assert len(found["patchcore"]) == 3
    assert found["patchcore"] == found["mindspeed"] == found["example"]


def test_the_adopted_plugin_trains_megatron_without_the_adaptor(folder: Path) -> None:
    """The modules that MindSpeed makes are made by the plugin, before Megatron is imported.

    The real torch_npu has a transfer_to_npu, which MindSpeed's adaptor imports: there the program does that itself.
    """
    adopting = ["--only", "mindspeed", "--phase", "after:megatron.training=megatron"]
    source = Path(STACK, "Megatron-LM", "pretrain_gpt.py").read_text()
    patches = ["-p", "stubs", "-p", "ms_npu.plugin"]
    if IS_REAL:
        adopting += ["--phase", "after:torch_npu.contrib.transfer_to_npu=torch"]
        source = source.replace("import torch\n", "import torch\nfrom torch_npu.contrib import transfer_to_npu\n", 1)
        patches = ["--disable", "*", *patches, "--enable", "stubs,ms_npu.plugin"]
    (folder / "plain.py").write_text(source)
    env = {**environment(), **ONE_RANK}
    program = [EMULATED, *MANAGERS["mindspeed"], "-p", "stubs", "--enable", "mindspeed.stubs", "pretrain_gpt.py"]
    printed = started(folder, env, "adopt", "ms-npu", *adopting, "--", *program, *TRAINING.split())
    assert "  ms.modules " in printed
    expected = LOSS.findall(printed)
    assert len(expected) == 3
    env["PYTHONPATH"] += os.pathsep + str(folder / "ms-npu")
    adopted = started(folder, env, "run", EMULATED, *patches, "plain.py", *TRAINING.split())
    assert LOSS.findall(adopted) == expected


def options(command: str) -> list[str]:
    """Return the arguments of a command of the page, for the emulated NPU of this environment."""
    return [EMULATED if each == "--emulate-npu" else each for each in shlex.split(command.replace("\\\n", " "))]


def test_the_plan_of_the_page_is_what_the_command_prints(folder: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^patchcore (plan --emulate-npu .* --dist-train .*)$", text, re.MULTILINE)
    printed = started(folder, environment(), *options(command))
    quoted = [line for line in re.findall(r"^```\n([^\n`]+)\n```$", text, re.MULTILINE) if "Error" not in line]
    assert len(quoted) == 3
    for line in (each for each in quoted if not each.startswith("patchcore:")):
        assert line in printed
    (explain, lines) = re.findall(
        r"^patchcore (plan (?:.|\\\n)* --explain .*)\n```\n\n```\n([^`]*)```$", text, re.MULTILINE
    )[0]
    explained = started(folder, environment(), *options(explain))
    for line in lines.splitlines():
        begin, _, end = re.sub(r"\.\.\.|(MindSpeed|Megatron-LM)/", "*", line).partition("*")
        assert [each for each in explained.splitlines() if each.startswith(begin.rstrip("(")) and each.endswith(end)]
    (summary,) = (each for each in quoted if each.startswith("patchcore:"))
    (folder / "adapt.py").write_text("import mindspeed.megatron_adaptor\n")
    counted = summary.rpartition("; ")[2].partition("...")[0]
    assert counted.replace("emulated NPU", "fake CANN" if IS_REAL else "emulated NPU") in run(
        folder, "patchcore", "adapt.py"
    )
