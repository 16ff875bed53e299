"""Modules compiled with their trees edited: those that are imported later, and the functions of loaded ones."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest

import patchcore as pc
from patchcore.engine.engine import ENGINE

FRUIT = '''"""A module."""
from __future__ import annotations
import functools

def plain(): return "apple"

def outer(n):
    def inner():
        return "apple", n
    return inner

def kept(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)
    return wrapper

@kept
def decorated(x="apple"): return "apple", x

class Base:
    def name(self): return "base"

class Shop(Base):
    __tax = "apple"
    def name(self): return super().name() + " apple", self.__tax
    @staticmethod
    def static(): return "apple"
    @classmethod
    def made(cls): return "apple", cls.__name__
    @property
    def computed(self): return "apple"
    class Inner:
        def deep(self): return "apple"

async def later(): return "apple"

def steps():
    yield "apple"

def fails():
    text = """
of low indent"""
    # a comment, too
    raise ValueError("apple")

held = [plain, functools.partial(plain), Shop().name, outer(1)]
'''


def edit(tree: ast.Module, source: pc.Source) -> list[int]:
    """Make pears of the apples that functions have."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and "apple" in str(node.value)]
    for node in found:
        node.value = str(node.value).replace("apple", "pear")
    return [node.lineno for node in found]


def find(text: str) -> list[int]:
    return [number for number, line in enumerate(text.split("\n"), 1) if "apple" in line]


def concerns(name: str, file: str) -> bool:
    return name.startswith("fruit")


WHOLE = pc.Rules(edit, words="apple", concerns=concerns)
BY_FUNCTION = pc.Rules(edit, words="apple", find=find, concerns=concerns)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str = "fruit", source: str = FRUIT) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        importlib.invalidate_caches()
        return path

    yield write
    for name in [name for name in sys.modules if name.startswith("fruit")]:
        del sys.modules[name]


def patcher(*rules: pc.Rules, modules: str = "*", **options: Any) -> pc.Patcher:
    patches = [pc.Patch(f"p{number}", [pc.Rewrite(modules, each)]) for number, each in enumerate(rules)]
    return pc.Patcher(patches, plugins=[], **options)


def values(module: Any) -> list[Any]:
    """What the functions of FRUIT return."""
    shop = module.Shop()
    coroutine = module.later()
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    with pytest.raises(ValueError, match=r"apple|pear") as error:
        module.fails()
    called = [each() for each in module.held]
    return [
        module.plain(),
        module.outer(2)(),
        module.decorated(),
        shop.name(),
        shop.static(),
        module.Shop.made(),
        shop.computed,
        shop.Inner().deep(),
        end.value.value,
        list(module.steps()),
        str(error.value),
        called,
    ]


def fruit_of(found: list[Any]) -> set[str]:
    text = str(found)
    return {fruit for fruit in ("apple", "pear") if fruit in text}


