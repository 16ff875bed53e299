"""The names of mx_driving.patcher 1.0 and 2.0 mean the patches here, for ``--disable``, settings and ``explain``."""

from __future__ import annotations

from typing import Any

import own_patches
import pytest
from distributions import write_distribution
from shop_commands import Cli, cli, site  # noqa: F401

import patchcore as pc
from mx_driving_compat import plugin
from mx_driving_compat.predefined.table import TABLE, Entry
from patchcore import plugins
from patchcore.planning.candidates import select_patches

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them

for module in own_patches.plugin_modules():
    pytest.importorskip(module, reason="needs the plugins of this repository")

#: Classes that do what two patches do here.
MORE = {
    "DDP": ("mmcv.ddp", "mmcv.ddp_forward"),
    "NuScenes": ("mmdet3d.nuscenes_dataset", "mmdet3d.nuscenes_metric"),
}
PROVIDED = [entry for entry in TABLE if entry.distribution and not entry.part_of]


@pytest.mark.parametrize("entry", PROVIDED, ids=lambda entry: entry.class_name)
def test_each_name_means_the_patches_of_a_plugin(entry: Entry) -> None:
    candidates = own_patches.collect()
    for name in filter(None, (entry.class_name, *entry.aliases, entry.name, entry.function)):
        found = tuple(candidate.patch.name for candidate in select_patches(name, candidates))
        assert found == MORE.get(name, entry.patches), name


class TestAdvice:
    def test_a_distribution_that_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plugin, "version_of", lambda name: None)
        place = "DeformConv of mx_driving.patcher is mmcv.deform_conv of mmcv-npu-patches"
        assert plugin.advise("DeformConv", "patch") == f"{place}: {pc.install_command('mmcv-npu-patches')}"

    def test_a_plugin_that_is_not_loaded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plugin, "version_of", lambda name: "0.1.0")
        assert "mmcv-npu-patches, whose plugin is not loaded (see --plugin" in str(plugin.advise("dc", "patch"))

    def test_other_names_and_commands_are_left_to_other_plugins(self) -> None:
        assert plugin.advise("DeformKonv", "patch") is None
        assert plugin.advise("DeformConv", "") is None


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [(("explain", "DeformConv"), ""), (("list", "--disable", "DeformConv"), "--disable: ")],
)
def test_commands_say_which_patch_a_name_is(
    cli: Cli, site: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], beginning: str
) -> None:
    write_distribution(site, "mx-driving-compat", plugins={"mx_driving": "mx_driving_compat.plugin"})
    monkeypatch.setattr(plugin, "version_of", lambda name: None)
    found = [item for item in plugins.installed_plugins() if item[0].plugin in ("shop", "mx_driving")]
    # the other distributions of this project are here
    looked_for = {plugins.PATCHES: found, plugins.SUPPORT: []}
    monkeypatch.setattr(
        plugins, "_look_for_plugins", lambda: looked_for
    )  # the other distributions of this project are here
    result = cli(*arguments)
    expected = f"{beginning}no patch, legacy name, plugin or target is called 'DeformConv'; "
    assert (result.code, result.err) == (2, f"patchcore: {expected}{plugin.advise('DeformConv', 'patch')}\n")
