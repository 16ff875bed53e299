"""patchcore adopt: a plugin of a program's own patches, which then does the same for the program without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchcore.builtin.adopt.adoption import adopt

ROOT = Path(__file__).resolve().parents[3]

LIBRARY = """
import functools

def scale(x):
    return x

def clip(x):
    return x

class Shop:
    def price(self):
        return 10

    def plan(self):
        return 20

    @staticmethod
    def name():
        return "shop"

class Branch(Shop):
    pass

def rate(x):
    return x

def clear(x):
    return x

def dear(x):
    return x

def sold(x, by=1):
    return x * by

def left(x):
    return x

def twice(x):
    return x
"""
USER = """
from biglib import scale

def scaled(x):
    return scale(x) + 100
"""
OTHER = """
def sold(x):
    return 4 * x

def plus(function):
    def added(*args):
        return function(*args) + 1

    return added

import fast

@fast.traced
def decorated(x):
    return x + 1000

class Call:
    def __call__(self, x):
        return x + 2000

called = Call()

def times(by):
    def made(function):
        return lambda *args: function(*args) * by

    return made
"""
FAST = """
import functools

def scale(x):
    return 2 * x

def price(self):
    return 7

class Kernels:
    @staticmethod
    def clip(x):
        return min(x, 5)

def extra(x):
    return -x

def traced(function):
    @functools.wraps(function)
    def traced_function(*args):
        return function(*args)

    return traced_function

def doubled(function, by=2):
    def doubled_function(*args):
        return by * function(*args)

    return doubled_function
"""
PATCHED = """
import biglib, fast, other, user
biglib.scale = user.scale = fast.scale
biglib.clip = fast.Kernels.clip
biglib.extra = fast.extra
biglib.Shop.price = fast.price
biglib.Shop.name = staticmethod(fast.traced(biglib.Shop.name))
biglib.rate = other.plus(fast.doubled(biglib.rate))
biglib.twice = other.plus(biglib.twice)
biglib.twice = other.plus(biglib.twice)
biglib.sold = other.sold
biglib.clear = other.decorated
biglib.dear = other.called
biglib.Branch.price = fast.traced(biglib.Branch.price)
biglib.Branch.plan = fast.price
"""
LEFT = "biglib.left = other.times(3)(biglib.left)\n"
USE = """
import biglib, user
print(biglib.scale(3), biglib.clip(9), biglib.extra(1), biglib.Shop().price(), biglib.Shop.name(), biglib.Shop().name())
print(biglib.rate(5), biglib.twice(5), user.scaled(1), biglib.sold(2))
print(biglib.clear(1), biglib.dear(1), biglib.Branch().price(), biglib.Branch().plan())
"""


class Place:
    def __init__(self, folder: Path, path: list[str]) -> None:
        self.folder = folder
        self.path = path

    def run(self, *arguments: object, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
        names = [*map(str, path), *self.path, str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(names), "PATCHCORE_PLUGINS": ""}
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )


@pytest.fixture
def place(make_package: Any, tmp_path: Path) -> Place:
    folder = make_package({"biglib": LIBRARY, "fast": FAST, "other": OTHER, "user": USER})
    (tmp_path / "train.py").write_text(f"{PATCHED}{LEFT}{USE}")
    (tmp_path / "plain.py").write_text(USE)
    return Place(tmp_path, [str(folder)])


def test_the_plugin_does_what_the_program_did(place: Place) -> None:
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--", "train.py")
    assert done.returncode == 0, done.stderr
    assert "\n  shop.fast" in done.stdout
    conflicts, _, left = done.stdout.partition("Left in the program")
    assert "biglib:left" in left
    assert left.count("biglib:") == 1
    assert "applied twice" in conflicts.partition("declared as they were")[2]
    package = place.folder / "shop-npu"
    assert place.run("-m", "pytest", "-q", "-p", "no:cacheprovider", package, path=(package,)).returncode == 0
    original = place.run("train.py")
    assert original.stdout == "6 5 -1 7 shop shop\n11 7 102 8\n1001 2001 7 7\n"
    adopted = place.run("-m", "patchcore", "run", "-q", "-p", "shop_npu.plugin", "plain.py", path=(package,))
    assert (adopted.stdout, adopted.returncode) == (original.stdout, 0), adopted.stderr
    assert place.run("plain.py").returncode == 1  # the patches were needed


def test_layers_of_one_place_are_patches_in_the_order_in_which_they_were_applied(place: Place) -> None:
    place.run("-m", "patchcore", "adopt", "shop-npu", "--", "train.py")
    code = (place.folder / "shop-npu" / "shop_npu" / "plugin.py").read_text(encoding="utf-8")
    parts = [part for part in code.split("\n\n") if "pc.Patch(" in part]
    text = "\n".join(parts)
    first, second = (
        text.index('"biglib:rate", factory="fast:doubled"'),
        text.index('"biglib:rate", factory="other:plus"'),
    )
    assert first < second
    assert text.count('"biglib:twice", factory="other:plus"') == 2
    assert 'after=["shop.other"]' in text  # the second one of those
    readme = (place.folder / "shop-npu" / "README.md").read_text(encoding="utf-8")
    assert "`user:scale`: follows `biglib:scale`" in readme
    assert "user:scale" not in text
    assert 'signatures="any"' in text.partition('"shop.other"')[2]
    assert "- `biglib:sold`: " in readme.partition("does not accept every call")[2]


def test_patches_can_wait_for_an_import(place: Place) -> None:
    place.run("-m", "patchcore", "adopt", "shop-npu", "--phase", "after:user", "--", "train.py")
    package = place.folder / "shop-npu"
    adopted = place.run("-m", "patchcore", "run", "-q", "-p", "shop_npu.plugin", "plain.py", path=(package,))
    assert (adopted.stdout, adopted.returncode) == (place.run("train.py").stdout, 0), adopted.stderr
    (place.folder / "early.py").write_text("import biglib\nprint(biglib.scale(3))\n")
    assert place.run("-m", "pytest", "-q", "-p", "no:cacheprovider", package, path=(package,)).returncode == 0
    early = place.run("-m", "patchcore", "run", "-q", "-p", "shop_npu.plugin", "early.py", path=(package,))
    assert early.stdout == "3\n"


MAKES = """
import sys, types
import fast

