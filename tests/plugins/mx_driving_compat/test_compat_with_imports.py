"""with_imports of the mx_driving.patcher API: imports at the first call, and what is missing is said there."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import sys
import threading
from typing import Any, Callable

import pytest

from mx_driving_compat.imports.with_imports import with_imports
from mx_driving_compat.messages.logger import patcher_logger
from patchcore.errors import DeclarationError

KIT = {
    "kit": "LEVEL = 1",
    "kit.ops": """
        def conv(x): return ("conv", x)
        def pool(x): return ("pool", x)
        def sum(x): return ("kit", x)
        """,
    "kit.decorators": """
        def tag(*args, **kwargs):
            def decorate(function):
                def tagged(*a, **k):
                    return ("tag", args, kwargs, function(*a, **k))
                return tagged
            return decorate
        def plain(function):
            def tagged(*a, **k):
                return ("plain", function(*a, **k))
            return tagged
        """,
    "kit.broken": "import nothing_of_this_name",
}

HEAD = "from mx_driving_compat.imports.with_imports import with_imports\n"


@pytest.fixture
def migration(make_package: Any) -> Callable[[str], Any]:
    """Return a function that imports source as the module ``migration``, next to the library ``kit``."""

    def load(source: str) -> Any:
        make_package({**KIT, "migration": ""})
        folder = make_package({})
        (folder / "migration.py").write_text(HEAD + inspect.cleandoc(source))
        importlib.invalidate_caches()
        return importlib.import_module("migration")

    return load


def warnings_in(records: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in records.records if record.levelno == logging.WARNING]


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The records of the patcher's logger, all levels."""
    caplog.set_level(logging.DEBUG, "mx_driving.patcher")
    logger = logging.getLogger("mx_driving.patcher")
    patcher_logger._logger()  # set up, which would turn propagation off at the first record
    before = logger.propagate
    logger.propagate = True
    yield caplog
    logger.propagate = before


# --- what is bound --------------------------------------------------------------------------------------------------


SPECS = [
    pytest.param('"kit.ops"', "ops.conv(x)", id="the last part of a module"),
    pytest.param('("kit.ops", "conv")', "conv(x)", id="a name"),
    pytest.param('("kit.ops", "pool", "conv")', "pool(conv(x)[1])[:0] + conv(x)", id="names"),
    pytest.param('("kit.ops", "conv", "convolve")', "convolve(x)", id="an alias"),
    pytest.param('("kit.ops", "conv", "convolve")', "conv(x)", id="what has an alias"),
    pytest.param('("kit", "ops")', "ops.conv(x)", id="a submodule that nobody has imported"),
    pytest.param('["kit.ops", "conv"]', "conv(x)", id="a list"),
    pytest.param('("kit.ops",)', "ops.conv(x)", id="a tuple of the module alone"),
]


@pytest.mark.parametrize(("specs", "result"), SPECS)
def test_names_are_there_when_the_function_is_called(migration: Callable[[str], Any], specs: str, result: str) -> None:
    module = migration(f"@with_imports({specs})\ndef function(x): return {result}")
    assert "kit" not in sys.modules
    assert module.function(1) == ("conv", 1)
    assert module.function(2) == ("conv", 2)


# --- the function stays what it is ----------------------------------------------------------------------------------


FORMS = """
    class Head:
        scale = 3

        @with_imports(("kit.ops", "conv"))
        def method(self, x): return conv(x * self.scale)

        @with_imports(("kit.ops", "conv"))
        @staticmethod
        def static_inside(x): return conv(x)

        @with_imports(("kit.ops", "conv"))
        @classmethod
        def klass_inside(cls, x): return conv(x * cls.scale)
"""


@pytest.mark.parametrize(("name", "result"), [("method", 6), ("static_inside", 2), ("klass_inside", 6)])
def test_methods_of_every_kind_get_what_they_get_undecorated(
    migration: Callable[[str], Any], name: str, result: int
) -> None:
    head = migration(FORMS).Head
    assert getattr(head(), name)(2) == ("conv", result)
    if name != "method":
        assert getattr(head, name)(2) == ("conv", result)


def test_defaults_closures_and_attributes_are_kept(migration: Callable[[str], Any]) -> None:
    for own in ("", "conv = None\n"):  # in the module, and in a copy of its names
        sys.modules.pop("migration", None)
        module = migration(
            own
            + '''
def make(offset):
    @with_imports(("kit.ops", "conv"))
    def function(x: int = 1, *, y: int = 2) -> tuple:
        """Documented."""
        return conv(x + y + offset)
    return function
'''
        )
        function = module.make(10)
        assert function() == ("conv", 13)
        assert function(2, y=3) == ("conv", 15)
        assert str(inspect.signature(function)).replace("'", "") == "(x: int = 1, *, y: int = 2) -> tuple"
        assert (function.__qualname__, function.__doc__) == ("make.<locals>.function", "Documented.")


# --- globals --------------------------------------------------------------------------------------------------------


