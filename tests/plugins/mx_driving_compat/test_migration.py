"""The reader of patch.py files for mx_driving.patcher, which never runs them."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

if sys.version_info >= (3, 11):
    import tomllib as tomli
else:
    import tomli

from mx_driving_compat.reading.declarations import Code, Construction, Migration, PatchDeclaration, Remark
from mx_driving_compat.reading.migration import read_migration
from mx_driving_compat.reading.output.modules import plugin_module
from mx_driving_compat.reading.program.dotted import split_target
from mx_driving_compat.reading.program.source import Unknown
from patchcore.builtin.new.names import PluginNames
from patchcore.errors import SettingsError

NAMES = PluginNames.derive("shop-npu")

Migrate = Callable[[str], Migration]


@pytest.fixture
def migrate(tmp_path: Path) -> Migrate:
    """Read a patch.py with this text; names of the API are imported as those files do."""

    def read(text: str) -> Migration:
        head = "import mx_driving\nfrom mx_driving.patcher import *\nraise SystemExit('this file was run')\n"
        names = "Patcher, Patch, AtomicPatch, RegistryPatch, LegacyPatch, PatcherBuilder, mmcv_version, check_version"
        head = head.replace("*", names)
        path = tmp_path / "patch.py"
        path.write_text(head + textwrap.dedent(text), encoding="utf-8")
        return read_migration(path, NAMES)

    return read


def in_class(listed: str, *, body: str = "") -> str:
    """A patch class with these patches, and functions to put in places."""
    return f'''
class Till(Patch):
    """The till.

    It counts.
    """
    name = "shop_till"
    {body}

    @classmethod
    def patches(cls, options=None):
        return [{listed}]

    @staticmethod
    def _total(self): ...

    @staticmethod
    def _check(self): ...

    def _plain(self): ...

    class Inner: ...

def configure(patcher):
    patcher.add(Till)
'''


def only(migration: Migration) -> PatchDeclaration:
    (patch,) = migration.patches
    return patch


def change(migration: Migration) -> Construction:
    (found,) = only(migration).changes
    assert isinstance(found, Construction), found
    return found


def left(migration: Migration) -> list[str]:
    return [f"{remark.what}: {remark.advice}" for remark in migration.left]


class TestPatchClasses:
    def test_a_class_becomes_a_patch(self, migrate: Migrate) -> None:
        patch = only(migrate(in_class("AtomicPatch('shop.tills.count', cls._total)")))
        assert (patch.name, patch.keywords) == ("shop_till", {"summary": "The till."})
        assert patch.changes == (Construction("Replace", ("shop.tills:count", "shop_npu.replacements:Till._total")),)

    @pytest.mark.parametrize(
        ("replacement", "target"),
        [
            ("cls._total", "shop_npu.functions:till_total"),  # a static method, which would stay one
            ("Till._total", "shop_npu.functions:till_total"),
            ("cls._plain", "shop_npu.replacements:Till._plain"),
            ("cls.Inner", "shop_npu.replacements:Till.Inner"),
            ("configure", "shop_npu.replacements:configure"),
            ("mx_driving.total", "shop_npu.replacements:mx_driving.total"),
            ("'mx_driving.ops.Till.total'", "mx_driving.ops:Till.total"),
            ("'mx_driving.total'", "mx_driving:total"),
            ("12", 12),
            ("(1, 'a')", (1, "a")),
        ],
    )
    def test_what_is_put_into_a_class(self, migrate: Migrate, replacement: str, target: Any) -> None:
        assert change(migrate(in_class(f"AtomicPatch('shop.tills.Till.total', {replacement})"))).arguments == (
            "shop.tills:Till.total",
            target,
        )

    def test_functions_of_one_name_stay_apart(self, migrate: Migrate) -> None:
        other = in_class("AtomicPatch('shop.b.B.f', cls._total), AtomicPatch('shop.b.C.f', cls.total)")
        migration = migrate(other.replace("def _plain", "@staticmethod\n    def total"))
        assert migration.functions == {"till_total": "Till._total", "till_total_2": "Till.total"}

    @pytest.mark.parametrize(
        ("given", "keywords"),
        [
            ("cls._total, runtime_check=cls._check", {"when_call": Code('_later("Till._check")')}),
            ("target_wrapper=cls._check", {"factory": Code('_later("Till._check")')}),
            ("cls._total, replacement_wrapper=configure", {"factory": Code('_wrapped("configure", "Till._total")')}),
            ("replacement=cls._total, precheck=None", {}),
        ],
        ids=["runtime_check", "target_wrapper", "replacement_wrapper", "by name"],
    )
    def test_what_stands_around_a_replacement(self, migrate: Migrate, given: str, keywords: dict[str, Any]) -> None:
        assert change(migrate(in_class(f"AtomicPatch('shop.tills.count', {given})"))).keywords == keywords

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ("'shop.tills.count', make(cls._total)", "make(cls._total) is computed"),
            ("options['target'], cls._total", "options['target'] is computed"),
            ("'shop', cls._total", "'shop' names nothing in a module"),
            ("'shop.tills.count', missing", "missing is not defined in the file"),
            ("'shop.tills.count'", "it has no target_wrapper"),
            ("'shop.tills.count', cls._total, **options", "**options is computed"),
        ],
    )
    def test_what_is_computed_is_left_in_its_place(self, migrate: Migrate, given: str, reason: str) -> None:
        migration = migrate(in_class(f"AtomicPatch({given}), AtomicPatch('shop.tills.other', cls._total)"))
        first, second = only(migration).changes
        assert isinstance(first, Remark)
        assert isinstance(second, Construction)
        assert f"{reason}; declare it by hand" in first.advice
        assert first in migration.left

    @pytest.mark.parametrize(
        ("given", "changed", "functions"),
        [
            (
                "lambda self: 1",
                Construction("Replace", ("shop.tills:count", "shop_npu.replacements:count_replacement")),
                ["def count_replacement(self):\n    return 1\n"],
            ),
            (
                "1, runtime_check=lambda *a: cls._check(*a)",
                Construction("Replace", ("shop.tills:count", 1), {"when_call": Code('_later("count_runtime_check")')}),
                ["def count_runtime_check(*a):\n    return Till._check(*a)\n"],
            ),
            (
                "cls._total, replacement_wrapper=lambda f: lambda self: f(self)",
                Construction(
                    "Replace",
                    ("shop.tills:count",),
                    {"factory": Code('_wrapped("count_replacement_wrapper", "Till._total")')},
                ),
                ["def count_replacement_wrapper(f):\n    return lambda self: f(self)\n"],
            ),
            (
                "target_wrapper=lambda f: configure and len",
                Construction("Replace", ("shop.tills:count",), {"factory": Code('_later("count_target_wrapper")')}),
                ["def count_target_wrapper(f):\n    return configure and len\n"],
            ),
        ],
    )
    def test_a_lambda_becomes_a_function(
        self, migrate: Migrate, given: str, changed: Construction, functions: list[str]
    ) -> None:
        migration = migrate(in_class(f"AtomicPatch('shop.tills.count', {given})"))
        assert change(migration) == changed
        for function in functions:
            assert function in migration.replacements
        assert migration.left == ()

    def test_a_lambda_has_what_its_function_has_imported(self, migrate: Migrate) -> None:
        listed = in_class("AtomicPatch('shop.a', lambda x: (np.add(x, 1), split(x), os.path.sep))")
        imports = "import numpy as np; from os.path import split; import os.path"
        text = listed.replace("        return [", f"        {imports}\n        return [")
        assert migrate(text).replacements.endswith(
            "def a_replacement(x):\n    import numpy as np\n    from os.path import split\n    import os.path\n"
            "    return (np.add(x, 1), split(x), os.path.sep)\n"
        )

    def test_lambdas_in_a_loop_keep_their_values_apart(self, migrate: Migrate) -> None:
        loop = "*[AtomicPatch(f'shop.{n}', lambda x, n=n: (x, n)) for n in ('a', 'b')], AtomicPatch('shop.B.a', "
        migration = migrate(in_class(f"{loop}lambda: 3)"))
        assert [made.arguments[1] for made in only(migration).changes] == [  # type: ignore[union-attr]
            f"shop_npu.replacements:{name}" for name in ("a_replacement", "b_replacement", "a_replacement_2")
        ]
        assert "def b_replacement(x, n='b'):\n    return (x, n)\n" in migration.replacements
        assert "def a_replacement_2():\n    return 3\n" in migration.replacements

    @pytest.mark.parametrize(
        ("function", "reason"),
        [
            ("lambda self: options['factor']", "the lambda uses options, which only the code around it has"),
            ("lambda self: super().total()", "the lambda uses super, which only the code around it has"),
            ("lambda self: missing(self)", "the lambda uses missing, which is not defined in the file"),
            ("lambda self: [cls for cls in (cls._total,)]", "cls has two meanings in the lambda"),
        ],
    )
    def test_a_lambda_that_needs_its_place_is_left_there(self, migrate: Migrate, function: str, reason: str) -> None:
        migration = migrate(in_class(f"AtomicPatch('shop.a', {function}, runtime_check=lambda: True)"))
        (remark,) = only(migration).remarks
        assert remark.advice == f"{reason}; write it as a function at the top of the file"
        assert "runtime_check():" not in migration.replacements

    @pytest.mark.parametrize(
        ("precheck", "requirement"),
        [
            ("lambda: mmcv_version.is_v2x", "mmcv>=2"),
            ("lambda: not mmcv_version.is_v2x", "mmcv<2"),
            ("lambda: mmcv_version.is_v1x", "mmcv<2"),
            ("cls.is_new", "mmcv>=2"),
            ("lambda: check_version('mmdet', major=3)", "mmdet==3.*"),
            ("lambda: not check_version('mmdet', 3, 1)", "mmdet!=3.1.*"),
        ],
    )
    def test_prechecks_of_versions_are_requirements(self, migrate: Migrate, precheck: str, requirement: str) -> None:
        body = "@staticmethod\n    def is_new():\n        'New?'\n        return mmcv_version.is_v2x"
        migration = migrate(in_class(f"AtomicPatch('shop.a', cls._total, precheck={precheck})", body=body))
        assert only(migration).keywords["requires"] == [requirement]
        assert only(migration).is_complete

    def test_other_prechecks_are_left_to_do(self, migrate: Migrate) -> None:
        migration = migrate(in_class("AtomicPatch('shop.a', cls._total, precheck=cls._check)"))
        made, remark = only(migration).changes
        assert isinstance(made, Construction)
        assert isinstance(remark, Remark)
        assert remark.what == "precheck=cls._check of shop:a"
        assert only(migration).keywords["default"] is False

    def test_changes_for_versions_are_patches_of_their_own(self, migrate: Migrate) -> None:
        listed = """AtomicPatch('shop.a', cls._total), AtomicPatch('shop.b', cls._total, precheck=lambda:
            mmcv_version.is_v2x), AtomicPatch('shop.c', cls._total, precheck=lambda: mmcv_version.is_v1x)"""
        patches = migrate(in_class(listed)).patches
        assert [(patch.name, patch.keywords.get("requires")) for patch in patches] == [
            ("shop_till", None),
            ("shop_till.mmcv2", ["mmcv>=2"]),
            ("shop_till.mmcv1", ["mmcv<2"]),
        ]
        assert [patch.keywords.get("legacy_names") for patch in patches] == [None, ["shop_till"], ["shop_till"]]

    @pytest.mark.parametrize(
        "body",
        [
            """
            if mmcv_version.is_v2x:
                return [AtomicPatch("shop.new", cls.f)]
            return [AtomicPatch("shop.old", cls.f)]
            """,
            """
            found = []
            if mmcv_version.is_v2x:
                found.append(AtomicPatch("shop.new", cls.f))
            else:
                found += [AtomicPatch("shop.old", cls.f)]
            return found
            """,
            """
            return [AtomicPatch("shop.new", cls.f) if mmcv_version.is_v2x else AtomicPatch("shop.old", cls.f)]
            """,
        ],
        ids=["early return", "branches", "expression"],
    )
    def test_branches_on_versions_are_requirements(self, migrate: Migrate, body: str) -> None:
        head = "class X(Patch):\n    def f(self): ...\n    @classmethod\n    def patches(cls, options=None):\n"
        patches = migrate(head + textwrap.indent(textwrap.dedent(body), " " * 8)).patches
        assert [(patch.changes[0].arguments[0], patch.keywords["requires"]) for patch in patches] == [
            ("shop:new", ["mmcv>=2"]),
            ("shop:old", ["mmcv<2"]),
        ]

    @pytest.mark.parametrize(
        "body",
        [
            "if options:\n    return [AtomicPatch('shop.a', cls.f)]",
            "if options:\n    return []\nreturn [AtomicPatch('shop.a', cls.f)]",
            "for name in options:\n    made.append(AtomicPatch('shop.a', cls.f))",
            "while options:\n    made.append(AtomicPatch('shop.a', cls.f))",
            "try:\n    import x\nexcept ImportError:\n    return [AtomicPatch('shop.a', cls.f)]",
            "def inner():\n    return [AtomicPatch('shop.a', cls.f)]",
            "return [AtomicPatch('shop.a', cls.f) for name in options]",
            "return [AtomicPatch('shop.a', cls.f) for name in ['a'] if name]",
            "return options and [AtomicPatch('shop.a', cls.f)]",
            "return (lambda: [AtomicPatch('shop.a', cls.f)])()",
        ],
    )
    def test_what_may_not_be_reached_is_left_to_do(self, migrate: Migrate, body: str) -> None:
        head = "class X(Patch):\n    def f(self): ...\n    @classmethod\n    def patches(cls, options=None):\n"
        migration = migrate(head + textwrap.indent(body, " " * 8))
        (remark,) = only(migration).changes
        assert isinstance(remark, Remark)
        assert remark.what == "AtomicPatch('shop.a', cls.f)"
        assert "it is in " in remark.advice

    def test_lists_that_are_written_out_are_unrolled(self, migrate: Migrate) -> None:
        migration = migrate(
            """
            BASE = "shop.tills"
            NAMES = ["count", "close"]
            def f(): ...
            def g(): ...
            class X(Patch):
                @classmethod
                def patches(cls, options=None):
                    made = [AtomicPatch(f"{BASE}.{name}", f) for name in NAMES]
                    for name, function in [("open", f), ("lock", g)]:
                        made.append(AtomicPatch(BASE + "." + name, function))
                    return made
            """
        )
        assert [change.arguments for change in only(migration).changes if isinstance(change, Construction)] == [
            ("shop.tills:count", "shop_npu.replacements:f"),
            ("shop.tills:close", "shop_npu.replacements:f"),
            ("shop.tills:open", "shop_npu.replacements:f"),
            ("shop.tills:lock", "shop_npu.replacements:g"),
        ]

    def test_what_a_method_imports_is_taken_from_there(self, migrate: Migrate) -> None:
        text = in_class("AtomicPatch('shop.a', total), AtomicPatch('shop.b', ops.Till.total)")
        text = text.replace("        return [", "        from mx_driving import ops, total\n        return [")
        assert [change.arguments[1] for change in only(migrate(text)).changes if isinstance(change, Construction)] == [
            "mx_driving:total",
            "mx_driving.ops:Till.total",
        ]

    def test_conflicts_are_declared(self, migrate: Migrate) -> None:
        text = in_class("AtomicPatch('shop.a', cls._total)", body='conflicts_with = ["shop_other"]')
        assert only(migrate(text)).keywords["conflicts"] == ["shop_other"]

    def test_a_base_class_lends_its_patches(self, migrate: Migrate) -> None:
        text = in_class("AtomicPatch('shop.a', cls._total)") + "\nclass Other(Till):\n    name = 'other'\n"
        till, other = migrate(text + "\ndef more(patcher):\n    patcher.add(Other)").patches
        assert (till.name, other.name) == ("shop_till", "other")
        assert other.changes[0].arguments == ("shop:a", "shop_npu.replacements:Other._total")

    def test_a_later_patch_of_the_same_place_is_stacked(self, migrate: Migrate) -> None:
        text = in_class("AtomicPatch('shop.a', cls._total)")
        text += "\nPatcher().add(AtomicPatch('shop.a', configure))"
        first, second = migrate(text).patches
        assert (first.name, second.name) == ("shop.a", "shop_till")
        assert second.keywords["after"] == ["shop.a"]

    def test_a_class_that_nothing_adds_is_not_applied_by_default(self, migrate: Migrate) -> None:
        text = in_class("AtomicPatch('shop.a', cls._total)")
        text += """