def make(name, **names):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(names)
    package, _, tail = name.rpartition(".")
    if package:
        setattr(sys.modules[package], tail, module)

make("quick")
make("quick.norms", norm=fast.scale, lost=lambda x: x, LIMIT=3)
"""
NEEDS_MADE = """
import quick

print(quick.norms.norm(4), hasattr(quick, "lost"))
import biglib
print(biglib.scale(3))
"""


def test_modules_that_the_program_makes_are_made_by_the_plugin_before_any_phase(place: Place) -> None:
    (place.folder / "train.py").write_text(f"{MAKES}import biglib\nbiglib.scale = fast.scale\n{NEEDS_MADE}")
    (place.folder / "plain.py").write_text(NEEDS_MADE + "import user\nprint(biglib.scale(3))\n")
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--phase", "after:user=biglib", "--", "train.py")
    assert done.returncode == 0, done.stderr
    left = done.stdout.partition("Left in the program")[2]
    assert [name in left for name in ("quick.norms:lost", "quick.norms:LIMIT", "quick.norms:norm")] == [
        True,
        True,
        False,
    ]
    package = place.folder / "shop-npu"
    code = (package / "shop_npu" / "plugin.py").read_text(encoding="utf-8")
    assert code.count("pc.DummyImport(") == 1
    assert code.count('phase="after:user"') == 1
    assert place.run("-m", "pytest", "-q", "-p", "no:cacheprovider", package, path=(package,)).returncode == 0
    adopted = place.run("-m", "patchcore", "run", "-q", "-p", "shop_npu.plugin", "plain.py", path=(package,))
    assert (adopted.stdout, adopted.returncode) == ("8 False\n3\n6\n", 0), adopted.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--phase", "after:user=biglib", "--phase", "after:other=biglib"), "biglib waits for after:user already"),
        (
            ("--phase", "after:user", "--phase", "after:other"),
            "every patch waits for after:user already; name one phase",
        ),
        (("--phase", "after:user="), "expected a phase, or after:MODULE=PACKAGE for the patches of a package"),
        (("--phase", "after:user=biglip"), "the program patches nothing in biglip; did you mean 'biglib'?"),
        (("--only", "fasd"), "the program has no patch of fasd; did you mean 'fast'?"),
    ],
)
def test_names_in_options_are_checked(place: Place, options: tuple[str, ...], message: str) -> None:
    done = place.run("-m", "patchcore", "adopt", "shop-npu", *options, "--", "train.py")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (place.folder / "shop-npu").exists()


def test_the_tests_pass_where_the_lines_of_a_library_have_added_a_name_already(place: Place) -> None:
    (place.folder / "adds.py").write_text("import biglib, fast\nbiglib.extra = fast.extra\nbiglib.clear = fast.scale\n")
    (place.folder / "train.py").write_text("import adds, biglib\nprint(biglib.extra(1), biglib.clear(2))\n")
    place.run("-m", "patchcore", "adopt", "shop-npu", "--phase", "after:adds", "--", "train.py")
    package = place.folder / "shop-npu"
    test = ("-m", "pytest", "-q", "-p", "no:cacheprovider", package)
    done = place.run(*test, path=(package, place.folder))
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout
    plugin = package / "shop_npu" / "plugin.py"
    plugin.write_text(plugin.read_text().replace('"fast:scale"', '"fast:absent"'))
    done = place.run(*test, path=(package, place.folder))
    assert "1 failed" in done.stdout, done.stdout


def test_only_some_makers_are_adopted_and_packages_wait_each_for_its_phase() -> None:
    rows = [
        row("lib:a", layers="shop 1.0: shop.code:a"),
        row("lib:b", by="cart 2", layers="shop 1.0: shop.code:b\ncart 2: cart.code:b"),
        row("lib:c", by="cart 2", layers="cart 2: cart.code:c"),
        row("lib:d", by="cart 2", layers=""),
        row("lib:e", by="cart 2", follows="lib:c"),
        row("core.x:f", layers="shop 1.0: shop.code:f"),
        row("core.y:f", layers="shop 1.0: shop.code:f", follows="core.x:f"),
    ]
    adoption = adopt(rows, only=["shop"], phases={"": "training", "core": "after:core"})
    found = [(group.maker, group.phase, [change.target for change in group.changes]) for group in adoption.groups]
    assert found == [("shop 1.0", "training", ["lib:a", "lib:b"]), ("shop 1.0", "after:core", ["core.x:f"])]
    assert (adoption.left, adoption.followers) == ((), {"core.y:f": "core.x:f"})
    whole = adopt(rows)
    assert [each.target for each in whole.left] == ["lib:d"]
    assert {group.phase for group in whole.groups} == {""}


def test_split_makes_a_patch_for_each_module_of_new_code() -> None:
    rows = [row("lib:a", layers="shop 1.0: shop.norms:a"), row("lib:b", layers="shop 1.0: shop.ropes:b()")]
    assert [group.name for group in adopt(rows).groups] == ["shop"]
    assert [group.name for group in adopt(rows, split=True).groups] == ["shop_norms", "shop_ropes"]


def test_two_makers_in_either_order_become_three_patches() -> None:
    rows = [row("lib:x", layers="a 1: a:f()\nb 1: b:f()"), row("lib:y", layers="b 1: b:g()\na 1: a:g()")]
    found = [(group.name, group.after, [c.replacement for c in group.changes]) for group in adopt(rows).groups]
    assert found == [("a", (), ["a:f()"]), ("b", ("a",), ["b:f()", "b:g()"]), ("a_2", ("b",), ["a:g()"])]


@pytest.mark.parametrize("more", [0, 3])
def test_a_patch_of_a_base_class_comes_before_one_of_what_a_class_inherits(more: int) -> None:
    base = row("lib:Base.f", layers="a 1: a:f", after="a.py:2")
    below = row("lib:Sub.f", layers="b 1: b:wrap()", after="b.py:7", inherited="a.py:2")
    others = [row(f"lib:x{number}", layers="b 1: b:x") for number in range(more)]  # b has the most places
    found = [(group.name, group.after) for group in adopt([*others, below, base]).groups]
    assert found == [("a", ()), ("b", ("a",))]
    own = row("lib:Sub.f", layers="a 1: a:wrap()", after="a.py:7", inherited="a.py:2")
    (group,) = adopt([own, base]).groups
    assert [change.target for change in group.changes] == ["lib:Base.f", "lib:Sub.f"]


def test_two_layers_of_a_base_class_are_both_below() -> None:
    base = row("lib:Base.f", layers="b 1: b:f()\na 1: a:f()", after="a.py:2")
    below = row("lib:Sub.f", layers="b 1: b:wrap()", after="b.py:7", inherited="a.py:2")
    found = [(group.name, group.after, [c.target for c in group.changes]) for group in adopt([below, base]).groups]
    assert found == [
        ("b", (), ["lib:Base.f"]),
        ("a", ("b",), ["lib:Base.f"]),
        ("b_2", ("b", "a"), ["lib:Sub.f"]),
    ]


def test_a_base_class_and_a_class_of_two_makers_do_what_the_program_did(place: Place) -> None:
    tools = {
        "alpha": "import biglib\ndef price(self): return 7\nbiglib.Shop.price = price",
        "zulu": """