@pytest.mark.parametrize("rules", [WHOLE, BY_FUNCTION], ids=["whole", "by_function"])
class TestModules:
    def test_a_module_that_is_imported_later(self, write: Callable[..., Path], rules: pc.Rules) -> None:
        path = write()
        with patcher(rules, strict=True):
            module = importlib.import_module("fruit")
            found = values(module)
            assert found[:2] == ["pear", ("pear", 2)]
            assert found[3][0] == "base pear"
            assert found[5] == ("pear", "Shop")
            assert type(module.__loader__) is type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
            assert inspect.getsource(module.plain) == 'def plain(): return "apple"\n'
            assert module.plain.__code__.co_filename == str(path)
        assert fruit_of([module.plain(), module.Shop().static(), [each() for each in module.held[:2]]]) == {"apple"}

    def test_the_lines_of_a_traceback(self, write: Callable[..., Path], rules: pc.Rules) -> None:
        path = write()
        with patcher(rules), pytest.raises(ValueError, match="pear") as error:
            importlib.import_module("fruit").fails()
        frame = traceback.extract_tb(error.value.__traceback__)[-1]
        line = FRUIT.split("\n").index('    raise ValueError("apple")') + 1
        assert (frame.filename, frame.lineno) == (str(path), line)

    def test_the_functions_of_a_loaded_module_follow_wherever_they_are(
        self, write: Callable[..., Path], rules: pc.Rules
    ) -> None:
        write()
        module = importlib.import_module("fruit")
        before = values(module)
        codes = [module.plain.__code__, module.Shop.name.__code__, module.held[3].__code__]
        made = patcher(rules, strict=True)
        made.apply()
        found = values(module)
        assert fruit_of([*found[:2], found[2][0], *found[4:11], found[11][0], found[11][1], found[11][3]]) == {"pear"}
        assert found[3] == ("base pear", "apple")  # the class has the text since the module was imported
        made.revert()
        assert values(module) == before
        after = [module.plain.__code__, module.Shop.name.__code__, module.held[3].__code__]
        assert all(now is then for now, then in zip(after, codes))
        assert ENGINE.watch.compiler is None

    def test_below_and_above_a_patch_of_the_body(self, write: Callable[..., Path], rules: pc.Rules) -> None:
        write()
        module = importlib.import_module("fruit")
        wrapped = pc.Patcher([pc.Patch("w", [pc.Wrap("fruit:plain", lambda original: f"<{original()}>")])], plugins=[])
        edited = patcher(rules)
        for first, second in ((wrapped, edited), (edited, wrapped)):
            first.apply(), second.apply()
            assert module.plain() == "<pear>"
            first.revert()
            assert module.plain() in ("pear", "<apple>")
            second.revert()
            assert module.plain() == "apple"

    def test_frozen_objects(self, write: Callable[..., Path], rules: pc.Rules) -> None:
        write()
        module = importlib.import_module("fruit")
        gc.freeze()
        try:
            with patcher(rules):
                assert module.plain() == module.Shop.static() == "pear"
        finally:
            gc.unfreeze()

    def test_two_changes_of_one_module(self, write: Callable[..., Path], rules: pc.Rules) -> None:
        write()

        def to_plum(tree: ast.Module, source: pc.Source) -> list[int]:
            found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "pear"]
            for node in found:
                node.value = "plum"
            return [node.lineno for node in found]

        first = patcher(rules)
        first.apply()
        module = importlib.import_module("fruit")
        second = pc.Patcher([pc.Patch("second", [pc.Rewrite("fruit", rules.evolve(edit=to_plum))])], plugins=[])
        second.apply()
        assert module.plain() == "plum"
        first.revert()
        assert module.plain() == "apple"  # the second finds no pears
        second.revert()
        assert module.plain() == "apple"

    def test_no_bytecode_of_edited_code_is_kept(self, write: Callable[..., Path], rules: pc.Rules) -> None:
        write()
        with patcher(rules):
            importlib.import_module("fruit")
        del sys.modules["fruit"]
        assert importlib.import_module("fruit").plain() == "apple"


def test_functions_compiled_alone_are_those_of_the_module(write: Callable[..., Path]) -> None:
    """Every code is the same, whether its function was compiled alone or with its module."""
    write()
    codes = []
    for number, rules in enumerate((WHOLE, BY_FUNCTION)):
        source = FRUIT.replace('    __tax = "apple"\n', '    __tax = "none"\n').replace('x="apple"', "x=1")
        write(f"fruit{number}", source)
        with patcher(rules):
            codes.append(all_codes(importlib.import_module(f"fruit{number}").held[0].__globals__))
    assert codes[0] == codes[1]
    assert len(codes[0]) > 10


def all_codes(space: dict[str, Any]) -> dict[str, CodeType]:
    functions = [
        value for value in space.values() if inspect.isfunction(value) and value.__module__ == space["__name__"]
    ]
    functions += [value for value in vars(space["Shop"]).values() if inspect.isfunction(value)]
    functions += [space["Shop"].__dict__["static"].__func__, space["Shop"].__dict__["computed"].fget]
    functions += list(filter(inspect.isfunction, vars(space["Shop"].Inner).values()))
    return {function.__qualname__: function.__code__ for function in functions}


