"""The commands that look: list, plan, explain, check, doctor; and what every command has in common."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from patch_folder import Result

from patchcore import __version__
from patchcore.cli import main

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = ["list", "plan", "explain", "check", "doctor", "run", "bisect", "lock", "outdated"]

SHOP = {
    "shop": "from shop.prices import price\n",
    "shop.prices": """
        def price(item):
            return 10


        class Till:
            def total(self, items):
                return sum(map(price, items))
        """,
    "shop.deals": "from shop.prices import price as usual\nKEPT = [usual]\n",
}
PLUGIN = {
    "shop_npu": "",
    "shop_npu.plugin": '''
        import patchcore as pc


        def fast_price(item):
            """The price, faster."""
            return 11


        PRICE = pc.Patch(
            "shop.price",
            [pc.Replace("shop.prices:price", fast_price)],
            summary="prices from the cash register",
            requires="packaging>=20",
            legacy_names=["price"],
            upstream="https://shop.example/1",
        )


        @pc.wrap("shop.prices:Till.total", name="shop.rounded", after=PRICE, default=False)
        def rounded(original, self, items):
            """Round the total."""
            return round(original(self, items), -1)


        TAX = pc.Patch("shop.tax", [pc.Replace("tax:rate", fast_price)], requires="no-such-package")


        @pc.hookimpl
        def register_patches():
            return [PRICE, rounded, TAX]
        ''',
}


Cli = Callable[..., Result]


@pytest.fixture
def site(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path with the library ``shop`` and the installed plugin ``shop``; settings as nobody made any."""
    folder = make_package({**SHOP, **PLUGIN})
    write_distribution(folder, "shop-npu", "1.2", plugins={"shop": "shop_npu.plugin"})
    for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    return Path(folder)


