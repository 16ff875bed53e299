"""``torch.internal_format``: the switch of torch_npu while the patch is applied, and what it was before after that."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch_npu_patches")

import patchcore as pc
from torch_npu_patches.internal_format import INTERNAL_FORMAT, NAME, make_patch

MakePackage = Callable[[Mapping[str, str]], Path]

#: As in torch_npu: the value is in C++, ``config`` only hands it on, and not every version can be asked for it.
SOURCES = {
    "torch_npu": "from torch_npu import _C, npu\n",
    "torch_npu._C": """
        OPTIONS = {}

        def _npu_setOption(option):
            OPTIONS.update({key: value.encode() for key, value in option.items()})

        def _npu_getOption(name):
            return OPTIONS.get(name)
    """,
    "torch_npu.npu": """
        from torch_npu import _C

        class _npuConfig:
            @classmethod
            def __setattr__(cls, name, value):
                if name == "allow_internal_format":
                    _C._npu_setOption({"ALLOW_INTERNAL_FORMAT": "enable" if value else "disable"})

        config = _npuConfig()
    """,
}
GETTER = """
            @classmethod
            def __getattr__(cls, name):
                if name == "allow_internal_format":
                    return _C._npu_getOption("ALLOW_INTERNAL_FORMAT") in (None, b"enable")

        config"""


@pytest.fixture(params=["cannot be asked", "can be asked"])
def torch_npu(request: pytest.FixtureRequest, make_package: MakePackage) -> Callable[[], ModuleType]:
    """Return a function that imports a torch_npu with the switch."""
    sources = dict(SOURCES)
    if request.param == "can be asked":
        sources["torch_npu.npu"] = sources["torch_npu.npu"].replace("\n        config", GETTER)
    make_package(sources)
    return lambda: importlib.import_module("torch_npu")


def value(torch_npu: ModuleType) -> object:
    return torch_npu._C._npu_getOption("ALLOW_INTERNAL_FORMAT")


class TestSwitch:
    def test_off_from_the_import_of_torch_npu_until_the_patch_is_reverted(
        self, torch_npu: Callable[[], ModuleType]
    ) -> None:
        with pc.Patcher([INTERNAL_FORMAT], strict=True) as patcher:
            assert patcher.report()[NAME].status == "pending"
            module = torch_npu()
            assert value(module) == b"disable"
            record = patcher.report()[NAME]
            assert (record.status, record.changes[0].kind, record.changes[0].slots) == (
                "applied",
                "set",
                ("torch_npu:npu.config.allow_internal_format",),
            )
        assert value(module) == b"enable"  # what torch_npu does as long as nobody has said anything

    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("allow", [True, False])
    def test_what_was_set_before_comes_back(
        self, torch_npu: Callable[[], ModuleType], before: bool, allow: bool
    ) -> None:
        module = torch_npu()
        module.npu.config.allow_internal_format = before
        with pc.Patcher([make_patch({"allow": allow})], strict=True):
            assert value(module) == (b"enable" if allow else b"disable")
        assert value(module) == (b"enable" if before else b"disable")

    def test_what_a_program_sets_itself_meanwhile_stays(self, torch_npu: Callable[[], ModuleType]) -> None:
        module = torch_npu()
        with pc.Patcher([INTERNAL_FORMAT], strict=True):
            module.npu.config.allow_internal_format = True
            assert value(module) == b"enable"
        assert value(module) == b"enable"


class TestOption:
    def test_is_read_from_the_settings(self, torch_npu: Callable[[], ModuleType]) -> None:
        settings = pc.Settings(plugins=("torch_npu",), options={NAME: {"allow": True}})
        patcher = pc.Patcher.discover(settings=settings)
        assert patcher.plan()[NAME].patch.options == {"allow": True}
        module = torch_npu()
        module.npu.config.allow_internal_format = False
        with pc.Patcher([patcher.plan()[NAME].patch], strict=True):
            assert value(module) == b"enable"

    def test_is_a_bool(self, torch_npu: Callable[[], ModuleType]) -> None:
        module = torch_npu()
        with pc.Patcher([make_patch({"allow": "off"})]) as patcher:
            record = patcher.report()[NAME]
        assert record.status == "failed"
        assert "option 'allow' is true or false, got 'off'" in record.reason
        assert value(module) is None

    def test_a_misspelt_one_is_an_error(self) -> None:
        settings = pc.Settings(plugins=("torch_npu",), options={NAME: {"alow": True}})
        with pytest.raises(pc.DeclarationError, match="has no option 'alow'; did you mean 'allow'"):
            pc.Patcher.discover(settings=settings).plan()