import biglib, alpha
def one(x): return 1
def plus(function):
    def added(self):
        return function(self) + 100
    return added
biglib.scale = biglib.clip = biglib.clear = one
biglib.Branch.price = plus(biglib.Branch.price)
""",
    }
    for name, code in tools.items():
        (place.folder / f"{name}.py").write_text(code)
    use = "import biglib\nprint(biglib.Shop().price(), biglib.Branch().price(), biglib.scale(5))\n"
    (place.folder / "train.py").write_text(f"import zulu\n{use}")
    (place.folder / "plain.py").write_text(use)
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--", "train.py")
    assert done.returncode == 0, done.stderr
    package = place.folder / "shop-npu"
    for name, code in tools.items():  # without the lines that patch
        (place.folder / f"{name}.py").write_text(
            "".join(line for line in code.splitlines(keepends=True) if not line.startswith("biglib."))
        )
    code = (package / "shop_npu" / "plugin.py").read_text(encoding="utf-8")
    assert 'after=["shop.' in code
    adopted = place.run("-m", "patchcore", "run", "-q", "-p", "shop_npu.plugin", "plain.py", path=(package,))
    assert (adopted.stdout, adopted.returncode) == ("7 107 1\n", 0), adopted.stderr


def test_the_targets_have_fingerprints(place: Place) -> None:
    other = place.folder / "shop_npu"  # beside the program: another package of that name
    other.mkdir()
    (other / "__init__.py").write_text("")
    (other / "plugin.py").write_text("")
    place.run("-m", "patchcore", "adopt", "shop-npu", "--", "train.py")
    assert (place.folder / "shop-npu" / "shop_npu" / "fingerprints.json").is_file()
    assert not (other / "fingerprints.json").exists()


def test_a_program_that_fails_or_patches_nothing_leaves_no_folder(place: Place) -> None:
    (place.folder / "fails.py").write_text("raise SystemExit(3)\n")
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--", "fails.py")
    assert (done.returncode, "nothing is written" in done.stderr) == (3, True)
    (place.folder / "nothing.py").write_text("import biglib\n")
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--", "nothing.py")
    assert (done.returncode, "makes no patch that can be declared" in done.stderr) == (2, True)
    assert not (place.folder / "shop-npu").exists()


def test_a_program_is_expected(place: Place) -> None:
    done = place.run("-m", "patchcore", "adopt", "shop-npu")
    assert (done.returncode, "expected a program: patchcore adopt shop-npu -- train.py" in done.stderr) == (2, True)


def row(target: str, **facts: str) -> dict[str, str]:
    common = dict.fromkeys(
        (
            "known",
            "conflict",
            "written at",
            "version",
            "patches",
            "follows",
            "before",
            "imports the target",
            "misfit",
            "inherited",
            "contents",
        ),
        "",
    )
    return {
        **common,
        "target": target,
        "kind": "replaced",
        "by": "shop 1.0",
        "owner": "lib 1.0",
        "after": "x",
        "layers": "shop 1.0: a:b",
        **facts,
    }


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"kind": "removed"}, "takes nothing away"),
        ({"kind": "body"}, "wrap the function"),
        ({"kind": "module"}, "pc.ReplaceImport"),
        ({"kind": "module", "before": "nothing"}, "pc.StubImport"),
        ({"conflict": "two owners: patchcore and b"}, "a conflict: two owners"),
        ({"layers": ""}, "no name leads to x"),
    ],
)
def test_what_cannot_be_declared_has_its_reason(facts: dict[str, str], why: str) -> None:
    adoption = adopt([row("lib:name", **facts)])
    assert not adoption.groups
    assert why in adoption.left[0].why


def test_patches_of_patchcore_and_known_ones_are_passed_over() -> None:
    assert adopt([row("lib:a", by="patchcore"), row("lib:b", known="lib.py")]) == ((), (), {}, {}, ())


def test_a_patch_requires_the_version_on_which_it_was_seen() -> None:
    (group,) = adopt([row("torch.nn:Linear", version="2.13.0+cpu")]).groups
    assert (group.name, group.requires) == ("shop", ("torch==2.13.0",))