class Other(Patch):
    @classmethod
    def patches(cls):
        return [AtomicPatch('x.y', cls.f)]

    def f(): ...
"""
        till, other = migrate(text).patches
        assert "default" not in till.keywords
        assert other.keywords["default"] is False

    def test_patches_of_another_class_are_left_to_do(self, migrate: Migrate) -> None:
        migration = migrate(in_class("AtomicPatch('shop.a', cls._total), *Other.patches(options)"))
        assert [remark.what for remark in only(migration).remarks] == ["Other.patches(options)"]


class TestOtherPatches:
    def test_registry_patches_register(self, migrate: Migrate) -> None:
        listed = "RegistryPatch('mmcv.runner.HOOKS', cls.Inner, name='Hook', force=False)"
        assert change(migrate(in_class(listed))) == Construction(
            "Register", ("mmcv.runner:HOOKS", "shop_npu.replacements:Till.Inner"), {"name": "Hook", "force": False}
        )

    def test_a_class_that_is_made_later_is_left_to_do(self, migrate: Migrate) -> None:
        migration = migrate(in_class("RegistryPatch('mmcv.runner.HOOKS', name='Hook', module_factory=configure)"))
        assert "module_factory makes the class later" in only(migration).remarks[0].advice

    def test_legacy_patches_are_called(self, migrate: Migrate) -> None:
        migration = migrate(
            """
            def by_hand(module, options): ...
            def configure(patcher):
                patcher.add(LegacyPatch(by_hand, {"size": 2}, target_module="shop.tills"))
            """
        )
        expected = {"module": "shop.tills", "options": {"size": 2}}
        assert change(migration) == Construction("Call", ("shop_npu.replacements:by_hand",), expected)
        assert only(migration).name == "shop.by_hand"

    @pytest.mark.parametrize(
        "made", ["AtomicPatch('a.b', f)", "RegistryPatch('a.b', f)", "LegacyPatch(f, target_module='a')", "Patch(f)"]
    )
    def test_what_no_patcher_takes_is_listed(self, migrate: Migrate, made: str) -> None:
        migration = migrate(f"def f(): ...\ndef make():\n    return {made}")
        assert migration.patches == ()
        assert [remark.what for remark in migration.left] == [made]


class TestBuilders:
    def test_functions_are_called_for_their_modules(self, migrate: Migrate) -> None:
        migration = migrate(
            """
            def tills(module, options): ...
            def doors(module, options): ...
            def build():
                return (
                    PatcherBuilder()
                    .add_module_patch("shop", Patch(tills, {"size": 2}, priority=3))
                    .add_module_patch("shop.doors", Patch(doors), Patch(tills))
                )
            """
        )
        assert [(p.name, p.line, p.changes[0].keywords, p.keywords) for p in migration.patches] == [
            ("shop.tills", 10, {"module": "shop", "options": {"size": 2}}, {"priority": 3}),
            ("shop.doors", 11, {"module": "shop.doors"}, {}),
            ("shop.tills_2", 11, {"module": "shop.doors"}, {}),
        ]
        assert migration.left == ()

    def test_tables_of_patches_are_followed(self, migrate: Migrate) -> None:
        migration = migrate(
            """
            def tills(module, options): ...
            TABLE = {"shop": [Patch(tills)]}
            MORE = [Patch(tills)]
            def build(builder):
                for module, patches in TABLE.items():
                    builder.add_module_patch(module, *patches)
                builder.add_module_patch("more", *MORE)
                return Patcher({"old": [Patch(tills)]}, {"doors"}, True)
            """
        )
        assert [patch.changes[0].keywords["module"] for patch in migration.patches] == ["shop", "more", "old"]

    @pytest.mark.parametrize(
        "argument",
        ["Patch(lambda m, o: options)", "Patch(tills, options)", "Patch(make())", "*options", "Patch(**options)"],
    )
    def test_what_is_computed_is_listed(self, migrate: Migrate, argument: str) -> None:
        migration = migrate(
            f"def tills(m, o): ...\ndef b(options):\n    PatcherBuilder().add_module_patch('a', {argument})"
        )
        assert any(argument in remark.what for remark in migration.left)
        assert not any(patch.is_complete for patch in migration.patches)


class TestBuiltIns:
    def test_they_are_left_to_the_plugins_that_have_them(self, migrate: Migrate) -> None:
        text = (
            "from mx_driving.patcher import DeformConv, ResNetFP16, ResNetMaxPool\nimport mx_driving.patcher as mxp\n"
        )
        migration = migrate(text + "Patcher().add(DeformConv).disable(ResNetMaxPool).add(ResNetFP16, mxp.TorchScatter)")
        assert migration.patches == ()
        assert [(provided.name, provided.default) for provided in migration.provided] == [
            ("DeformConv", True),
            ("ResNetFP16", False),
            ("TorchScatter", False),
        ]
        assert migration.settings == (
            "[tool.patchcore]",
            'enable = ["mmdet.resnet_fp16", "torch_scatter.scatter"]',
            'disable = ["mmdet.resnet_maxpool"]',
        )
        assert migration.distributions == ("mmcv-npu-patches", "mx-driving-compat", "torch-npu-patches")


class TestImports:
    def test_changes_of_imports_are_declared(self, migrate: Migrate) -> None:
        migration = migrate(
            """
            class Wrapper: ...
            SKIP = ["flash_attn", "spconv", "spconv.pytorch", "mmdet3d.ops.a", "mmdet3d.ops.b"]
            INJECT = [("shop.new", "Till", "shop"), ("shop.new", "Door", "shop")]
            def configure(p):
                p.skip_import(*SKIP).skip_import("ipdb")
                p.replace_import("shop.old", "shop.new")
                p.replace_import("shop.cuda", Wrapper=Wrapper, SIZE=3)
                p.replace_import("shop.more", exports={"Wrapper": Wrapper})
                for source, name, into in INJECT:
                    p.inject_import(source, name, target_module=into)
            """
        )
        wrapper = "shop_npu.replacements:Wrapper"
        assert [(patch.name, patch.changes) for patch in migration.patches] == [
            ("shop.stub.flash_attn", (Construction("StubImport", ("flash_attn",)),)),
            ("shop.stub.spconv", (Construction("StubImport", ("spconv",)),)),
            ("shop.stub.spconv.pytorch", (Construction("StubImport", ("spconv.pytorch",)),)),
            (
                "shop.stub.mmdet3d.modules",
                (Construction("StubImport", ("mmdet3d.ops.a",)), Construction("StubImport", ("mmdet3d.ops.b",))),
            ),
            ("shop.stub.ipdb", (Construction("StubImport", ("ipdb",)),)),
            ("shop.replace.shop.old", (Construction("ReplaceImport", ("shop.old",), {"with_": "shop.new"}),)),
            (
                "shop.replace.shop.cuda",
                (Construction("ReplaceImport", ("shop.cuda",), {"with_": {"Wrapper": wrapper, "SIZE": 3}}),),
            ),
            (
                "shop.replace.shop.more",
                (Construction("ReplaceImport", ("shop.more",), {"with_": {"Wrapper": wrapper}}),),
            ),
            ("shop.inject.Till", (Construction("InjectImport", ("shop.new", "Till", "shop")),)),
            ("shop.inject.Door", (Construction("InjectImport", ("shop.new", "Door", "shop")),)),
        ]

    @pytest.mark.parametrize(
        "call",
        [
            "skip_import(names())",
            "skip_import(*options)",
            "skip_import('not a module')",
            "replace_import('a', base_module='b', exports={'X': f})",
            "replace_import('a', replace_with.module('b', X=f))",
            "replace_import('a', 'a.inner')",
            "inject_import('a', 'B')",
            "inject_import('a', options, 'c')",
        ],
    )
    def test_what_cannot_be_declared_is_listed(self, migrate: Migrate, call: str) -> None:
        migration = migrate(
            f"from mx_driving.patcher import replace_with\ndef f(patcher, options):\n    patcher.{call}"
        )
        assert [remark.what for remark in migration.left if "patcher." in remark.what] == [f"patcher.{call}"]
        assert migration.patches == ()


class TestSettings:
    def test_profiling_and_brake_are_settings(self, migrate: Migrate) -> None:
        migration = migrate(
            """
            def configure(patcher, fast=False):
                patcher.with_profiling("out", 1, wait=2).allow_internal_format()
                if fast:
                    patcher.brake_at(1000)
            """
        )
        assert migration.settings == (
            "# [tool.patchcore]",
            "# brake = 1000  # line 8: it is in a branch (line 7): if fast",
            "",
            '[tool.patchcore.options."torch.internal_format"]',
            "allow = true",
            "",
            "[tool.patchcore.profiling]",
            'path = "out"',
            "level = 1",
            "wait = 2",
        )
        assert tomli.loads("\n".join(migration.settings))["tool"]["patchcore"]["profiling"]["wait"] == 2

    @pytest.mark.parametrize(
        ("call", "allowed"),
        [
            ("PatcherBuilder().build(allow_internal_format=True)", True),
            ("PatcherBuilder().build(True)", True),
            ("PatcherBuilder().build(allow_internal_format=False)", False),
            ("Patcher({}, set(), True)", True),
            ("Patcher().allow_internal_format()", True),
            ("Patcher().allow_internal_format(False)", False),
            ("Patcher().disallow_internal_format()", False),
        ],
    )
    def test_internal_formats_are_an_option(self, migrate: Migrate, call: str, allowed: bool) -> None:
        migration = migrate(f"from mx_driving.patcher import *\npatcher = {call}")
        assert ("allow = true" in migration.settings) == allowed
        assert migration.provided[0].patches == ("torch.internal_format",)

    @pytest.mark.parametrize(
        ("call", "advice"),
        [
            ("ensure_mmcv_version('1.7')", "mmcv_npu.mmcv_version.mmcv_version"),
            ("configure_patcher_logging(on_fail='exception')", "on_failure"),
            ("default_patcher.with_precision_debugger()", "[tool.patchcore], for patchcore compare"),
        ],
    )
    def test_what_has_no_setting_is_listed(self, migrate: Migrate, call: str, advice: str) -> None:
        name = call.partition("(")[0].partition(".")[0]
        migration = migrate(f"from mx_driving.patcher import {name}\ndef f():\n    {call}")
        assert [remark.what for remark in migration.left] == [call]
        assert advice in migration.left[0].advice

    def test_what_is_known_when_it_runs_only_is_listed(self, migrate: Migrate) -> None:
        migration = migrate("def set_brake(patcher, step):\n    patcher.brake_at(step)")
        assert (
            "patcher.brake_at(step): step is known when the program runs; say it with patchcore run --brake N"
            in left(migration)
        )

    def test_names_that_are_switched_off_are_those_of_the_patches_here(self, migrate: Migrate) -> None:
        text = in_class("AtomicPatch('shop.tills.count', cls._total)")
        text += """