def test_a_name_that_only_a_function_inside_uses_counts_as_used(
    migration: Callable[[str], Any], records: pytest.LogCaptureFixture
) -> None:
    module = migration(
        """
        conv = None

        @with_imports(("kit.ops", "conv"), ("kit.ops", "lost"))
        def function(x):
            def inner(): return conv(x)
            def losing(): return lost
            return inner()
        """
    )
    assert module.function(1) == ("conv", 1)
    (warning,) = warnings_in(records)
    assert "kit.ops has no 'lost'" in warning


def test_writes_that_the_module_cannot_see_are_warned_of(
    migration: Callable[[str], Any], records: pytest.LogCaptureFixture
) -> None:
    module = migration(
        """
        counter = 0
        conv = None

        @with_imports(("kit.ops", "conv"))
        def function():
            global counter
            counter += 1
            return conv(counter)
        """
    )
    assert [module.function(), module.function()] == [("conv", 1), ("conv", 2)]
    assert module.counter == 0
    warnings = [record.getMessage() for record in records.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "migration:function" in warnings[0]
    assert "writes to global counter" in warnings[0]


def test_names_that_are_imported_and_not_used_do_not_make_a_copy(migration: Callable[[str], Any]) -> None:
    module = migration(
        """
        counter = 0
        pool = "mine"

        @with_imports(("kit.ops", "conv", "pool", "sum"))
        def function():
            global counter
            counter += 1
            return conv(counter)
        """
    )
    module.function()
    assert (module.counter, module.pool, hasattr(module, "sum")) == (1, "mine", False)


# --- other decorators -----------------------------------------------------------------------------------------------


def test_stacked_with_imports_adds_up(migration: Callable[[str], Any]) -> None:
    module = migration(
        """
        @with_imports(("kit.decorators", "tag"), "@tag(2)")
        @with_imports(("kit.ops", "conv"), ("kit.decorators", "plain"), "@plain")
        def function(x): return conv(x)
        """
    )
    assert module.function(1) == ("tag", (2,), {}, ("plain", ("conv", 1)))


def test_names_go_to_the_function_that_a_decorator_below_has_wrapped(migration: Callable[[str], Any]) -> None:
    module = migration(
        """
        from contextlib import contextmanager

        @with_imports(("kit.ops", "conv"))
        @contextmanager
        def managed(x): yield conv(x)
        """
    )
    with module.managed(1) as value:
        assert value == ("conv", 1)
    assert not hasattr(contextlib, "conv")


def test_a_copy_cannot_be_made_of_what_another_decorator_has_wrapped(migration: Callable[[str], Any]) -> None:
    module = migration(
        """
        import functools
        conv = None

        @with_imports(("kit.ops", "conv"))
        @functools.lru_cache(maxsize=None)
        def cached(x): return conv(x)
        """
    )
    with pytest.raises(DeclarationError, match=r"(?s)migration:cached .*conv means something else.*right above def"):
        module.cached(1)


EXPRESSIONS = [
    pytest.param("@decorators.plain", ("plain", 1), id="a name"),
    pytest.param("@ decorators . tag ( ) ", ("tag", (), {}, 1), id="unknown arguments"),
    pytest.param(
        "@decorators.tag(1, 'a', -2.5, None, True, apply_to=('q', 'k'), kinds={'a': [1]}, some={3})",
        ("tag", (1, "a", -2.5, None, True), {"apply_to": ("q", "k"), "kinds": {"a": [1]}, "some": {3}}, 1),
        id="literals",
    ),
    pytest.param("@decorators.tag(kinds=(MINE, int))", ("tag", (), {"kinds": ("mine", int)}, 1), id="names within"),
]


@pytest.mark.parametrize(("text", "result"), EXPRESSIONS)
def test_decorators_are_read_without_eval(migration: Callable[[str], Any], text: str, result: Any) -> None:
    module = migration(
        f"""
        MINE = "mine"

        @with_imports("kit.decorators", {text!r})
        def function(x): return x
        """
    )
    assert "kit" not in sys.modules
    assert module.function(1) == result


@pytest.mark.parametrize(
    "text",
    ["@tag(lambda: 1)", "@tag(x=open('f'))", "@tag((1, f()))", "@tag(**{})", "@tag(*[1])", "@tag({**a})", "@tag(1)(2)"]
    + ["@1", "@tag(", "@", "@a), (b"],
)
def test_a_decorator_that_is_more_than_a_call_is_refused_where_it_stands(text: str) -> None:
    with pytest.raises(DeclarationError) as error:
        with_imports("kit.decorators", text)
    assert f"with_imports({text!r})" in str(error.value)


def test_decorators_by_path_import_what_they_need(migration: Callable[[str], Any]) -> None:
    module = migration(
        """
        @with_imports(apply_decorators=[("kit.decorators.plain", {}), ("kit.decorators.tag", {"a": 1})])
        def function(x): return x
        """
    )
    assert module.function(1) == ("tag", (), {"a": 1}, ("plain", 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('"kit.decorators", "@decorators.plain(1, 2)"', "'@decorators.plain(1, 2)': TypeError"),
        ('"kit.decorators", "@decoratorz.tag(1)"', "name 'decoratorz' is not defined"),
        ('apply_decorators=[("kit.decorators.tagg", {})]', "has no attribute 'tagg'"),
    ],
)
def test_a_decorator_that_is_not_there_is_left_out_with_a_warning(
    migration: Callable[[str], Any], records: pytest.LogCaptureFixture, arguments: str, message: str
) -> None:
    module = migration(f"@with_imports({arguments})\ndef function(x): return x")
    assert [module.function(1), module.function(2)] == [1, 2]
    said = " ".join(warnings_in(records))
    assert "migration:function" in said
    assert message in said


# --- what is missing ------------------------------------------------------------------------------------------------


MISSING = [
    pytest.param('"kitt.ops"', "ops", "No module named 'kitt'", id="module"),
    pytest.param('("kit.ops", "convv")', "convv", "kit.ops has no 'convv'; did you mean 'conv'?", id="name"),
    pytest.param('("kit.ops", "convv", "c")', "c", "kit.ops has no 'c'", id="alias"),
    pytest.param('("kit", "broken")', "broken", "No module named 'nothing_of_this_name'", id="broken submodule"),
]


@pytest.mark.parametrize(("spec", "name", "message"), MISSING)
def test_what_is_used_and_missing_is_a_warning_of_the_first_call(
    migration: Callable[[str], Any], records: pytest.LogCaptureFixture, spec: str, name: str, message: str
) -> None:
    module = migration(f"\n@with_imports({spec})\ndef function(flag):\n    if flag: return {name}\n    return 1")
    assert [module.function(False), module.function(False)] == [1, 1]
    (warning,) = warnings_in(records)
    assert "migration:function" in warning
    assert f"{module.__file__}:2" in warning
    assert f"with_imports({spec[1:-1]!r})" in warning or spec.replace('"', "'") in warning
    assert message in warning
    with pytest.raises(NameError, match=name):
        module.function(True)


def test_what_the_function_does_not_use_or_its_module_has_may_be_missing(
    migration: Callable[[str], Any], records: pytest.LogCaptureFixture
) -> None:
    module = migration(
        """
        absent = None

        @with_imports("absent", "nothing_there", ("kit.ops", "len", "more"))
        def function(): return absent, len([1])
        """
    )
    assert module.function() == (None, 1)
    assert not warnings_in(records)


def test_other_errors_of_an_import_reach_the_caller(migration: Callable[[str], Any], make_package: Any) -> None:
    module = migration('@with_imports("failing")\ndef function(): return failing')
    make_package({"failing": "raise RuntimeError('no driver')"})
    with pytest.raises(RuntimeError, match="no driver"):
        module.function()


# --- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec", ["", ".ops", "kit ops", (), ("kit", 1), ("kit", "*"), ("kit", "a.b"), (None, "a"), len]
)
def test_a_malformed_specification_is_refused(spec: Any) -> None:
    with pytest.raises(DeclarationError, match="with_imports") as error:
        with_imports(spec)
    assert ("write @with_imports(...)" in str(error.value)) is callable(spec)


