"""Names bound by value follow the patched slot, come back with it, and stay where the replacement needs them."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import pytest
from library import NewNet, load, new, replace

import patchcore

pytestmark = pytest.mark.usefixtures("registries")


def test_every_reference_is_rebound_and_restored_to_the_identical_object(make_package) -> None:
    user = """
        from lib.ops import conv, conv as renamed
        from lib.registry import MODELS
        MODELS._module_dict["conv"] = conv
        class User:
            op = conv
            static = staticmethod(conv)
            class Inner:
                op = staticmethod(conv)
        """
    m = load(make_package, {"user": user, "third": "import lib\nclass Third:\n    op = lib.ops.conv"})
    classes = [m.user.User, m.user.User.Inner, m.third.Third]
    spaces = [m.lib, m.ops, m.user, m.third, *classes]
    before = [dict(vars(space)) for space in spaces]
    table = dict(m.registry.MODELS._module_dict)
    with replace("lib.ops:conv") as patcher:
        assert m.lib.conv is m.user.conv is m.user.renamed is new
        assert m.registry.MODELS._module_dict["conv"] is new
        assert m.user.User.op is m.user.User.static is m.user.User.Inner.op is m.third.Third.op is new
        assert set(patcher.report()["p"].changes[0].rebound) == {
            "lib:conv",
            "user:conv",
            "user:renamed",
            "user:MODELS['conv']",
            "user:User.op",
            "user:User.static",
            "user:User.Inner.op",
            "third:Third.op",
        }
    for space, kept in zip(spaces, before):
        assert kept.keys() == vars(space).keys()
        assert all(kept[key] is vars(space)[key] for key in kept), space
    assert table == m.registry.MODELS._module_dict


def test_a_class_registered_while_its_module_is_imported_is_rebound_in_the_registry(make_package) -> None:
    source = "from lib.registry import MODELS\n@MODELS.register\nclass Mine: ..."
    m = load(make_package, {"plugin": "class Fast: ..."})
    make_package({"user": source})
    with replace("user:Mine", m.plugin.Fast):
        user = importlib.import_module("user")
        assert user.Mine is m.registry.MODELS._module_dict["Mine"] is m.plugin.Fast
    assert user.Mine is m.registry.MODELS._module_dict["Mine"]
    assert user.Mine is not m.plugin.Fast


@pytest.mark.xfail(
    reason="every name that holds the replacement is taken to have it from the patched slot", strict=True
)
def test_a_name_that_takes_the_replacement_from_elsewhere_while_patched_keeps_it(make_package) -> None:
    m = load(make_package, {})
    make_package({"late": "ratio = divmod\nclass Late:\n    op = divmod"})
    with replace("lib.ops:conv", divmod):
        late = importlib.import_module("late")
        assert m.ops.conv is divmod
    assert m.ops.conv is not divmod
    assert late.ratio is late.Late.op is divmod


def test_a_name_taken_while_patched_is_restored_too(make_package) -> None:
    m = load(make_package, {})
    make_package({"late": "from lib.ops import conv as c\nclass Late:\n    op = staticmethod(c)"})
    original = m.ops.conv
    with replace("lib.ops:conv"):
        late = importlib.import_module("late")
        assert late.c is late.Late.op is new
    assert late.c is late.Late.op is original
    assert type(vars(late.Late)["op"]) is staticmethod


def test_the_replacement_s_own_names_stay(make_package) -> None:
    plugin = "def fast(x): return ('fast', x)\nagain = fast\nclass Holder:\n    op = staticmethod(fast)"
    m = load(make_package, {"plugin": plugin, "plugin_user": "from plugin import fast"})
    fast, static = m.plugin.fast, vars(m.plugin.Holder)["op"]
    with replace("lib.ops:conv", fast):
        assert m.ops.conv is fast
    assert m.plugin.fast is m.plugin.again is m.plugin_user.fast is fast
    assert vars(m.plugin.Holder)["op"] is static
    assert m.ops.conv is not fast


@pytest.mark.parametrize("by_text", [True, False])
@pytest.mark.parametrize(
    "source",
    [
        """
        from lib.ops import conv
        def fast(x): return "fast", conv(x)
        """,
        """
        from lib.ops import conv as original
        def helper(x): return original(x)
        def fast(x): return "fast", helper(x)
        """,
        """
        from lib.ops import conv
        def make():
            inner = lambda x: conv(x)
            return lambda x: ("fast", inner(x))
        fast = make()
        """,
        """
        import functools
        from lib.ops import conv
        def _fast(y, x): return "fast", conv(x)
        fast = functools.partial(_fast, 0)
        """,
        """
        from lib.ops import conv
        class Fast:
            def __call__(self, x): return "fast", conv(x)
        fast = Fast()
        """,
        """
        from lib.ops import conv
        def fast(x): return "fast", [conv(y) for y in [x]][0]
        """,
    ],
    ids=["global", "helper", "closure", "partial", "instance", "nested"],
)
def test_a_replacement_that_calls_the_original_by_name_still_reaches_it(
    make_package, source: str, by_text: bool
) -> None:
    m = load(make_package, {"plugin": source, "user": "from lib.ops import conv"})
    with replace("lib.ops:conv", "plugin:fast" if by_text else m.plugin.fast) as patcher:
        assert m.user.conv(1) == ("fast", ("original", 1))
        assert patcher.report()["p"].changes[0].kept != ()
    assert m.user.conv(1) == ("original", 1)


def test_a_replacement_that_reaches_the_original_through_another_module_of_its_package(make_package) -> None:
    sources = {
        "plugin": "",
        "plugin.kernels": "from lib.ops import conv",
        "plugin.fast": "from plugin import kernels\ndef fast(x): return ('fast', kernels.conv(x))",
    }
    m = load(make_package, sources)
    with replace("lib.ops:conv", m.fast.fast):
        assert m.ops.conv(1) == ("fast", ("original", 1))


OWN_PACKAGE = {
    "plugin": "",
    "plugin.fast": """
        from lib.ops import conv
        from lib.ops import conv as _original_conv
        from lib.ops import Net as _Net
        def fast(x): return ("fast", x)
        class Fast(_Net): pass
        def call_original(x): return _original_conv(x)
        """,
    "plugin.other": "from lib.ops import conv as saved, Net",
    "user": "from lib.ops import conv as act, Net as Base",
}


@pytest.mark.parametrize("by_text", [True, False])
def test_a_name_with_as_in_the_package_of_the_replacement_means_the_original(make_package, by_text: bool) -> None:
    m = load(make_package, OWN_PACKAGE)
    with replace("lib.ops:conv", "plugin.fast:fast" if by_text else m.fast.fast) as patcher:
        assert m.fast.call_original(1) == m.other.saved(1) == ("original", 1)
        assert m.fast.conv is m.user.act is m.fast.fast
        assert set(patcher.report()["p"].changes[0].kept) == {"plugin.fast:_original_conv", "plugin.other:saved"}
    with replace("lib.ops:Net", "plugin.fast:Fast" if by_text else m.fast.Fast):
        assert m.fast._Net is not m.fast.Fast
        assert m.other.Net is m.user.Base is m.fast.Fast
    assert m.fast.conv is m.fast._original_conv is m.user.act is m.ops.conv


def test_in_a_package_that_patches_itself_as_means_no_original(make_package) -> None:
    sources = {"lib.fast": "def fast(x): return ('fast', x)", "lib.user": "from lib.ops import conv as act"}
    m = load(make_package, sources)
    with replace("lib.ops:conv", m.fast.fast):
        assert m.user.act is m.fast.fast


def test_names_that_a_patch_lists_keep_the_original(make_package) -> None:
    m = load(make_package, {**OWN_PACKAGE, "consumer": "from lib.ops import conv\nclass Uses:\n    op = conv"})
    keep = ["user:act", "consumer:Uses.op", "consumer:missing", "not_imported:conv"]
    patch = patchcore.Patch("p", patchcore.Replace("lib.ops:conv", new), keep=keep)
    with patchcore.Patcher([patch], strict=True) as patcher:
        assert m.user.act(1) == m.consumer.Uses.op(1) == ("original", 1)
        assert m.consumer.conv is new
        record = patcher.report()["p"]
        assert set(record.changes[0].kept) >= {"user:act", "consumer:Uses.op"}
        text = "keep: consumer:missing held nothing that the patch changes when its module was imported"
        assert record.remarks == (text,)
    assert m.user.act is m.consumer.Uses.op is m.ops.conv


@pytest.mark.parametrize(
    "change",
    [
        patchcore.Replace("lib.ops:conv", new),
        patchcore.Wrap("lib.ops:conv", lambda original, x: ("wrapped", original(x))),
        patchcore.Replace("lib.ops:conv", new, everywhere=True),
        patchcore.Replace("lib.ops:conv", factory=lambda found: new),
    ],
    ids=["replace", "wrap", "everywhere", "factory"],
)
def test_names_that_a_patch_lists_keep_the_original_when_they_are_imported_later(make_package, change: Any) -> None:
    source = """
        from lib.ops import conv as act, conv
        class Uses:
            op = conv
            plain = staticmethod(conv)
        """
    m = load(make_package, {})
    make_package({"late": source})
    original = m.ops.conv
    keep = ["late:act", "late:Uses.plain", "late:missing", "never:conv"]
    with patchcore.Patcher([patchcore.Patch("p", change, keep=keep)], strict=True) as patcher:
        late = importlib.import_module("late")
        for _ in range(2):
            assert late.act(1) == late.Uses.plain(1) == ("original", 1)
            assert late.conv(1) == m.ops.conv(1) == late.Uses.op(1) != ("original", 1)
            record = patcher.report()["p"]
            assert set(record.changes[0].kept) == {"late:act", "late:Uses.plain"}
            assert record.remarks == (
                "keep: late:missing held nothing that the patch changes when its module was imported",
            )
            late = importlib.reload(late)
    assert late.act is late.Uses.plain is late.conv is m.ops.conv is original
    assert late.act(1) == ("original", 1)


def test_a_class_whose_methods_name_the_original_keeps_that_name(make_package) -> None:
    source = "from lib.ops import Net\nclass Fast(Net):\n    def forward(self, x): return Net.forward(self, x)"
    m = load(make_package, {"plugin": source})
    with replace("lib.ops:Net", m.plugin.Fast):
        assert m.ops.Net is m.plugin.Fast
        assert m.ops.Net().forward(1) == ("forward", 1)


@pytest.mark.parametrize("value", ["'1.0'", "12345678901", "(1, 2)", "None", "True", "1.5"])
def test_a_value_that_others_share_is_never_rebound(make_package, value: str) -> None:
    m = load(make_package, {"user": f"VALUE = {value}"})
    m.third = types.ModuleType("third")
    m.third.SAME = m.user.VALUE
    sys.modules["third"] = m.third
    try:
        with replace("user:VALUE"):
            assert m.user.VALUE is new
            assert m.third.SAME is not new
    finally:
        del sys.modules["third"]


def test_a_consumer_s_alias_changes_nobody_else(make_package) -> None:
    m = load(make_package, {"user": "from lib.ops import conv as c", "third": "from lib.ops import conv"})
    original = m.ops.conv
    with replace("user:c"):
        assert m.user.c is new
        assert m.third.conv is m.ops.conv is m.lib.conv is original
    assert m.user.c is original


def test_a_consumer_s_module_alias_changes_nobody_else(make_package) -> None:
    m = load(make_package, {"user": "import lib.ops as ops", "third": "import lib.ops as ops"})
    with replace("user:ops"):
        assert m.user.ops is new
        assert m.third.ops is sys.modules["lib"].ops is m.ops
    assert m.user.ops is m.ops


def test_an_alias_that_follows_one_slot_is_not_bound_to_another_that_got_the_same(make_package) -> None:
    m = load(make_package, {})
    conv, pool = m.ops.conv, m.ops.pool
    change = patchcore.Replace("lib.ops:pool", new, aliases=["lib.ops:conv", "lib:conv"])
    with patchcore.Patcher([patchcore.Patch("p", [change])], strict=True):
        assert m.ops.pool is m.ops.conv is m.lib.conv is new
    assert m.lib.conv is m.ops.conv is conv
    assert m.ops.pool is pool


@pytest.mark.parametrize("registry", ["lib.registry:MODELS", "lib:MODELS"])
def test_an_entry_of_a_registry_changes_no_name(make_package, registry: str) -> None:
    nets = "from lib.registry import MODELS\n@MODELS.register\nclass Net: pass"
    m = load(make_package, {"lib.nets": nets})
    m.lib.MODELS = m.registry.MODELS
    original = m.nets.Net
    with patchcore.Patcher([patchcore.Patch("p", [patchcore.Register(registry, NewNet, name="Net")])], strict=True):
        assert m.registry.MODELS._module_dict["Net"] is NewNet
        assert m.nets.Net is original
    assert m.registry.MODELS._module_dict["Net"] is m.nets.Net is original


def test_the_name_of_a_class_from_which_classes_of_the_module_derive_is_kept(make_package) -> None:
    make_package(
        {
            "lib": "class Net:\n    def __init__(self): self.made = 'net'",
            "user": """
                from lib import Net as Base
                class Mine(Base):
                    def __init__(self):
                        Base.__init__(self)
                        super(Base, self).__init__()
                class Less(Mine): ...
            """,
            "other": """
                from lib import Net
                def make(): return Net().made
            """,
        }
    )
    import lib
    import other
    import user

    class Fast(lib.Net):
        def __init__(self) -> None:
            super().__init__()
            self.made = "fast"

    with patchcore.Patcher([patchcore.Patch("p", [patchcore.Replace("lib:Net", Fast)])], strict=True) as patcher:
        assert user.Mine().made == user.Less().made == "net"
        assert isinstance(user.Mine(), user.Base)
        assert other.make() == "fast"
        assert patcher.report()["p"].changes[0].kept == ("user:Base",)
    assert user.Base is lib.Net


@pytest.mark.parametrize("target", ["lib:Net", "lib:act"])
def test_what_a_class_or_registry_took_while_patched_goes_back_with_it(make_package, target) -> None:
    name = target.partition(":")[2]
    make_package(
        {
            "lib": "class Net: ...\ndef act(): ...",
            "plug": "class Net: ...\ndef act(): ...",
            "registry": """
                class Registry:
                    def __init__(self): self._module_dict = {}
                MODELS = Registry()
            """,
            "user": f"""
                import lib
                from registry import MODELS
                class Block:
                    kind = lib.{name}
                    made = staticmethod(lib.{name})
                    class Inner:
                        kind = lib.{name}
                MODELS._module_dict["it"] = lib.{name}
            """,
        }
    )
    import lib

    original = getattr(lib, name)
    with patchcore.Patcher([patchcore.Patch("p", [patchcore.Replace(target, f"plug:{name}")])], strict=True):
        import registry
        import user

        new = getattr(lib, name)
        held = lambda: [  # noqa: E731
            user.Block.__dict__["kind"],
            user.Block.made,
            user.Block.Inner.__dict__["kind"],
            registry.MODELS._module_dict["it"],
        ]
        assert all(value is new for value in held())
        assert new is not original
    assert all(value is original for value in held())


HEAD = """
    from math import sqrt
    from lib.ops import conv
    class Head:
        op = staticmethod(conv)
        root = sqrt
        class Inner:
            op = conv
    """


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "imported later"])
@pytest.mark.parametrize("apart", [True, False], ids=["two Patchers", "one Patcher"])
@pytest.mark.parametrize("class_first", [True, False])
@pytest.mark.parametrize("replaced", ["factory", "plain"])
def test_attributes_of_a_replaced_class_follow(make_package, loaded, apart, class_first, replaced) -> None:
    m = load(make_package, {"head": HEAD} if loaded else {})
    make_package({"head": HEAD, "fast": "class Head: pass"})
    subclass = {"factory": lambda found: type("Fast", (found,), {})} if replaced == "factory" else {}
    head = patchcore.Patch("head", patchcore.Replace("head:Head", **(subclass or {"replacement": "fast:Head"})))
    changes = [patchcore.Replace("lib.ops:conv", new), patchcore.Wrap("math:sqrt", lambda original, x: "root")]
    ops = patchcore.Patch("ops", changes)
    patches = [head, ops] if class_first else [ops, head]
    patchers = [patchcore.Patcher([p], strict=True) for p in patches] if apart else [patchcore.Patcher(patches)]
    original = m.ops.conv
    for patcher in patchers:
        patcher.apply()
    module = importlib.import_module("head")
    user = next(cls for cls in (module.Head, *_replaced(module)) if "op" in vars(cls))
    assert user.op is user.Inner.op is new
    assert user.root(4) == "root"
    for patcher in patchers:
        patcher.revert()
    assert module.Head is user
    assert user.op is user.Inner.op is original
    assert user.root(4) == 2


def _replaced(module) -> list[type]:
    from patchcore.engine.engine import ENGINE

    bases = [record.base for record in ENGINE.journal if isinstance(record.base, type)]
    return [base for base in bases if base.__module__ == module.__name__]
