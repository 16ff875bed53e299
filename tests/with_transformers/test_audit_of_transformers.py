"""audit: the patches that transformers makes in every process are shown in one line: they are in its sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import running
import transformers
from comparing_models import RELEASE
from test_programs import ENVIRONMENT, PROGRAMS

import transformers_npu
from transformers_npu.plugin import known_foreign_patches

SMART_APPLY = "torch.nn.modules.module:Module.smart_apply"
HAS_SMART_APPLY = RELEASE >= (4, 52)
STOCK = """
import torch
import transformers.trainer
from transformers import LlamaConfig, LlamaForCausalLM

sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=16, num_hidden_layers=1, **sizes))
model(input_ids=torch.ones(1, 3, dtype=torch.long)).logits.sum().backward()
"""


def test_known_patches_are_in_the_sources() -> None:
    root = Path(transformers.__file__).parents[1]
    texts = {target: (by, (root / file).read_text(encoding="utf-8")) for by, target, file in known_foreign_patches()}
    by, logging = texts["logging:Logger.*"]
    assert by == "transformers"
    assert "logging.Logger.warning_once = warning_once" in logging
    by, modeling = texts[SMART_APPLY]
    assert ('hasattr(torch.nn.Module, "smart_apply")' in modeling) == HAS_SMART_APPLY


def test_a_stock_process_has_only_well_known_patches(tmp_path: Path) -> None:
    program = tmp_path / "stock.py"
    program.write_text(STOCK, encoding="utf-8")
    installed = any(entry.value == "transformers_npu.plugin" for entry in entry_points(group="npu_patches"))
    options = (*(() if installed else ("-p", "transformers_npu.plugin")), "--format", "json", "--disable", "*")
    done = subprocess.run(
        [sys.executable, "-m", "patchcore", "audit", *options, "--", PROGRAMS / "without_torch_npu.py", program],
        env={**running.without_npu(), **ENVIRONMENT, "PYTHONPATH": path_with_plugin()},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    (process,) = json.loads(done.stdout)["processes"]
    assert process["incomplete"] == []
    found = {row["target"]: row for row in process["findings"] if row["by"] != "patchcore"}
    assert [(row["target"], row["by"], row["written at"]) for row in found.values() if not row["known"]] == []
    assert {"logging:Logger.warning_once", *[SMART_APPLY] * HAS_SMART_APPLY} <= found.keys()


def path_with_plugin() -> str:
    """Return PYTHONPATH with the folder of the plugin, which need not be installed."""
    folder = Path(transformers_npu.__file__).parents[1]
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