def other(patcher, builder):
    patcher.disable(Till.name, "shop.tills.count", "mcdv")
    builder.disable_patches("msda", "by_hand").add_module_patch("shop", Patch(by_hand))
def by_hand(module, options): ...
"""
        migration = migrate(text)
        assert (
            'disable = ["shop_till", "shop.tills:count", "mmcv.multi_scale_deformable_attention", "shop.by_hand"]'
            in migration.settings
        )
        assert "disable mcdv: no patch here is called so; nothing to do, or a typo" in left(migration)

    def test_sets_are_not_taken_for_patchers(self, migrate: Migrate) -> None:
        migration = migrate("def f(seen):\n    seen.add(1)\n    seen.disable(2)\n    seen.apply(3)")
        assert not [remark for remark in migration.left if "seen" in remark.what]


class TestReplacements:
    @pytest.mark.parametrize(
        ("line", "rewritten"),
        [
            ("from mx_driving.patcher import Patch", "from mx_driving_compat.patcher import Patch"),
            ("from mx_driving.patcher.mmcv import dc", "from mx_driving_compat.patcher.mmcv import dc"),
            ("from mx_driving import patcher", "from mx_driving_compat import patcher"),
            ("import mx_driving.patcher as p", "import mx_driving_compat.patcher as p"),
            ("import os, mx_driving.patcher.patch as p", "import os, mx_driving_compat.patcher.patch as p"),
            ("x = 'é'; from mx_driving.patcher import *", "x = 'é'; from mx_driving_compat.patcher import *"),
            ("from mx_driving import ops", "from mx_driving import ops"),
            ("import mx_driving", "import mx_driving"),
            ("# from mx_driving.patcher import Patch", "# from mx_driving.patcher import Patch"),
        ],
    )
    def test_only_imports_of_the_api_change(self, tmp_path: Path, line: str, rewritten: str) -> None:
        path = tmp_path / "patch.py"
        text = "from mx_driving.patcher import Patch\n\n\ndef f( ):\n    {}\n    return 'mx_driving.patcher'\n"
        path.write_text(text.format(line), encoding="utf-8")
        expected = text.replace("from mx_driving", "from mx_driving_compat", 1).format(rewritten)
        assert read_migration(path, NAMES).replacements == expected

    @pytest.mark.parametrize("line", ["import mx_driving.patcher", "from mx_driving import patcher, ops"])
    def test_an_import_that_binds_more_is_left(self, tmp_path: Path, line: str) -> None:
        path = tmp_path / "patch.py"
        path.write_text(f"{line}\n")
        migration = read_migration(path, NAMES)
        assert migration.replacements == f"{line}\n"
        assert "--compat mx_driving" in migration.left[0].advice

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("from .heads import Head", "from .heads import Head"),
            ("setup()", "setup()"),
            ("mx_driving.flag = 1", "mx_driving.flag = 1"),
            ("def f():\n    global state\n    state = 1", "global state"),
            ("def f():\n    sys.modules['a'] = 1\nf()", "sys.modules['a'] = 1"),
            ("from mx_driving.patcher.patch import *", "from mx_driving.patcher.patch import *"),
        ],
    )
    def test_what_importing_the_copy_does_is_listed(self, migrate: Migrate, text: str, what: str) -> None:
        assert what in [remark.what for remark in migrate(text).left]

    def test_what_is_done_beside_configuring_is_listed(self, migrate: Migrate) -> None:
        migration = migrate(
            """
            def set_up(): ...
            def configure(patcher):
                set_up()
                patcher.skip_import("a")
                patcher.print_info()
            def other():
                set_up()
            """
        )
        assert [(remark.line, remark.what) for remark in migration.left] == [(7, "set_up()")]

    def test_what_runs_as_a_script_only_is_not(self, migrate: Migrate) -> None:
        assert migrate("if __name__ == '__main__':\n    main()").left == ()


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"def f(:\n", "is no Python"),
            (b"x = 1\n", "it imports nothing from mx_driving.patcher"),
            (b"# -*- coding: no-such-code -*-\n", "is no Python"),
            (b"x = '\xff'\n", "is no Python|cannot be read"),
        ],
    )
    def test_what_is_no_such_file_is_refused(self, tmp_path: Path, content: bytes, message: str) -> None:
        path = tmp_path / "patch.py"
        path.write_bytes(content)
        with pytest.raises(SettingsError, match=message):
            read_migration(path, NAMES)


class TestTargets:
    @pytest.mark.parametrize(
        ("dotted", "target", "found"),
        [
            ("json.decoder.JSONDecoder.decode", "json.decoder:JSONDecoder.decode", True),
            ("json.dumps", "json:dumps", True),
            ("not_there.models.head.Head.forward", "not_there.models.head:Head.forward", False),
            ("not_there.models.head._Head.forward", "not_there.models.head:_Head.forward", False),
            ("not_there.models.build", "not_there.models:build", False),
            ("json.not_there.build", "json.not_there:build", False),
            ("json:dumps", "json:dumps", True),
        ],
    )
    def test_the_colon_goes_where_the_module_ends(self, dotted: str, target: str, found: bool) -> None:
        assert split_target(dotted) == (target, found)

    @pytest.mark.parametrize("dotted", ["json", "", "a..b", "a.b c"])
    def test_what_names_nothing_is_refused(self, dotted: str) -> None:
        with pytest.raises(Unknown):
            split_target(dotted)


#: What makes a patch or changes imports; all of them name the place ``shop.t<number>``.
_PIECES = (
    "AtomicPatch('shop.t{}', f)",
    "RegistryPatch('shop.t{}', f)",
    "LegacyPatch(f, target_module='shop.t{}')",
    "patcher.add(AtomicPatch('shop.t{}', f))",
    "patcher.skip_import('shop.t{}')",
    "patcher.replace_import('shop.t{}', 'shop.other')",
    "patcher.inject_import('shop.source', 'Name', 'shop.t{}')",
    "PatcherBuilder().add_module_patch('shop.t{}', Patch(f))",
    "Patcher({{'shop.t{}': [Patch(f)]}})",
)
_SMALL = (
    "{}",
    "made.append({})",
    "made = [{}]",
    "made += [{} for name in ('a', 'b')]",
    "made = [{} for name in options]",
    "made = (lambda: {})",
    "made = {} if options else None",
    "made = options or {}",
    "made = {{'a': {}}}",
    'print(f"{{{}}}")',
    "assert {}",
    "return [{}]",
)
_LARGE = (
    "if options:\n{}",
    "if mmcv_version.is_v2x:\n{}",
    "if options:\n    pass\nelse:\n{}",
    "for name in ('a', 'b'):\n{}",
    "for name in options:\n{}",
    "while options:\n{}",
    "with options:\n{}",
    "try:\n{}\nexcept ImportError:\n    pass",
    "try:\n    pass\nexcept ImportError:\n{}\nfinally:\n    pass",
    "def inner(name):\n{}",
    "async def inner(name):\n{}",
    "class Inner:\n    def method(self):\n{}",
)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, int]:
    """Draw the statements of a function, and how many places they name."""
    lines = []
    count = draw(st.integers(1, 6))
    for number in range(count):
        piece = draw(st.sampled_from(_PIECES)).format(number)
        statement = draw(st.sampled_from(_SMALL)).format(piece)
        for around in draw(st.lists(st.sampled_from(_LARGE), max_size=2)):
            statement = around.format(textwrap.indent(statement, " " * 8))
        lines.append(statement)
    return "\n".join(lines), count


@given(
    places(),
    st.sampled_from(
        [
            "def configure(patcher, options):\n{}",
            "class X(Patch):\n    @classmethod\n    def patches(cls, options=None):\n{}",
            "class X:\n    def configure(self, patcher):\n{}",
            "if True:\n    def configure(patcher, options):\n{}",
            "def outer():\n    class X(Patch):\n        def patches(cls, options=None):\n{}",
        ]
    ),
)
def test_nothing_is_dropped_in_silence(tmp_path_factory: Any, drawn: tuple[str, int], around: str) -> None:
    statements, count = drawn
    path = tmp_path_factory.mktemp("drawn") / "patch.py"
    names = "AtomicPatch, LegacyPatch, Patch, Patcher, PatcherBuilder, RegistryPatch, mmcv_version"
    body = around.format(textwrap.indent(statements, " " * 12))
    path.write_text(f"from mx_driving.patcher import {names}\ndef f(): ...\n{body}\n", encoding="utf-8")
    migration = read_migration(path, NAMES)
    changes = [change for patch in migration.patches for change in patch.changes]
    text = "\n".join([*map(str, changes), *(remark.what for remark in migration.left)]).replace("shop:t", "shop.t")
    missing = [number for number in range(count) if f"shop.t{number}" not in text]
    assert not missing, f"{missing} of\n{path.read_text()}\n{text}"
    namespace: dict[str, Any] = {}
    exec(plugin_module(migration, NAMES, "patch.py"), namespace)  # which imports patchcore only
    declared = [patch.name for patch in namespace["register_patches"]()]
    assert declared == [patch.name for patch in migration.patches]