class TestReports:
    def test_what_was_edited(self, write: Callable[..., Path]) -> None:
        write()
        made = patcher(BY_FUNCTION)
        change = made.apply().patches[0].changes[0]
        assert (change.status, change.reason) == ("applied", "nothing to edit in the modules that were imported so far")
        importlib.import_module("fruit")
        change = made.report().patches[0].changes[0]
        assert change.reason == "12 lines in 1 module"
        assert change.slots == ("builtins:compile", "fruit")
        notes = made.revert().notes
        assert [note for note in notes if "1 edited line ran when the module was imported; what they did stays" in note]

    def test_lines_belong_to_the_rules_that_edited_them(self, write: Callable[..., Path]) -> None:
        write()
        without_lines = pc.Rules(edit, words="apple", find=lambda text: [], concerns=concerns)
        with patcher(without_lines, BY_FUNCTION) as made:
            importlib.import_module("fruit")
            first, second = (patch.changes[0].reason for patch in made.report().patches)
        assert first == "nothing to edit in the modules that were imported so far"
        assert second == "12 lines in 1 module"

    def test_lines_that_ran_before_the_patch(self, write: Callable[..., Path]) -> None:
        path = write()
        importlib.import_module("fruit")
        with patcher(WHOLE) as made:
            reason = made.report().patches[0].changes[0].reason
        assert f"{path}: 1 line at its top level ran before that; import it later, or use patchcore run" in reason

    @pytest.mark.parametrize("part", ["edit", "find", "concerns"])
    def test_rules_that_raise_fail_the_patch_and_not_the_import(
        self, write: Callable[..., Path], caplog: pytest.LogCaptureFixture, part: str
    ) -> None:
        write()

        def broken(*arguments: Any) -> Any:
            if part != "concerns" or arguments[0] == "fruit":
                raise RuntimeError("no such fruit")
            return False

        made = patcher(pc.Rules(**{"edit": edit, "words": "apple", "find": find, "concerns": concerns, part: broken}))
        made.apply()
        with caplog.at_level(logging.WARNING, "patchcore"):
            assert importlib.import_module("fruit").plain() == "apple"
        record = made.report().patches[0]
        assert (record.status, record.reason) == ("failed", "RuntimeError: no such fruit")
        assert ENGINE.watch.compiler is None

    def test_a_source_that_no_tree_can_hold_stays(self, write: Callable[..., Path]) -> None:
        write(source="VALUE = 'apple'" + " + 'a'" * 1_500)
        with patcher(WHOLE) as made:
            assert importlib.import_module("fruit").VALUE.startswith("apple")
            assert made.report().patches[0].status == "applied"

    def test_rules_that_add_a_function_fail(self, write: Callable[..., Path]) -> None:
        write()

        def adding(tree: ast.Module, source: pc.Source) -> list[int]:
            tree.body += ast.parse("def more(): pass").body
            return [1]

        made = patcher(pc.Rules(adding, words="apple", concerns=concerns))
        made.apply()
        assert not hasattr(importlib.import_module("fruit"), "more")
        assert "added or removed a function" in made.report().patches[0].reason

    def test_strict_raises_in_the_import(self, write: Callable[..., Path]) -> None:
        write()

        def broken(tree: ast.Module, source: pc.Source) -> list[int]:
            raise RuntimeError("no such fruit")

        with patcher(pc.Rules(broken, words="apple", concerns=concerns), strict=True):
            with pytest.raises(pc.PatchError, match="no such fruit"):
                importlib.import_module("fruit")

    def test_the_plan_names_the_modules(self) -> None:
        assert "rewrite json.*" in str(patcher(WHOLE, modules="json.*").plan())


