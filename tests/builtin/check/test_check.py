"""``patchcore check``: findings of the plan, and of applying it."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from patch_folder import Result
from shop_commands import Cli, add_broken_plugin, cli, only, site  # noqa: F401


class TestCheck:
    def test_nothing_wrong(self, cli: Cli) -> None:
        result = cli("check", "--plugin", "shop")
        assert (result.code, result.lines()[0], result.err) == (0, "no findings", "")
        assert cli("check", "--plugin", "shop", "--apply").code == 0
        assert cli("check", "--plugin", "shop", "--format", "json").json["findings"] == []

    def test_broken_plugin(self, cli: Cli, site: Path) -> None:
        add_broken_plugin(site)
        result = cli("check", "--format", "json")
        assert result.code == 1
        finding = only(result.json["findings"], kind="plugin")
        assert finding == {"kind": "plugin", "subject": "broken", "message": "load: ImportError: no cash register"}

    @pytest.mark.parametrize(
        ("source", "finding"),
        [
            ("pc.Patch('m.p', [pc.Replace('shop.prices:prize', len)])", "target m.p shop.prices has no prize"),
            ("pc.Patch('m.p', [pc.Replace('shop.nosuch:f', len)])", "target m.p there is no module shop.nosuch"),
            ("pc.Patch('m.p', [pc.Replace('json:nosuch', len, create=True)])", None),
            ("pc.Patch('m.p', [pc.ReplaceImport('fast', with_='shop'), pc.Replace('fast.prices:nosuch', len)])", None),
            (
                "pc.Patch('m.p', pc.ReplaceImport('json', with_='shop')), "
                "pc.Patch('m.q', pc.Replace('json:nosuch', len), after='m.p')",
                None,
            ),
            ("pc.Patch('m.p', [pc.Replace('shop.prices:price', len)])", "conflict shop.price"),
            (
                "pc.Patch('m.p', [pc.Replace('shop.prices:price', len)], after='shop.price')",
                "covered shop.price shop.prices:price is covered by m.p: it is called only",
            ),
            ("pc.Patch('m.p', [], requires='nosuch', required=True)", "required m.p requires nosuch, nosuch is not"),
            ("pc.Patch('m.p', [], when=lambda: 1 / 0)", "failed m.p its when condition raised ZeroDivisionError"),
        ],
    )
    def test_findings_of_the_plan(self, cli: Cli, site: Path, source: str, finding: str | None) -> None:
        result = self.check(cli, site, source)
        if finding is None:
            assert (result.code, result.lines()[0], result.err) == (0, "no findings", "")
        else:
            assert result.code == 1
            assert any(re.sub(" +", " ", line).startswith(finding) for line in result.lines())

    @pytest.mark.parametrize("argument", ["after", "before", "conflicts", "needs_patches"])
    def test_a_misspelt_name_of_another_patch(self, cli: Cli, site: Path, argument: str) -> None:
        names = (
            "'*', 'other.plugin', 'shop.price', 'shop.prise'"
            if argument in ("after", "before")
            else "'other.it', 'shop.prise'"
        )
        source = f"pc.Patch('m.p', {argument}=[{names}])"
        (site / "m.py").write_text(
            f"import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n    return [{source}]\n"
        )
        found = [f for f in cli("check", "-p", "m", "--format", "json").json["findings"] if f["kind"] == "name"]
        message = f"{argument}='shop.prise' in plugin m: no patch has this name; did you mean 'shop.price'?"
        assert found == [{"kind": "name", "subject": "m.p", "message": message}]

    @pytest.mark.parametrize("command", ["check", "doctor"])
    def test_patches_that_their_plugin_does_not_return(self, cli: Cli, site: Path, command: str) -> None:
        (site / "m.py").write_text("import patchcore as pc\n\nP = pc.Patch('m.p', [pc.Replace('json:nosuch', len)])\n")
        result = cli(command, "--plugin", "shop", "-p", "m", "--format", "json")
        finding = only(result.json["findings"], kind="plugin")
        assert (result.code, finding["subject"]) == (1, "m")
        assert finding["message"].startswith(
            "register_patches: m has 1 patch (P), but no register_patches; write: @patchcore.hookimpl"
        )

    @pytest.mark.parametrize(
        ("source", "finding"),
        [
            ("pc.Patch('m.p', [pc.Replace('shop.prices:prize', len)])", "failed m.p shop.prices has no prize"),
            ("pc.Patch('m.p', [pc.Replace('shop.nosuch:f', len)])", "import shop.nosuch ModuleNotFoundError"),
            ("pc.Patch('m.p', [pc.Replace('shop.nosuch:f', len)], required=True)", "failed m.p shop has no module"),
            ("pc.Patch('m.p', [pc.Replace('json:nosuch', len)], required=True)", "failed apply patch m.p (plugin m)"),
            ("pc.Patch('m.p', [pc.Replace('shop.prices:Till', 'nosuch:f')])", "failed m.p ModuleNotFoundError"),
        ],
    )
    def test_apply_finds_what_is_missing(self, cli: Cli, site: Path, source: str, finding: str) -> None:
        result = self.check(cli, site, source, "--apply")
        assert result.code == 1
        assert any(re.sub(" +", " ", line).startswith(finding) for line in result.lines()), result.out
        assert cli("check", "--plugin", "shop", "--apply").code == 0

    def check(self, cli: Cli, site: Path, source: str, *arguments: str) -> Result:
        (site / "m.py").write_text(
            f"import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n    return [{source}]\n"
        )
        result = cli("check", "--plugin", "shop", "-p", "m", *arguments)
        sys.modules.pop("m", None)
        return result


class TestSettings:
    def test_every_variant_is_checked(self, cli: Cli, site: Path) -> None:
        (site / "pyproject.toml").write_text(
            '[tool.patchcore.variants.good]\ndisable = ["shop.price"]\n'
            '[tool.patchcore.variants.unknown]\ndisble = ["shop.price"]\n'
            '[tool.patchcore.variants.nobody]\ndisable = ["shop.prize"]\n'
        )
        result = cli("check", "--format", "json")
        assert result.code == 1
        found = {f["subject"]: f["message"] for f in result.json["findings"] if f["kind"] == "setting"}
        assert sorted(found) == ["variant nobody", "variant unknown"]
        assert "unknown setting 'disble'; did you mean 'disable'?" in found["variant unknown"]
        assert "did you mean 'shop.price'?" in found["variant nobody"]

    def test_the_version_of_a_library_that_no_patch_changes(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_LIBRARY_VERSIONS", "shap=1.0, shop=1.0")
        found = [f for f in cli("check", "--format", "json").json["findings"] if f["kind"] == "setting"]
        message = "no patch changes or requires 'shap'; did you mean 'shop'?"
        assert found == [{"kind": "setting", "subject": "library_versions", "message": message}]

    def test_a_misspelt_variable(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_DISBLE", "shop.price")
        monkeypatch.setenv("PATCHCORE_GRAPH_CHECK", "1")  # of a plugin, which reads it itself
        found = [f for f in cli("check", "--format", "json").json["findings"] if f["kind"] == "setting"]
        message = "patchcore has no such variable; did you mean 'PATCHCORE_DISABLE'?"
        assert found == [{"kind": "setting", "subject": "PATCHCORE_DISBLE", "message": message}]


def test_explain_and_list_name_the_patches_that_a_patch_needs(cli: Cli, site: Path) -> None:
    source = "pc.Patch('m.p', pc.Replace('shop.prices:vat', len), needs_patches='shop.prise')"
    (site / "m.py").write_text(
        f"import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n    return [{source}]\n"
    )
    explained = cli("explain", "-p", "m", "m.p").out
    reason = "needs patch 'shop.prise', which no plugin here contributes; did you mean 'shop.price'?"
    assert re.search(r"needs +patch shop\.prise\n", explained)
    assert f"skipped: {reason}" in " ".join(explained.split())
    (listed,) = (p for p in cli("list", "-p", "m", "--format", "json").json["patches"] if p["name"] == "m.p")
    assert (listed["requires"], listed["reason"]) == (["patch shop.prise"], reason)
