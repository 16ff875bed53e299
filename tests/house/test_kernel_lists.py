"""What migrate says of mmcv's operators on NPUs is what the emulator has of them."""

from __future__ import annotations

import pytest

rules = pytest.importorskip("npu_migrate.migrate.rules")
builds = pytest.importorskip("npu_emulator.mmcv_operators.builds")


def test_migrate_and_the_emulator_know_the_same_kernels_of_each_release() -> None:
    prefix = "mmcv._ext."
    of_rule = {
        rule.id: {name[len(prefix) :] for name in rule.match if name.startswith(prefix)}
        for rule in rules.built_in_rules()
        if rule.id.startswith("kernel.mmcv")
    }
    of_release = {build.version: build.operators for build in builds.BUILDS}
    assert of_rule["kernel.mmcv"] == of_release["1.7.2"]
    assert of_rule["kernel.mmcv-2.1"] == of_release["2.1.0"] - of_release["1.7.2"]
    later = of_rule["kernel.mmcv-2.2"] | of_rule["kernel.mmcv-attention"]
    assert later == of_release["2.2.0"] - of_release["2.1.0"]