class TestWhichModules:
    @pytest.mark.parametrize(
        ("modules", "name", "covered"),
        [
            ("*", "anything.at.all", True),
            ("a", "a", True),
            ("a", "a.b", False),
            ("a.*", "a", True),
            ("a.*", "a.b.c", True),
            ("a.*", "ab", False),
            ("a.b.*", "a", False),
        ],
    )
    def test_patterns(self, modules: str, name: str, covered: bool) -> None:
        assert pc.Rewrite(modules, WHOLE).covers_module(name) is covered

    @pytest.mark.parametrize("modules", ["", "a.", "a*", ".*", "a.*.b", "a b", None, 3], ids=repr)
    def test_other_patterns_are_refused(self, modules: Any) -> None:
        with pytest.raises(pc.DeclarationError, match=r"write 'package\.module'"):
            pc.Rewrite(modules, WHOLE)

    @pytest.mark.parametrize("rules", [None, edit, "no_colon"], ids=["none", "function", "no colon"])
    def test_other_rules_are_refused(self, rules: Any) -> None:
        with pytest.raises(pc.DeclarationError, match=r"rules|target"):
            pc.Rewrite("*", rules)

    @pytest.mark.parametrize("arguments", [{"words": 3}, {"words": [""]}, {"edit": None}, {"find": "x"}], ids=repr)
    def test_malformed_rules_are_refused(self, arguments: Any) -> None:
        with pytest.raises(pc.DeclarationError):
            pc.Rules(**{"edit": edit, **arguments})

    def test_a_module_without_the_word_is_not_parsed(
        self, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("fruit_none", "VALUE = 'melon'  # no apple")
        with patcher(WHOLE):
            monkeypatch.setattr(ast, "parse", None)
            assert importlib.import_module("fruit_none").VALUE == "melon"

    @pytest.mark.parametrize("loaded", [False, True], ids=["imported later", "loaded"])
    def test_a_module_without_the_word_is_edited_if_a_function_uses_the_names(
        self, write: Callable[..., Path], loaded: bool
    ) -> None:
        sources = {
            "fruit_both": "def taste(x):\n    return x.apple.sweet\n",
            "fruit_apart": "def one(x):\n    return x.apple\ndef other(x):\n    return x.sweet\n",
        }
        for name, source in sources.items():
            write(name, source)
            if loaded:
                importlib.import_module(name)
        seen: list[str] = []

        def add(tree: ast.Module, source: pc.Source) -> list[int]:
            seen.append(source.name)
            found = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
            for node in found:
                node.value = ast.copy_location(ast.Constant("edited"), node)
            return [node.lineno for node in found]

        with patcher(pc.Rules(add, words="melon", attributes="apple.sweet", concerns=concerns)):
            modules = {name: importlib.import_module(name) for name in sources}
            fruit = SimpleNamespace(apple=SimpleNamespace(sweet=True), sweet=False)
            assert modules["fruit_both"].taste(fruit) == "edited"
            assert modules["fruit_apart"].other(fruit) is False
            assert set(seen) == {"fruit_both"}
        assert modules["fruit_both"].taste(fruit) is True

    @pytest.mark.parametrize("attributes", ["a b", "a.", ["a", 3], "1.a"])
    def test_attributes_are_names_with_dots(self, attributes: Any) -> None:
        with pytest.raises(pc.DeclarationError, match="attributes must be names with dots between them"):
            pc.Rules(edit, words="apple", attributes=attributes)
        with pytest.raises(pc.DeclarationError, match="no effect without words"):
            pc.Rules(edit, attributes="a.b")

    def test_a_loader_with_a_compiler_of_its_own_is_left_alone(
        self, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write()

        class Own(importlib.machinery.SourceFileLoader):
            def source_to_code(self, data: Any, path: Any, *, _optimization: int = -1) -> Any:
                return compile(bytes(data).replace(b"apple", b"grape"), path, "exec")

        class Finder:
            @staticmethod
            def find_spec(name: str, path_: Any = None, target: Any = None) -> Any:
                if name == "fruit":
                    return importlib.util.spec_from_file_location(name, path, loader=Own(name, str(path)))
                return None

        monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        with patcher(WHOLE):
            assert importlib.import_module("fruit").plain() == "grape"

    def test_rules_do_not_edit_the_module_that_defines_them(self, write: Callable[..., Path]) -> None:
        write("fruit_rules", 'def edit(tree, source):\n    return ["apple"]\n')
        rules = importlib.import_module("fruit_rules")
        with patcher(pc.Rules(rules.edit, words="apple")):
            assert rules.edit(None, None) == ["apple"]

    def test_a_reload_is_edited_too(self, write: Callable[..., Path]) -> None:
        write()
        module = importlib.import_module("fruit")
        with patcher(WHOLE):
            assert importlib.reload(module).plain() == "pear"

    def test_a_source_that_changes_while_it_is_edited(self, write: Callable[..., Path]) -> None:
        path = write()
        first, second = patcher(BY_FUNCTION), patcher(BY_FUNCTION.evolve(edit=lambda tree, source: []))
        first.apply()
        module = importlib.import_module("fruit")
        path.write_text("def other(): return 'apple'\n" * 40)
        second.apply()
        assert module.plain() == "pear"
        second.revert()
        first.revert()
        assert module.plain() == "apple"

    def test_a_function_whose_source_has_changed_since_is_left_alone(self, write: Callable[..., Path]) -> None:
        path = write()
        module: ModuleType = importlib.import_module("fruit")
        path.write_text("# a longer source now\n" + FRUIT)
        with patcher(WHOLE):
            assert module.plain() == "apple"


def test_a_reference_to_a_function_of_the_rules(write: Callable[..., Path]) -> None:
    write()

    def calling(tree: ast.Module, source: pc.Source) -> list[int]:
        lines = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value == "apple":
                node.value = ast.Call(
                    source.reference("functools:reduce"), [ast.Name("max", ast.Load()), node.value], []
                )
                ast.fix_missing_locations(ast.copy_location(node.value, node))
                lines.append(node.lineno)
        return lines

    module = importlib.import_module("fruit")
    for rules in (WHOLE, BY_FUNCTION):
        with patcher(rules.evolve(edit=calling)):
            assert module.plain() == functools.reduce(max, "apple")
            assert "_@functools:reduce" in vars(module)
            write("fruit_two")
            assert importlib.import_module("fruit_two").plain() == "p"
            del sys.modules["fruit_two"]
        assert "_@functools:reduce" not in vars(module)


def test_the_name_of_a_reference_has_no_dots() -> None:
    """torch.compile takes a name with dots for a chain of attributes."""
    reference = pc.Source("fruit", "fruit.py", "").reference("os.path:basename")
    assert reference.id == "_@os/path:basename"


def test_a_function_that_is_running_keeps_what_it_uses(write: Callable[..., Path]) -> None:
    write(source='def steps():\n    yield "apple"\n    yield "apple"\n')

    def calling(tree: ast.Module, source: pc.Source) -> list[int]:
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Yield)]
        for node in found:
            node.value = ast.Call(source.reference("functools:reduce"), [ast.Name("max", ast.Load()), node.value], [])
            ast.fix_missing_locations(ast.copy_location(node.value, node))
        return [node.lineno for node in found]

    with patcher(WHOLE.evolve(edit=calling)):
        module = importlib.import_module("fruit")
        running = module.steps()
        assert next(running) == "p"
    assert list(running) == ["p"]
    assert list(module.steps()) == ["apple", "apple"]