@pytest.fixture
def cli(site: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command in this process."""

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = int(exit.code or 0)
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def shell(site: Path) -> Callable[[str], Result]:
    """Run a shell command line with ``patchcore`` or ``python`` in it, in processes of its own."""

    def run(line: str, **environment: str) -> Result:
        program = 'python() { "$PYTHON" "$@"; }; patchcore() { python -m patchcore "$@"; }\n'
        path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
        ours = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "", "PYTHON": sys.executable}
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", program + line],
            env={**os.environ, **ours, **environment},
            cwd=site,
            capture_output=True,
            text=True,
            timeout=900,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return run


def add_broken_plugin(site: Path) -> None:
    (site / "broken.py").write_text("def load():\n    raise ImportError('no cash register')\nload()\n")
    write_distribution(site, "broken-dist", "0.3", plugins={"broken": "broken"})


def only(rows: list[dict[str, Any]], **wanted: str) -> dict[str, Any]:
    (row,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


class TestList:
    def test_plain_lines_in_a_pipe(self, cli: Cli) -> None:
        result = cli("list")
        assert (result.code, result.err) == (0, "")
        lines = [re.sub(r"  +", " | ", line) for line in result.lines()]
        assert lines[0] == "Plugins"
        assert "NAME | DISTRIBUTION | PATCHES | ORIGIN" in lines
        assert "shop | shop-npu 1.2 | 3 | shop_npu.plugin" in lines
        assert "shop.price | shop | yes | yes | shop.prices:price" in lines
        assert "shop.rounded | shop | no | yes | shop.prices:Till.total" in lines
        assert "shop.tax | shop | yes | requires no-such-package, no_such_package is not installed | tax:rate" in lines
        assert not re.search(r"[─│┃\x1b]", result.out)

    def test_verbose(self, cli: Cli) -> None:
        lines = cli("list", "-v").lines()
        assert any(line.endswith("prices from the cash register") for line in lines)
        assert "also called price" in lines

    def test_json(self, cli: Cli, site: Path) -> None:
        content = cli("list", "--format", "json").json
        plugin = only(content["plugins"], name="shop")
        assert plugin == {
            "name": "shop",
            "distribution": "shop-npu",
            "version": "1.2",
            "origin": "shop_npu.plugin",
            "file": str(site / "shop_npu" / "plugin.py"),
            "patches": 3,
        }
        assert only(content["patches"], name="shop.price") == {
            "name": "shop.price",
            "summary": "prices from the cash register",
            "plugin": "shop",
            "distribution": "shop-npu",
            "version": "1.2",
            "default": True,
            "fits": True,
            "reason": "",
            "requires": ["packaging>=20"],
            "targets": ["shop.prices:price"],
            "legacy_names": ["price"],
        }
        assert content["problems"] == []

    @pytest.mark.parametrize("command", ["list", "plan"])
    def test_broken_plugin_does_not_hide_the_others(self, cli: Cli, site: Path, command: str) -> None:
        add_broken_plugin(site)
        result = cli(command)
        assert result.code == 0
        assert "patchcore: plugin broken (broken-dist 0.3): load failed: ImportError: no cash register" in result.err
        assert "broken.py" in result.err
        assert "shop.price" in result.out
        content = cli(command, "--format", "json")
        assert only(content.json["problems"], plugin="broken") == {
            "plugin": "broken",
            "distribution": "broken-dist",
            "version": "0.3",
            "where": "load",
            "message": "ImportError: no cash register",
        }
        assert "no cash register" in content.err

    def test_imports_no_target(self, cli: Cli) -> None:
        cli("list")
        cli("plan")
        assert "shop" not in sys.modules

    def test_one_plugin(self, cli: Cli, site: Path) -> None:
        add_broken_plugin(site)
        result = cli("list", "--plugin", "shop", "--format", "json")
        assert [plugin["name"] for plugin in result.json["plugins"]] == ["shop"]
        assert result.err == ""

    def test_local_module(self, cli: Cli, site: Path) -> None:
        (site / "mine.py").write_text(
            "import patchcore as pc\n\n@pc.patch('shop.prices:price')\ndef mine(item): ...\n\n"
            "@pc.hookimpl\ndef register_patches():\n    return [mine]\n"
        )
        path = list(sys.path)
        lines = [re.sub(r"  +", " | ", line) for line in cli("list", "-p", "mine").lines()]
        assert "mine | (local module) | 1 | mine" in lines
        assert "mine.mine | mine | yes | yes | shop.prices:price" in lines
        assert sys.path == path

    def test_nothing_installed(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_PLUGINS", "")
        assert cli("list").out.startswith("no plugins are installed; a plugin is ")
        assert cli("plan").out == "no patches\n"


class TestPlan:
    def test_verdicts_in_order(self, cli: Cli) -> None:
        lines = [re.sub(r"  +", " | ", line) for line in cli("plan", "--plugin", "shop").lines()]
        assert lines == [
            "Plan",
            "# | PATCH | VERDICT | CHANGES OR REASON",
            "1 | shop.price | apply | replace shop.prices:price",
            "2 | shop.rounded | skipped | not in the default set; apply it with --enable shop.rounded",
            "3 | shop.tax | skipped | requires no-such-package, no_such_package is not installed",
        ]

    def test_choices_and_who_made_them(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_DISABLE", "price")
        lines = cli("plan", "--plugin", "shop", "--enable", "shop.rounded,shop.tax").lines()
        assert any("shop.price" in line and "disabled by PATCHCORE_DISABLE (price)" in line for line in lines)
        assert any("shop.rounded" in line and "wrap shop.prices:Till.total" in line for line in lines)
        assert "chosen by --enable" in lines

    def test_json(self, cli: Cli) -> None:
        content = cli("plan", "--plugin", "shop", "--format", "json").json
        assert [(patch["name"], patch["verdict"]) for patch in content["patches"]] == [
            ("shop.price", "apply"),
            ("shop.rounded", "skipped"),
            ("shop.tax", "skipped"),
        ]
        assert content["patches"][0]["changes"] == [{"kind": "replace", "target": "shop.prices:price"}]
        assert content["settings"] == {"plugins": "--plugin"}

    def test_a_name_that_a_plugin_left_out_may_mean_is_a_note(self, cli: Cli, site: Path) -> None:
        write_distribution(site, "other-dist", plugins={"other": "shop_npu"})
        result = cli("plan", "--plugin", "shop", "--disable", "other.patch")
        assert result.code == 0
        assert result.lines()[-1].startswith("note: --disable ")
        assert "other.patch" in result.lines()[-1]


class TestExplain:
    @pytest.mark.parametrize("name", ["shop.price", "price", "shop.prices:price", "shop.prices.price"])
    def test_patch_legacy_name_and_target(self, cli: Cli, site: Path, name: str) -> None:
        result = cli("explain", name)
        assert (result.code, result.err) == (0, "")
        plugin, prices = site / "shop_npu" / "plugin.py", site / "shop" / "prices.py"
        line = plugin.read_text().splitlines().index("def fast_price(item):") + 1
        assert result.out.splitlines() == [
            "shop.price: prices from the cash register",
            f"  from      plugin shop, shop-npu 1.2 ({plugin})",
            "  verdict   apply (decided by default)",
            f"  requires  packaging>=20 (found {version('packaging')})",
            "  upstream  https://shop.example/1",
            "  also      price",
            "",
            "shop.prices:price",
            f"  outermost replace shop_npu.plugin:fast_price ({plugin}:{line})",
            "            by shop.price (plugin shop, shop-npu 1.2)",
            f"  original  shop.prices:price ({prices}:2)",
            "  shop.price: applied",
            "    drift       not recorded: plugin shop, shop-npu 1.2 carries no fingerprints",
            "    --- original",
            "    +++ replacement",
            "    @@ -1,2 +1,3 @@",
            "    -def price(item):",
            "    -    return 10",
            "    +def fast_price(item):",
            '    +    """The price, faster."""',
            "    +    return 11",
        ]

    def test_everything_is_reverted(self, cli: Cli) -> None:
        import shop
        import shop.deals

        before = {name: dict(vars(module)) for name, module in sys.modules.items() if name.startswith("shop")}
        assert cli("explain", "shop.price").code == 0
        for name, content in before.items():
            assert dict(vars(sys.modules[name])) == content
        assert shop.price("") == shop.deals.usual("") == 10

    def test_references_to_the_original(self, cli: Cli) -> None:
        __import__("shop.deals")
        lines = cli("explain", "price", "--no-diff").lines()
        assert "rebound     shop:price" in lines
        assert "rebound     shop.deals:usual" in lines
        assert any(line.startswith("unreachable list shop.deals:KEPT") for line in lines)
        assert "+++ replacement" not in lines

    def test_a_name_that_took_the_target_by_value(self, cli: Cli) -> None:
        lines = cli("explain", "shop:price", "--no-diff").lines()
        assert "follows   shop.prices:price" in lines
        assert "by shop.price (plugin shop, shop-npu 1.2)" in lines

    def test_layers(self, cli: Cli, site: Path) -> None:
        (site / "more.py").write_text(
            "import patchcore as pc\n\n@pc.wrap('shop.prices:price', name='more.twice', after='shop.price')\n"
            "def twice(original, item):\n    return 2 * original(item)\n\n"
            "@pc.hookimpl\ndef register_patches():\n    return [twice]\n"
        )
        result = cli("explain", "-p", "more", "shop.prices:price", "--format", "json")
        content = result.json
        assert [patch["name"] for patch in content["patches"]] == ["shop.price", "more.twice"]
        (target,) = content["targets"]
        assert [(layer["patch"], layer["what"]) for layer in target["layers"]] == [
            ("more.twice", "wrap"),
            ("shop.price", "replace"),
        ]
        assert target["layers"][0]["diff"] == ""
        assert "-    return 10" in target["layers"][1]["diff"]
        assert [change["status"] for change in target["changes"]] == ["applied", "applied"]

    def test_one_target_of_several(self, cli: Cli, site: Path) -> None:
        (site / "both.py").write_text(
            "import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n    return [pc.Patch('both.both', "
            "[pc.Replace('shop.prices:price', len), pc.Replace('shop.prices:Till.total', len)])]\n"
        )
        content = cli("explain", "-p", "both", "--disable", "shop", "shop.prices:Till.total", "--format", "json").json
        assert [target["target"] for target in content["targets"]] == ["shop.prices:Till.total"]
        assert {patch["name"] for patch in content["patches"]} == {"shop.rounded", "both.both"}

    def test_plugin_and_class(self, cli: Cli) -> None:
        targets = [target["target"] for target in cli("explain", "shop", "--format", "json").json["targets"]]
        assert targets == ["shop.prices:price", "shop.prices:Till.total", "tax:rate"]
        content = cli("explain", "shop.prices:Till", "--format", "json").json
        assert [target["target"] for target in content["targets"]] == ["shop.prices:Till.total"]

    def test_a_patch_that_is_not_applied(self, cli: Cli) -> None:
        lines = cli("explain", "shop.tax").lines()
        reason = "requires no-such-package, no_such_package is not installed"
        assert f"verdict   skipped: {reason} (decided by default)" in lines
        assert "cannot be looked at: ModuleNotFoundError: No module named 'tax'" in lines
        assert f"shop.tax: skipped ({reason})" in lines

    def test_a_target_that_nobody_patches(self, cli: Cli, site: Path) -> None:
        result = cli("explain", "shop.prices:Till.total", "--disable", "shop.rounded")
        assert result.code == 0
        lines = cli("explain", "shop.prices:Till.__init__").lines()
        assert lines == ["shop.prices:Till.__init__", "original  builtins:object.__init__"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("shop.prize", "did you mean 'shop.price'?"),
            ("shop.prices:prise", "shop.prices has no prise (target shop.prices:prise); did you mean 'price'?"),
            ("nosuch.module:price", "nothing is called 'nosuch.module:price'"),
            ("pric", "did you mean 'price'?"),
        ],
    )
    def test_unknown_name(self, cli: Cli, name: str, message: str) -> None:
        result = cli("explain", name)
        assert (result.code, result.out) == (2, "")
        assert message in result.err

    def test_wrapped_class_and_descriptors(self, cli: Cli) -> None:
        content = cli("explain", "shop.rounded", "--enable", "shop.rounded", "--format", "json").json
        (layer,) = content["targets"][0]["layers"]
        assert (layer["patch"], layer["what"]) == ("shop.rounded", "wrap")
        assert "shop_npu.plugin:rounded" in layer["place"]
        assert content["patches"][0]["chosen_by"] == "--enable"


class TestCheck:
    def test_nothing_wrong(self, cli: Cli) -> None:
        assert cli("check", "--plugin", "shop") == Result(0, "no findings\n", "")
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
            ("pc.Patch('m.p', [pc.Replace('shop.prices:prize', len)])", None),
            ("pc.Patch('m.p', [pc.Replace('shop.prices:price', len)])", "conflict shop.price"),
            ("pc.Patch('m.p', [], requires='nosuch', required=True)", "required m.p requires nosuch, nosuch is not"),
            ("pc.Patch('m.p', [], when=lambda: 1 / 0)", "failed m.p its when condition raised ZeroDivisionError"),
        ],
    )
    def test_findings_of_the_plan(self, cli: Cli, site: Path, source: str, finding: str | None) -> None:
        result = self.check(cli, site, source)
        if finding is None:
            assert result == Result(0, "no findings\n", "")
        else:
            assert result.code == 1
            assert any(re.sub(" +", " ", line).startswith(finding) for line in result.lines())

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


class TestDoctor:
    def test_facts(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_ON_FAILURE", "ignore")
        monkeypatch.setenv("RANK", "2")
        result = cli("doctor", "--plugin", "shop", "--disable", "price", "--format", "json")
        assert result.code == 0
        facts = {(fact["topic"], fact["name"]): fact["value"] for fact in result.json["facts"]}
        assert facts["interpreter", "patchcore"] == __version__
        assert facts["interpreter", "rank"] == "2 (from RANK)"
        assert facts["plugin", "shop"].startswith("shop-npu 1.2: 2 of 3 patches fit here (")
        assert facts["library", "tax"] == "not installed"
        assert facts["library", "shop"] == "found, version unknown"
        assert facts["setting", "on_failure"] == "ignore (from PATCHCORE_ON_FAILURE)"
        assert facts["setting", "disable"] == "price (from --disable)"
        assert result.json["findings"] == result.json["stale_references"] == []

    def test_needed_modules(self, cli: Cli, site: Path) -> None:
        (site / "n.py").write_text(
            "import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n"
            "    return [pc.Patch('n.p', [], needs=['nosuch_kernels', 'shop', 'shop.prices', 'json'])]\n"
        )
        result = cli("doctor", "--plugin", "shop", "-p", "n", "--format", "json")
        facts = {fact["name"]: fact["value"] for fact in result.json["facts"] if fact["topic"] == "needed"}
        assert facts["nosuch_kernels"] == "neither installed nor emulated: patches that need it are skipped"
        assert facts["shop"] == f"found at {site / 'shop' / '__init__.py'}"
        assert facts["shop.prices"] == "found"
        assert facts["json"].startswith("imported from ")
        assert "shop" not in sys.modules

    def test_findings_and_stale_references(self, cli: Cli, site: Path) -> None:
        add_broken_plugin(site)
        __import__("shop.deals")
        result = cli("doctor", "--apply")
        assert result.code == 1
        lines = [re.sub(r"  +", " | ", line) for line in result.lines()]
        assert "Stale references: still the original while the patch is applied" in lines
        assert any(line.startswith("shop.price | shop.prices:price | list shop.deals:KEPT") for line in lines)
        assert "plugin | broken | load: ImportError: no cash register" in lines

    def test_table(self, cli: Cli) -> None:
        lines = [re.sub(r"  +", " | ", line) for line in cli("doctor", "--plugin", "shop").lines()]
        assert lines[:2] == ["Environment", "TOPIC | NAME | VALUE"]
        assert lines[-1] == "no findings"


class TestEveryCommand:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_help(self, cli: Cli, command: str) -> None:
        result = cli(command, "--help")
        assert (result.code, result.err) == (0, "")
        assert f"usage: patchcore {command} " in result.out
        assert "`" not in result.out
        assert "--plugin NAME" in result.out

    def test_overall_help_and_version(self, cli: Cli) -> None:
        out = cli("--help").out
        assert [command for command in COMMANDS if re.search(rf"^ +{command} +\w", out, flags=re.MULTILINE)] == COMMANDS
        assert "exit codes: 0 ok, 1 findings, 2 usage, 3 internal error, 130 interrupted" in out
        assert cli("--version").out == f"patchcore {__version__}\n"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "the following arguments are required: COMMAND"),
            (["lst"], "patchcore: no command 'lst'; did you mean 'list'? See patchcore --help"),
            (["frobnicate"], "patchcore: no command 'frobnicate'. See patchcore --help"),
            (["list", "--nosuch"], "unrecognized arguments: --nosuch"),
            (["explain"], "the following arguments are required: TARGET|PATCH"),
            (["list", "--format", "xml"], "invalid choice: 'xml'"),
            (["plan", "--disable", "shop.prize"], "did you mean 'shop.price'?"),
            (["plan", "--enable", "shop.roundet"], "did you mean 'shop.rounded'?"),
            (["list", "--plugin", "shp"], "; did you mean 'shop'?"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_usage_errors(self, cli: Cli, arguments: list[str], message: str) -> None:
        result = cli(*arguments)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
        assert "Traceback" not in result.err

    def test_settings_errors(self, cli: Cli, site: Path) -> None:
        (site / "pyproject.toml").write_text('[tool.patchcore]\ndisble = ["price"]\n')
        result = cli("plan")
        assert result.code == 2
        assert "unknown setting 'disble'; did you mean 'disable'?" in result.err
        assert "pyproject.toml" in result.err
        helped = cli("--help")
        assert (helped.code, helped.err) == (0, result.err)

    def test_command_line_over_environment_over_pyproject(
        self, cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def chosen_by(*arguments: str) -> tuple[str, str]:
            patches = cli("plan", "--format", "json", *arguments).json["patches"]
            patch = only(patches, name="shop.price")
            return patch["verdict"], (patch["chosen_by"] or "default").rpartition("/")[2]

        assert chosen_by() == ("apply", "default")
        (site / "pyproject.toml").write_text('[tool.patchcore]\ndisable = ["price"]\n')
        assert chosen_by() == ("skipped", "pyproject.toml [tool.patchcore]")
        monkeypatch.setenv("PATCHCORE_ENABLE", "shop.price")
        assert chosen_by() == ("apply", "PATCHCORE_ENABLE")
        assert chosen_by("--disable", "shop") == ("skipped", "--disable")

    def test_internal_error(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("patchcore.cli.options.Patcher.discover", lambda **_: 1 / 0)
        result = cli("list")
        assert result.code == 3
        assert "ZeroDivisionError" in result.err
        assert result.err.endswith("this is a bug in patchcore or in a plugin's command; please report it\n")

    def test_keyboard_interrupt(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(**_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("patchcore.cli.options.Patcher.discover", interrupt)
        assert cli("list") == Result(130, "", "")

    def test_failure_under_the_policy_raise(self, cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        add_broken_plugin(site)
        monkeypatch.setenv("PATCHCORE_ON_FAILURE", "raise")
        result = cli("explain", "price")
        assert result.code == 1
        assert "patchcore: plugin broken (broken-dist 0.3): load failed" in result.err


class TestTerminal:
    COLOUR = r"\x1b\[[\d;]*\b3\d"

    def test_reader_that_goes_away(self, shell: Callable[..., Result], site: Path) -> None:
        assert shell("patchcore list | head -1") == Result(0, "Plugins\n", "")
        assert shell("patchcore list | true") == Result(0, "", "")  # gone before anything is printed
        # more than a pipe holds, so that it is printing that fails and not the flush at the end
        (site / "endless.py").write_text(
            "import sys\nfrom patchcore.builtin.list import command as list_\nfrom patchcore.cli import main\n"
            "list_.print_table = lambda *_: print('x' * 1_000_000)\nsys.exit(main(['list']))\n"
        )
        assert shell("python endless.py | head -c 1") == Result(0, "x", "")

    def test_json_goes_to_stdout_and_diagnostics_to_stderr(self, shell: Callable[..., Result], site: Path) -> None:
        add_broken_plugin(site)
        result = shell("patchcore list --format json")
        assert only(result.json["plugins"], name="shop")
        assert "no cash register" in result.err

    @pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
    @pytest.mark.parametrize("command", ["list", "plan", "doctor"])
    def test_tables_on_a_terminal(self, site: Path, command: str) -> None:
        shown = self.on_a_terminal(site, command, TERM="xterm-256color")
        assert shown.startswith("\x1b[1m")
        assert bool(re.search(self.COLOUR, shown)) == (command != "doctor")

    @pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
    def test_a_terminal_without_colours(self, site: Path) -> None:
        assert not re.search(self.COLOUR, self.on_a_terminal(site, "plan", TERM="xterm-256color", NO_COLOR="1"))
        assert "\x1b" not in self.on_a_terminal(site, "plan", TERM="dumb")

    def on_a_terminal(self, site: Path, *arguments: str, **environment: str) -> str:
        import pty

        path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
        unwanted = ("NO_COLOR", "FORCE_COLOR")
        inherited = {key: value for key, value in os.environ.items() if key not in unwanted}
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "patchcore", *arguments],
            env={**inherited, "COLUMNS": "150", "PYTHONPATH": path, **environment},
            cwd=site,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            shown = b""
            while True:
                try:
                    chunk = os.read(ours, 65536)
                except OSError:  # Linux says so when the other side is closed
                    break
                if not chunk:
                    break
                shown += chunk
            assert process.wait(timeout=900) == 0
        os.close(ours)
        return shown.decode()


COMMAND_PLUGIN = """
import patchcore as pc

def greet(options):
    print("hello", options.who)
    return options.code

@pc.hookimpl
def register_commands(subparsers):
    parser = subparsers.add_parser("greet", help="say hello")
    parser.add_argument("who")
    parser.add_argument("--code", type=int)
    parser.set_defaults(command=greet)
"""


class TestPluginCommands:
    @pytest.fixture(autouse=True)
    def greeting(self, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN)
        write_distribution(site, "greeting-dist", plugins={"greeting": "greeting"})
        sys.modules.pop("greeting", None)

    def test_command(self, cli: Cli) -> None:
        assert cli("greet", "world") == Result(0, "hello world\n", "")
        assert cli("greet", "world", "--code", "7").code == 7
        assert re.search(r"greet +say hello", cli("--help").out)
        assert "usage: patchcore greet" in cli("greet", "--help").out
        assert "did you mean 'greet'?" in cli("gret").err

    def test_is_not_loaded_for_the_others(self, cli: Cli, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN + "\nraise ValueError('loaded')\n")
        assert cli("check", "--plugin", "shop").err == ""

    def test_a_plugin_that_fails_to_add_its_command(self, cli: Cli, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN.replace('add_parser("greet"', "add_parser(1 / 0"))
        result = cli("--help")
        assert result.code == 0
        assert "plugin greeting (greeting-dist 1.0): register_commands failed: ZeroDivisionError" in result.err

    def test_a_command_that_fails(self, cli: Cli, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN.replace("print(", "1 / 0, print("))
        result = cli("greet", "world")
        assert result.code == 3
        assert "ZeroDivisionError" in result.err
        assert "a plugin's command" in result.err
