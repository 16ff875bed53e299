"""audit: the patches that transformers makes in every process are shown in one line: they are in its sources."""

from __future__ import annotations

from pathlib import Path

import transformers

from transformers_npu.plugin import known_foreign_patches


def test_known_patches_are_in_the_sources() -> None:
    root = Path(transformers.__file__).parents[1]
    texts = {target: (by, (root / file).read_text(encoding="utf-8")) for by, target, file in known_foreign_patches()}
    by, logging = texts["logging:Logger.*"]
    assert by == "transformers"
    assert "logging.Logger.warning_once = warning_once" in logging
    by, modeling = texts["torch.nn.modules.module:Module.smart_apply"]
    assert 'hasattr(torch.nn.Module, "smart_apply")' in modeling