@pytest.mark.parametrize("entry", ["kit.plain", ("kit.plain",), ("kit.plain", None), (1, {}), ("kit plain", {})])
def test_a_malformed_path_of_a_decorator_is_refused(entry: Any) -> None:
    with pytest.raises(DeclarationError, match="apply_decorators"):
        with_imports(apply_decorators=[entry])


@pytest.mark.parametrize(
    "thing", [3, len, int, property(lambda self: 1)], ids=["number", "builtin", "class", "property"]
)
def test_only_functions_are_decorated(thing: Any) -> None:
    with pytest.raises(DeclarationError, match="decorates functions"):
        with_imports("json")(thing)


# --- threads --------------------------------------------------------------------------------------------------------


def test_threads_that_call_at_once_get_one_function(migration: Callable[[str], Any]) -> None:
    module = migration(
        """
        made = []

        def count(function):
            made.append(function)
            return function

        @with_imports(("kit.ops", "conv"), "@count")
        def function(x): return conv(x)
        """
    )
    barrier = threading.Barrier(8)
    results: list[Any] = []

    def call(x: int) -> None:
        barrier.wait()
        results.append(module.function(x))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [("conv", i) for i in range(8)]
    assert len(module.made) == 1


def test_a_module_that_calls_the_function_while_it_is_imported_for_it(
    migration: Callable[[str], Any], make_package: Any
) -> None:
    module = migration('@with_imports("calling")\ndef function(): return calling.VALUE')
    make_package({"calling": "import migration\nVALUE = 1\nCALLED = migration.function()"})
    assert module.function() == 1
    assert sys.modules["calling"].CALLED == 1
