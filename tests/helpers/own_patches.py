"""Every patch of every plugin in this repository, as each combination of options makes them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import patchcore as pc
from patchcore.planning.candidates import Candidate
from patchcore.planning.conditions import APPLY, Environment, Verdict
from patchcore.planning.plan import Plan, make_plan
from patchcore.plugins import Plugins
from patchcore.settings import Choice, LocalModule, Settings

ROOT = Path(__file__).resolve().parents[2]

#: Pairs of patches that exclude each other on purpose, by ``conflicts=``: both write the same function, each whole.
EXCLUSIVE = frozenset([frozenset(["mmdet.resnet_fp16", "mmdet.resnet_maxpool"])])

#: What users can ask for on top of patches, each of which brings or changes some.
REQUESTS: dict[str, dict[str, Any]] = {
    "profiling": {"profiling": {"path": "records"}},
    "brake": {"brake": 30},
    "step": {"step": ("torch.optim:AdamW.step",)},
    "markers": {"options": {"torch.markers": {"backend": "trace", "level": "all"}}},
    "format": {"options": {"torch.internal_format": {"allow": True}}},
}


def plugin_modules() -> list[str]:
    """Return the modules that the distributions in ``plugins/`` name as their entry points."""
    found = []
    for project in sorted((ROOT / "plugins").glob("*/pyproject.toml")):
        _, _, section = project.read_text(encoding="utf-8").partition("[project.entry-points.npu_patches]\n")
        found += re.findall(r'^\w+ = "([\w.]+)"$', section.partition("\n[")[0], re.MULTILINE)
    return found


def collect(requests: Sequence[str] = ()) -> list[Candidate]:
    """Return every patch with its plugin, under some of :data:`REQUESTS`."""
    asked: dict[str, Any] = {}
    for request in requests:
        for key, value in REQUESTS[request].items():
            asked[key] = {**asked[key], **value} if key == "options" and key in asked else value
    plugins = Plugins(discover=False, modules=[LocalModule(name) for name in plugin_modules()])
    patcher = pc.Patcher(plugins=plugins, settings=Settings.of(asked, origin="the test"))
    found = patcher.collect()
    assert not plugins.problems, plugins.problems
    return found


def combinations_of_requests() -> list[tuple[str, ...]]:
    """Return every combination of :data:`REQUESTS`."""
    sizes = range(len(REQUESTS) + 1)
    return list(itertools.chain.from_iterable(itertools.combinations(REQUESTS, size) for size in sizes))


class Everything(Environment):
    """An environment in which every patch fits."""

    def judge(self, patch: pc.Patch) -> Verdict:
        return Verdict(APPLY)


def plan(candidates: Sequence[Candidate], environment: Environment) -> Plan:
    """Plan the patches as if every one were asked for and did fit."""
    choices = [Choice(True, candidate.patch.name, "the test") for candidate in candidates]
    return make_plan(candidates, choices, environment)
