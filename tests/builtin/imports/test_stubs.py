"""Stubs: mentioning one at import time goes on, using one says which it is, who made it and where it was imported."""

from __future__ import annotations

import abc
import copy
import copyreg
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pickle
import re
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore as pc
from patchcore.builtin.imports.stubs import StubModule, StubOrigin


@pytest.fixture(autouse=True)
def stubbed() -> Iterator[pc.Patcher]:
    with pc.Patcher([pc.Patch("my.stub", pc.StubImport("cudalib"))], strict=True) as patcher:
        yield patcher


def line_of(error: pytest.ExceptionInfo[pc.StubError]) -> str:
    return str(error.value).partition("imported at ")[2].partition(")")[0]


class TestImport:
    def test_the_module_and_everything_inside_it_can_be_imported(self) -> None:
        import cudalib
        import cudalib.ops.conv as conv
        from cudalib.ops import nms
        from cudalib.ops.norm import _C, Norm  # noqa: F401

        assert sys.modules["cudalib.ops.conv"] is conv
        assert cudalib.ops.nms is nms

    def test_a_name_is_the_same_object_each_time(self) -> None:
        import cudalib

        assert cudalib.attention is cudalib.attention
        assert cudalib.Layer.Config is cudalib.Layer.Config
        assert cudalib.Mode.NEAREST is not cudalib.Mode.BILINEAR
        assert {cudalib.Mode.NEAREST: 0, cudalib.Mode.BILINEAR: 1}[cudalib.Mode.BILINEAR] == 1

    def test_no_distribution_is_made_up(self) -> None:
        with pytest.raises(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version("cudalib")

    def test_a_reload_keeps_the_module_and_its_names(self) -> None:
        import cudalib

        before = cudalib.attention
        assert importlib.reload(cudalib) is cudalib
        assert cudalib.attention is before


class TestMention:
    """What code does with a library's names while it is being imported."""

    def test_base_class(self) -> None:
        import cudalib

        class Layer(cudalib.SparseModule):
            size = 3

        class Both(cudalib.SparseModule, abc.ABC):
            @abc.abstractmethod
            def forward(self) -> None: ...

        item = typing.TypeVar("item")

        class Box(cudalib.Base, typing.Generic[item]):
            pass

        assert issubclass(Layer, cudalib.SparseModule)
        assert inspect.isabstract(Both)
        assert Layer.size == 3
        assert not hasattr(Layer, "anything")
        assert typing.get_args(Box[int]) == (int,)

    def test_a_derived_class_that_does_without_its_base_works(self) -> None:
        import cudalib

        class Layer(cudalib.SparseModule):
            def __init__(self) -> None:
                self.size = 3

        assert isinstance(Layer(), cudalib.SparseModule)
        assert copy.deepcopy(Layer()).size == 3

    def test_isinstance_and_issubclass_are_false_of_all_else(self) -> None:
        import cudalib

        assert not isinstance(3, cudalib.Tensor)
        assert isinstance(3, (cudalib.Tensor, int))
        assert not issubclass(int, cudalib.Tensor)

    def test_except(self) -> None:
        import cudalib

        def guarded(error: BaseException) -> str:
            try:
                raise error
            except (cudalib.OutOfResources, cudalib.Error):
                return "library"
            except KeyError:
                return "key"

        assert guarded(KeyError()) == "key"

    def test_annotations_and_defaults(self, make_package) -> None:
        source = """
            from typing import Dict, Optional, Tuple, Union
            import cudalib
            Grid = Dict[str, Tuple[cudalib.Tensor, ...]]
            def f(x: Optional[cudalib.Tensor] = None, mode: int = cudalib.Mode.FAST) -> cudalib.Array[int, "b n"]:
                return x
            """
        make_package({"user": source})
        user = importlib.import_module("user")
        assert typing.get_type_hints(user.f)["x"] == typing.Optional[user.cudalib.Tensor]
        assert inspect.signature(user.f).parameters["mode"].default is user.cudalib.Mode.FAST
        assert user.f() is None

    def test_a_module_is_empty_for_those_who_walk_over_it(self) -> None:
        import cudalib.ops

        for module in (cudalib, cudalib.ops):
            assert (list(module), len(module), "attention" in module, module.__all__) == ([], 0, False, [])
            assert module
        scope: dict[str, object] = {}
        exec("from cudalib.ops import *", scope)
        assert set(scope) == {"__builtins__"}
        with pytest.raises(pc.StubError, match=r"cudalib\.ops was called, but is a stub"):
            cudalib.ops()

    def test_its_own_register_is_not_that_of_abc(self) -> None:
        import cudalib

        assert repr(cudalib.MODELS.register) == "<stub cudalib.MODELS.register>"


DECORATED = """
    import cudalib
    from cudalib import jit

    def configs():
        return [cudalib.Config({"n": n}, warps=4) for n in (1, 2)]

    @cudalib.autotune(configs=configs(), key=["m"])
    @cudalib.jit(debug=True)
    def kernel(x: cudalib.constexpr, size=cudalib.constexpr(3)):
        "Doubles x."
        return x

    @jit
    def plain(x):
        return x

    @cudalib.register_model("net")
    class Net:
        def size(self):
            return 3

        @staticmethod
        @jit
        def fast(x):
            return x

    TABLE = {mode: cudalib.Config(mode) for mode in (cudalib.A, cudalib.B)}
    """


class TestDecorators:
    """As in Triton's tutorials: decorators with and without arguments, configurations made on the way."""

    @pytest.fixture
    def module(self, make_package) -> types.ModuleType:
        make_package({"kernels": DECORATED})
        return importlib.import_module("kernels")

    def test_a_decorated_function_keeps_what_describes_it(self, module) -> None:
        assert module.plain.__name__ == "plain"
        assert module.plain.__module__ == "kernels"
        assert module.kernel.__doc__ == "Doubles x."
        assert inspect.signature(module.plain.__wrapped__).parameters.keys() == {"x"}

    @pytest.mark.parametrize(
        "use",
        [lambda m: m.plain(1), lambda m: m.kernel[(1,)](1), lambda m: m.kernel(1), lambda m: m.Net.fast(1)],
        ids=["called", "launched on a grid", "with arguments", "static method"],
    )
    def test_using_a_decorated_function_is_using_the_stub(self, module, use) -> None:
        with pytest.raises(pc.StubError, match=r"cudalib is not installed here, and patch my\.stub"):
            use(module)

    def test_a_decorated_class_stays_what_it_is(self, module) -> None:
        assert type(module.Net) is type
        assert module.Net().size() == 3

    def test_a_function_of_a_module_may_call_it_only_while_that_is_imported(self, module) -> None:
        with pytest.raises(pc.StubError, match=r"cudalib\.Config was called"):
            module.configs()


class TestUse:
    OPERATIONS: typing.ClassVar = {
        "called": lambda s: s(1),
        "iterated over": iter,
        "measured": len,
        "searched": lambda s: 1 in s,
        "calculated with": lambda s: 2 * s,
        "compared": lambda s: s >= 2,
        "converted to a number": float,
        "entered": lambda s: s.__enter__(),
    }

    @pytest.mark.parametrize("what", OPERATIONS, ids=str)
    def test_every_use_is_named(self, what: str) -> None:
        from cudalib import attention

        with pytest.raises(pc.StubError, match=rf"^cudalib\.attention was {what}, but is a stub"):
            self.OPERATIONS[what](attention)

    def test_the_error_names_stub_patch_and_line(self, make_package) -> None:
        make_package({"user": "import sys\n\nfrom cudalib.ops import nms\ndef run(): return nms(1)\n"})
        user = importlib.import_module("user")
        with pytest.raises(pc.StubError, match=r"cudalib\.ops\.nms .* patch my\.stub \(local code\)") as error:
            user.run()
        assert line_of(error) == f"{user.__file__}:3"

    def test_of_several_importers_the_one_that_uses_it_is_named(self, make_package) -> None:
        source = "from cudalib.ops import nms\ndef run(): return nms(1)\n"
        make_package({"first": source, "second": f"\n\n{source}"})
        first, second = importlib.import_module("first"), importlib.import_module("second")
        for module, line in ((first, 1), (second, 3)):
            with pytest.raises(pc.StubError) as error:
                module.run()
            assert line_of(error) == f"{module.__file__}:{line}"

    def test_what_is_only_got_through_the_module_has_the_line_that_imported_that(self, make_package) -> None:
        make_package({"user": "\nimport cudalib as c\ndef run(): return c.ops.nms(1)\n"})
        user = importlib.import_module("user")
        with pytest.raises(pc.StubError, match=r"cudalib\.ops\.nms was called") as error:
            user.run()
        assert line_of(error) == f"{user.__file__}:2"

    def test_instances_of_derived_classes(self) -> None:
        import cudalib

        class Layer(cudalib.SparseModule):
            def __init__(self) -> None:
                super().__init__()

        with pytest.raises(pc.StubError, match=r"SparseModule was instantiated through a class derived from it"):
            Layer()

    def test_it_is_no_import_error(self) -> None:
        assert not issubclass(pc.StubError, (ImportError, AttributeError))

    def test_main_of_a_script_is_not_import_time(self, run_python) -> None:
        done = run_python("""
            import patchcore as pc
            pc.Patcher([pc.Patch("p", pc.StubImport("cudalib"))]).apply()
            from cudalib import attention

            def main():
                attention(1)

            try:
                main()
            except pc.StubError as error:
                print(error)
        """)
        assert done.startswith("cudalib.attention was called")

    def test_after_the_revert_it_says_so(self, stubbed: pc.Patcher) -> None:
        from cudalib import attention

        stubbed.revert()
        with pytest.raises(pc.StubError, match=r"The patch has been reverted since.*import cudalib again"):
            attention(1)


class TestProbes:
    """What libraries ask of any object they come across."""

    @given(st.text("abc_", min_size=1).map("__{}".format))
    def test_no_dunder_of_any_kind(self, name: str) -> None:
        module = StubModule("cudalib", StubOrigin("cudalib", "a test"), {})
        assert not hasattr(module, name)
        assert not hasattr(module.attention, name)

    def test_copy_and_pickle(self) -> None:
        import cudalib

        for stub in (cudalib.attention, cudalib.Layer.Config):
            assert copy.copy(stub) is stub
            assert copy.deepcopy({"a": [stub]})["a"][0] is stub
            assert pickle.loads(pickle.dumps(stub)) is stub

    def test_inspect(self) -> None:
        import cudalib

        assert inspect.signature(cudalib.attention)
        assert inspect.getmodule(cudalib.attention) is cudalib
        assert "my.stub" in str(inspect.getdoc(cudalib.attention))
        assert inspect.unwrap(cudalib.attention) is cudalib.attention
        assert inspect.getmodule(test_walk_sys_modules).__name__ == __name__
        with pytest.raises(TypeError):
            inspect.getsourcefile(cudalib)

    @pytest.mark.parametrize("version", ["0.0", "2.1.0"])
    def test_versions_can_be_compared(self, version: str, stubbed: pc.Patcher) -> None:
        from packaging.version import parse

        stubbed.revert()
        with pc.Patcher([pc.Patch("p", pc.StubImport("cudalib", version=version))], strict=True):
            import cudalib
            import cudalib.ops

            assert cudalib.__version__ == cudalib.ops.__version__ == version
            assert parse(cudalib.__version__) == parse(version)

    def test_attributes(self, stubbed: pc.Patcher) -> None:
        stubbed.revert()
        attributes = {"join": "os.path:join", "name": pc.Literal("a:b"), "number": 3}
        with pc.Patcher([pc.Patch("p", pc.StubImport("cudalib", attributes=attributes))], strict=True):
            import os.path

            import cudalib

            assert (cudalib.join, cudalib.name, cudalib.number) == (os.path.join, "a:b", 3)


def test_the_example_of_the_documentation_prints_what_it_says(tmp_path: Path, run_python) -> None:
    page = (Path(__file__).parents[3] / "docs" / "import-control.md").read_text(encoding="utf-8")
    example = next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "patcher.apply()" in code)
    printed = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert printed is not None
    (tmp_path / "flash.py").write_text(example)
    assert run_python(tmp_path / "flash.py").replace(f"{tmp_path}{os.sep}", "") == printed[1]


def test_walk_sys_modules() -> None:
    """As unittest, pickle and torch do."""
    import cudalib.ops  # noqa: F401

    for module in list(sys.modules.values()):
        for name in ("__file__", "__warningregistry__", "__spec__", "__path__", "__loader__"):
            getattr(module, name, None)
    table = copyreg.dispatch_table  # it does not say where it is, so that pickle looks in every module
    assert vars(sys.modules[pickle.whichmodule(table, "dispatch_table")])["dispatch_table"] is table
