"""What a target looks like: the same whatever its looks, another one once it does something else; and what follows."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patchcore as pc
from patchcore.builtin.drift.drift import BODY_CHANGED, GONE, SIGNATURE_CHANGED, UNCHANGED, UNKNOWN, Drift
from patchcore.builtin.drift.fingerprint import COMPILED, Originals
from patchcore.builtin.drift.recorded import UNSEEN, Fingerprint, Recorded, file_of
from patchcore.builtin.drift.syntax import digest, signature_text
from patchcore.builtin.signatures.signatures import alike, misfit
from patchcore.declare.target import Target
from patchcore.errors import PluginError, TargetNotFound, Unseen
from patchcore.objects.extensions import Extensions, using
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import Provenance


def digest_of(source: str) -> str:
    return digest([ast.parse(source)])


class TestSource:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("def f(x): return x", "def f(x, y=1): return x"),
            ("def f(x): return x", "@cache\ndef f(x): return x"),
            ("def f(x): return x", "async def f(x): return x"),
            ("def f(x): return x", "def f(x: int): return x"),
            ("x = 1", "x = True"),
            ("x = 1", "x = 1.0"),
            ("x = 'a'", "x = b'a'"),
            ("x = f'{a}'", "x = f'{a!r}'"),
            ("x = f'{a}b'", "x = f'b{a}'"),
            ("if a: b()", "if a: pass\nelse: b()"),
            ("class A(B): pass", "class A(C): pass"),
        ],
    )
    def test_what_matters_changes_the_digest(self, one, other) -> None:
        assert digest_of(one) != digest_of(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("x = f'a{b}' 'c' f'd'", "x = f'a{b}cd'"),
            ("def f(a,  # type: int\n      b): pass", "def f(a, b): 'says what'"),
            ("class A:\n    x = 1\n    'about x'", "class A:\n    x = 1"),
            (
                "def f(x,y=16):  # 1\n  \n  return ((x)+u'a' 'b',)\n",
                "def f(x, y=0x10):\n    pass\n    return x + 'ab',;",
            ),
        ],
        ids=["f-strings", "type comments", "texts that stand alone", "layout"],
    )
    def test_how_it_is_written_does_not(self, one, other) -> None:
        assert digest_of(one) == digest_of(other)

    def test_the_digest_is_the_same_on_every_python(self) -> None:
        source = """
@decorate(1, key="\\u00e9")
def f(a, /, b: int = 10**30, *args, c=None, **kwargs) -> str:
    with open(a) as file, lock:
        return f"{a!r:>{b}}" + u"x" + str(d[1:2, ...]) + str(-1.5e300j)
"""
        assert digest_of(source) == "9611541a79de2a52"

    @pytest.mark.parametrize(
        ("header", "text"),
        [
            ("(a, /, b, *, c)", "(a, /, b, *, c)"),
            ("(a: int = -1, *args: int, b=None, **kwargs)", "(a=-1, *args, b=None, **kwargs)"),
            ("(a='x', b=(1,), c=[torch.float], d=f(1), e=...)", "(a='x', b=(1,), c=[torch.float], d=..., e=...)"),
        ],
    )
    def test_signatures_have_defaults_and_no_annotations(self, header, text) -> None:
        (function,) = ast.parse(f"def f{header}: pass").body
        assert signature_text(function.args) == text

    @pytest.mark.parametrize(
        ("header", "text"), [("(self, x)", "(x)"), ("(self, /, x)", "(x)"), ("(*args)", "(*args)")]
    )
    def test_of_a_bound_function_the_first_parameter_is_left_out(self, header, text) -> None:
        (function,) = ast.parse(f"def f{header}: pass").body
        assert signature_text(function.args, bound=True) == text


LIBRARY = {
    "kit": """
        from kit.ops import conv
        from kit import ops as operators
        from .star import *
        from .fast import turbo
        __version__ = "1.0"
        """,
    "kit.ops": """
        import functools
        import kit.base as foundation
        def conv(x, *, scale=1.0): return x * scale
        pool = conv
        TABLE = {"conv": conv, "limit": 3}
        if functools:
            def either(x): return 1
        else:
            def either(x): return 2
        class Layer(foundation.Base):
            kind = "layer"
            def __init__(self, size): self.size = size
            @staticmethod
            def make(size): return Layer(size)
            @classmethod
            def load(cls, path): return cls(path)
            @property
            def shape(self): return self.size
            @shape.setter
            def shape(self, value): self.size = value
            def forward(self, x): return x
            alias = forward
        def later(self): return 1
        Layer.added = later
        class Operator(Layer): pass
        """,
    "kit.base": """
        class Root:
            def reset(self): return 0
        class Base(Root):
            def reset(self): return 1
            def inherited(self, y): return y
        """,
    "kit.star": "def spread(z): return z\n",
    "kit.fast": """
        def _make(): return lambda x: x
        for _name in ("turbo",):
            globals()[_name] = _make()
        from math import sqrt
        class Exact(dict):
            pass
        """,
}


def fingerprint(target: str, **options: Any) -> Fingerprint:
    return Originals(**options).fingerprint(pc.Replace(target, None), Target.parse(target))


class TestTarget:
    @pytest.fixture(autouse=True)
    def library(self, make_package) -> None:
        make_package(LIBRARY)

    @pytest.mark.parametrize(
        ("target", "signature"),
        [
            ("kit.ops:conv", "(x, *, scale=1.0)"),
            ("kit:conv", "(x, *, scale=1.0)"),
            ("kit:operators.conv", "(x, *, scale=1.0)"),
            ("kit:spread", "(z)"),
            ("kit.ops:pool", "(x, *, scale=1.0)"),
            ("kit.ops:either", "(x)"),
            ("kit.ops:Layer", "(size)"),
            ("kit.ops:Operator", "(size)"),
            ("kit.ops:Layer.make", "(size)"),
            ("kit.ops:Layer.load", "(cls, path)"),
            ("kit.ops:Layer.shape", "(self)"),
            ("kit.ops:Layer.alias", "(self, x)"),
            ("kit.ops:Operator.inherited", "(self, y)"),
            ("kit.ops:TABLE['limit']", ""),
            ("kit:__version__", ""),
        ],
    )
    def test_it_is_read_without_importing_the_library(self, target, signature) -> None:
        found = fingerprint(target)
        assert found.signature == signature
        assert len(found.source) == 16
        assert not [name for name in sys.modules if name.partition(".")[0] == "kit"]

    def test_the_method_nearest_to_the_class_counts(self) -> None:
        assert fingerprint("kit.ops:Operator.reset") == fingerprint("kit.base:Base.reset")
        assert fingerprint("kit.base:Base.reset") != fingerprint("kit.base:Root.reset")

    def test_a_class_has_its_members_by_name(self) -> None:
        found = fingerprint("kit.ops:Layer")
        assert list(found.members) == ["__init__", "alias", "forward", "kind", "load", "make", "shape"]
        assert found.members["forward"] == fingerprint("kit.ops:Layer.forward").source

    def test_what_is_put_into_a_class_later_is_found(self) -> None:
        assert fingerprint("kit.ops:Layer.added").source != fingerprint("kit.ops:later").source

    def test_the_setter_belongs_to_a_property(self, make_package) -> None:
        before = fingerprint("kit.ops:Layer.shape")
        make_package({"kit.ops": LIBRARY["kit.ops"].replace("self.size = value", "self.size = value + 1")})
        assert fingerprint("kit.ops:Layer.shape") != before

    @pytest.mark.parametrize(
        ("target", "nearest"),
        [("kit.ops:convv", "'conv'"), ("kit.ops:Layer.forwards", "'forward'"), ("kit.opps:conv", "'kit.ops'")],
    )
    def test_what_is_not_there_is_named_with_the_nearest(self, target, nearest) -> None:
        with pytest.raises(TargetNotFound, match=f"did you mean {nearest}"):
            fingerprint(target)

    def test_what_the_source_does_not_show_is_seen_once_it_is_imported(self) -> None:
        with pytest.raises(Unseen, match=r"kit\.fast makes names"):
            fingerprint("kit:turbo")
        assert fingerprint("kit:turbo", import_missing=True).signature == "(x)"
        assert fingerprint("kit:turbo").signature == "(x)"

    @pytest.mark.parametrize(
        ("source", "gone"),
        [
            ("class Lazy:\n    def __getattr__(self, name): return 1\n", True),
            ("# globals, setattr and sys.modules are not used here\n", True),
            ("def __getattr__(name): return 1\n", False),
            ("import sys\nsys.modules[__name__] = object()\n", False),
            ("from . import _C\n", False),
            ("from kit._C.inner import thing\n", False),
            ("import kit._C\n", False),
            ("import _csv\n", True),
        ],
        ids=[
            "getattr of instances",
            "comment",
            "getattr",
            "modules",
            "from compiled",
            "from inside of compiled",
            "compiled",
            "another library",
        ],
    )
    def test_a_name_is_gone_only_where_nothing_else_can_put_it_there(self, make_package, source, gone) -> None:
        folder = make_package({"kit.odd": source})
        (folder / "kit" / f"_C{EXTENSION_SUFFIXES[-1]}").write_bytes(b"")
        with pytest.raises(TargetNotFound if gone else Unseen):
            fingerprint("kit.odd:thing")

    @pytest.mark.parametrize(
        ("target", "found"), [("kit.ops:Layer.nothing", "absent"), ("kit.ops:Nothing.nothing", None)]
    )
    def test_what_a_change_can_do_without_is_absent(self, target, found) -> None:
        class WhereThere(pc.Replace):
            may_be_absent = True

        change = WhereThere(target, swap)
        if found is None:
            with pytest.raises(TargetNotFound):
                Originals().fingerprint(change, change.target)
        else:
            assert Originals().fingerprint(change, change.target) == Fingerprint(found)

    def test_functions_in_c_have_a_signature_at_most(self) -> None:
        import math

        hypot = "(*coordinates)" if sys.version_info >= (3, 14) else ""
        assert fingerprint("math:hypot") == Fingerprint(COMPILED, hypot)
        assert fingerprint("math:sqrt") == Fingerprint(
            COMPILED, str(importlib.import_module("inspect").signature(math.sqrt))
        )

    def test_what_another_library_defines_is_its_own_business(self) -> None:
        assert fingerprint("kit.ops:functools.partial").source == "of functools"
        own = fingerprint("kit.ops:Operator.__repr__")
        assert own.source == fingerprint("kit.ops:Operator").source  # what is inherited is up to the class

    def test_an_entry_of_a_registry_is_looked_at_in_the_registry(self, make_package) -> None:
        make_package(
            {
                "hub": """
                    class Registry:
                        def __init__(self): self._module_dict = {}
                    MODELS = Registry()
                    class Net:
                        def __init__(self, depth): pass
                    MODELS._module_dict["Net"] = Net
                    """
            }
        )
        change = pc.Register("hub:MODELS", object, name="Net")
        other = pc.Register("hub:MODELS", object, name="Other")
        with using(Extensions(tables=["_module_dict"])):
            found = Originals(import_missing=True).fingerprint(change, change.target)
            assert found.signature == "(depth)"
            assert Originals().fingerprint(other, other.target).source == "absent"

    def test_the_original_is_looked_at_below_the_patches(self) -> None:
        importlib.import_module("kit.fast")
        from patchcore.engine.engine import ENGINE

        before = fingerprint("kit.fast:turbo")
        with pc.Patcher(
            [pc.Patch("kit.turbo", pc.Replace("kit.fast:turbo", lambda *args, **kwargs: None))], strict=True
        ):
            assert fingerprint("kit.fast:turbo") != before
            assert fingerprint("kit.fast:turbo", original_of=ENGINE.journal.original) == before


def swap(x, *, scale=1.0):
    return x


PATCH = pc.Patch(
    "kit.swap",
    [
        pc.Replace("kit.ops:conv", swap),
        pc.Wrap("kit.ops:Layer.forward", lambda original, *args, **kwargs: original(*args, **kwargs)),
        pc.Replace("kit.ops:Layer", factory=lambda layer: type("Layer", (layer,), {})),
        pc.Replace("kit.ops:missing", swap, create=True),
    ],
)


class WithPlugin:
    @pytest.fixture
    def plugin(self, make_package, tmp_path: Path) -> Provenance:
        """A plugin file that carries the fingerprints of PATCH, made of kit 1.0."""
        from distributions import write_distribution

        folder = make_package(LIBRARY)
        self.info = write_distribution(folder, "kit", "1.0")
        self.make = make_package
        provenance = Provenance("kit_npu", "kit-npu", "1.0", "kit_npu", str(tmp_path / "kit_npu.py"))
        path = file_of(provenance)
        entries = {str(change.target): Originals().fingerprint(change, change.target) for change in PATCH.changes[:3]}
        Recorded(path, {"kit": {"1.0": entries}}).write()
        return provenance

    def upgrade(self, version: str, old: str, new: str) -> None:
        assert old in LIBRARY["kit.ops"]
        self.make({"kit.ops": LIBRARY["kit.ops"].replace(old, new)})
        (self.info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kit\nVersion: {version}\n")

    def patcher(self, provenance: Provenance, **options: Any) -> pc.Patcher:
        return pc.Patcher([Candidate(PATCH, provenance)], **options)


class TestDrift(WithPlugin):
    def compare(self, provenance: Provenance) -> dict[str, Any]:
        patcher = self.patcher(provenance)
        (entry,) = patcher.plan()
        return {str(comparison.target): comparison for comparison in Drift().of(entry)}

    def statuses(self, provenance: Provenance) -> list[str]:
        return [comparison.status for comparison in self.compare(provenance).values()]

    @pytest.mark.parametrize(
        ("old", "new", "statuses"),
        [
            ("return x * scale", "return scale * x  # faster", [BODY_CHANGED, UNCHANGED, UNCHANGED]),
            ("*, scale=1.0", "scale=1.0", [SIGNATURE_CHANGED, UNCHANGED, UNCHANGED]),
            ("def conv(", "def convolve(", [GONE, UNCHANGED, UNCHANGED]),
            ("forward(self, x): return x", "forward(self, x): return 2 * x", [UNCHANGED, BODY_CHANGED, BODY_CHANGED]),
            ("__init__(self, size)", "__init__(self, size, depth=1)", [UNCHANGED, UNCHANGED, SIGNATURE_CHANGED]),
            ("def conv(x, *, scale=1.0): ", "def conv(x,*,scale = 1.0): 'It.'; ", [UNCHANGED] * 3),
        ],
        ids=["body", "signature", "gone", "method", "constructor", "looks"],
    )
    def test_an_upgrade_names_what_has_changed(self, plugin, old, new, statuses) -> None:
        self.upgrade("1.1", old, new)
        assert self.statuses(plugin) == statuses
        assert "kit" not in sys.modules

    @pytest.mark.parametrize(
        "base",
        ["dict", "Exception", "abc.ABC", "enum.Enum", "typing.Protocol", "typing.Generic[T]", "made()", "foreign.Base"],
    )
    def test_a_method_is_gone_whatever_the_bases_are(self, plugin, base) -> None:
        (self.info.parent / "foreign.py").write_text("from _elsewhere import Base\n")
        lines = "import abc, enum, typing\n        import foreign\n"
        lines += "        T = typing.TypeVar('T')\n        def made(): return object\n"
        self.base_library = LIBRARY["kit.ops"].replace("Layer(foundation.Base)", f"Layer({base})")
        self.base_library = self.base_library.replace("import functools\n", f"import functools\n        {lines}")
        self.make({"kit.ops": self.base_library})
        recorded = Recorded.read(file_of(plugin))
        recorded.libraries["kit"]["1.0"] = {
            str(change.target): Originals(from_sources=True).fingerprint(change, change.target)
            for change in PATCH.changes[:3]
        }
        recorded.write()
        self.make({"kit.ops": self.base_library.replace("def forward(", "def forwards(").replace("= forward", "= 1")})
        assert self.statuses(plugin)[1] == GONE

    def test_a_method_that_another_library_may_still_define_is_unknown(self, plugin) -> None:
        self.make({"foreign": "class Base:\n    def forward(self, x): return x\n"})
        source = LIBRARY["kit.ops"].replace("Layer(foundation.Base)", "Layer(foreign.Base)")
        source = source.replace("import functools", "import functools, foreign").replace(
            "forward(self, x)", "other(self)"
        )
        self.make({"kit.ops": source.replace("alias = forward", "alias = 1")})
        recorded = Recorded.read(file_of(plugin))
        target = PATCH.changes[1].target
        originals = Originals(from_sources=True)
        fingerprint = originals.fingerprint(PATCH.changes[1], target)
        assert fingerprint.source == "of foreign" or not fingerprint.signature
        recorded.libraries["kit"]["1.0"][str(target)] = fingerprint
        recorded.write()
        (self.info.parent / "foreign.py").write_text("from _elsewhere import Base\n")
        assert self.statuses(plugin)[1] == UNKNOWN

    def test_of_a_class_it_names_the_methods(self, plugin) -> None:
        self.upgrade(
            "1.1", "def forward(self, x): return x", "def forward(self, x): return 2\n            def extra(self): pass"
        )
        assert self.compare(plugin)["kit.ops:Layer"].detail == "changed forward; new extra"

    @pytest.mark.parametrize(
        ("installed", "compared"), [("0.9", "1.0"), ("1.0", "1.0"), ("1.5", "1.0"), ("2.1", "2.0"), ("1.0+cpu", "1.0")]
    )
    def test_a_version_that_is_not_recorded_is_compared_with_the_nearest(self, plugin, installed, compared) -> None:
        recorded = Recorded.read(file_of(plugin))
        recorded.libraries["kit"]["2.0"] = dict(recorded.libraries["kit"]["1.0"])
        recorded.write()
        self.upgrade(installed, "kind", "kind")
        assert {c.recorded for c in self.compare(plugin).values()} == {compared}

    def test_what_no_distribution_provides_is_compared_with_nothing(self, plugin, make_package) -> None:
        (self.info / "METADATA").unlink()
        (self.info / "top_level.txt").write_text("")
        make_package({"kit": '__version__ = "1.0"', "kit.ops": LIBRARY["kit.ops"].replace("x * scale", "x")})
        importlib.import_module("kit.ops")  # the stand-in of an emulator is loaded, and says a version
        assert self.statuses(plugin) == [UNKNOWN] * 3
        assert "no distribution provides it" in self.compare(plugin)["kit.ops:conv"].detail

    def test_a_broken_file_is_named(self, plugin) -> None:
        file_of(plugin).write_text("{")
        with pytest.raises(PluginError, match=r"kit_npu\.fingerprints\.json cannot be read"):
            self.compare(plugin)

    def test_patches_of_no_plugin_are_left_alone(self, plugin) -> None:
        patcher = pc.Patcher([PATCH])
        assert Drift().of(patcher.plan()["kit.swap"]) == []


VERSIONS = st.lists(st.sampled_from(["0.9", "0.10", "1.0rc1", "1.0", "1.0.post1", "2.0", "unversioned"]), unique=True)
FINGERPRINTS = st.sampled_from(
    [UNSEEN, Fingerprint("ab"), Fingerprint("ab", "(x)"), Fingerprint("cd", "(x)", {"forward": "ef"})]
)


class TestFile:
    @given(data=st.data(), versions=VERSIONS)
    @settings(max_examples=60)
    def test_what_is_written_is_read(self, data, versions, tmp_path_factory) -> None:
        targets = st.dictionaries(st.sampled_from(["kit:a", "kit:b['x - y, z']", "kit:C.d"]), FINGERPRINTS, min_size=1)
        libraries = {"kit": {version: data.draw(targets) for version in versions}} if versions else {}
        path = tmp_path_factory.getbasetemp() / "any.fingerprints.json"
        Recorded(path, libraries).write()
        read = Recorded.read(path)
        assert read.libraries == libraries
        assert read.to_text() == path.read_text(encoding="utf-8")

    def test_a_fingerprint_stands_there_once(self, tmp_path: Path) -> None:
        one, other = Fingerprint("one"), Fingerprint("other")
        by_version = {"1.10": one, "1.2": one, "1.1": one, "1.11": other, "2.0": one}
        recorded = Recorded(tmp_path / "f.json", {"kit": {v: {"kit:f": found} for v, found in by_version.items()}})
        (entries,) = json.loads(recorded.to_text())["libraries"]["kit"]["targets"].values()
        assert entries == {"1.1 - 1.10, 2.0": {"source": "one"}, "1.11": {"source": "other"}}

    def test_versions_between_two_that_do_not_have_a_target_are_left_out(self, tmp_path: Path) -> None:
        one = {"kit:f": Fingerprint("one")}
        recorded = Recorded(tmp_path / "f.json", {"kit": {"1": one, "2": {"kit:g": Fingerprint("two")}, "3": one}})
        assert json.loads(recorded.to_text())["libraries"]["kit"]["targets"]["kit:f"] == {"1, 3": {"source": "one"}}


class TestApply(WithPlugin):
    def test_drift_is_reported_once_the_library_is_imported(self, plugin, caplog) -> None:
        self.upgrade("1.1", "return x * scale", "return scale * x")
        with self.patcher(plugin) as patcher:
            assert patcher.report()["kit.swap"].remarks == ()
            module = importlib.import_module("kit.ops")
            record = patcher.report()["kit.swap"]
            assert module.conv is swap
        assert record.status == "applied"
        remark = "kit.ops:conv: body changed since kit 1.0"
        assert record.remarks[0] == remark
        assert record.remarks[1] == "kit 1.1 is not recorded; compared with 1.0: 2 targets unchanged"
        assert [r.getMessage() for r in caplog.records if remark in r.getMessage()]

    def test_strictly_drift_fails_the_patch_before_anything_is_written(self, plugin) -> None:
        self.upgrade("1.1", "return x * scale", "return scale * x")
        module = importlib.import_module("kit.ops")
        original = module.conv
        with pytest.raises(pc.PatchError, match=r"kit\.ops:conv: body changed since kit 1\.0\. Adapt the patch"):
            self.patcher(plugin, strict=True).apply()
        assert module.conv is original


def takes_xy(x, y=1, *, z=2):
    """The target of the cases below."""


class TestSignature:
    @pytest.mark.parametrize(
        "replacement",
        [
            takes_xy,
            lambda *args, **kwargs: None,
            lambda x, y=1, *, z=2, more=3: None,
            lambda x, y=None, z=None: None,
            lambda x=0, y=1, *rest, z=2, **kwargs: None,
        ],
        ids=["the same", "anything", "more", "by position or name", "more optional"],
    )
    def test_what_takes_every_call_fits(self, replacement) -> None:
        assert misfit(takes_xy, replacement) is None

    @pytest.mark.parametrize(
        "replacement",
        [
            lambda x: None,
            lambda x, y=1: None,
            lambda x, y, *, z=2: None,
            lambda x, y=1, *, z=2, w: None,
            lambda x, b=1, *, z=2: None,
            lambda x, y=1, /, *, z=2: None,
            lambda *args: None,
            lambda **kwargs: None,
        ],
        ids=["fewer", "no z", "y required", "w required", "renamed", "by position only", "no names", "no positions"],
    )
    def test_what_cannot_take_a_call_does_not(self, replacement) -> None:
        assert "that of the target (x, y=1, *, z=2)" in str(misfit(takes_xy, replacement))

    def test_what_required_arguments_are_called_does_not_matter(self) -> None:
        assert misfit(lambda self, x: None, lambda module, y: None, bound=True) is None
        assert misfit(lambda text: None, len) is None

    def test_an_instance_with_a_default_is_not_given_by_name(self) -> None:
        assert misfit(lambda self=None, x=1: None, lambda module=None, x=2: None, bound=True) is None
        assert misfit(lambda self=None, x=1: None, lambda module=None, x=2: None) is not None

    def test_no_end_of_arguments_asks_for_no_end(self) -> None:
        assert misfit(lambda *args: None, lambda a=1, b=2: None) is not None
        assert misfit(lambda **kwargs: None, lambda a=1, b=2: None) is not None

    def test_a_target_that_takes_anything_says_nothing_about_its_calls(self) -> None:
        assert misfit(lambda *args, **kwargs: None, lambda a, b: None) is None
        assert misfit(lambda *args, **kwargs: None, lambda original, *args: None, before=1) is None
        assert misfit(lambda self, *args, **kwargs: None, lambda self, a: None, bound=True) is None
        assert misfit(lambda self, *args, **kwargs: None, lambda self, a: None) is not None

    @pytest.mark.parametrize(
        "replacement",
        [
            lambda x, y=1: None,
            lambda a, y=2: None,
            lambda x, b=1: None,
            lambda x, y: None,
            lambda x=0, y=1: None,
            lambda x, y=1, /: None,
            lambda x, *y: None,
            lambda x, y=1, *, z: None,
        ],
        ids=["same", "x renamed", "y renamed", "y required", "x optional", "by position", "any", "z required"],
    )
    def test_the_first_look_says_yes_only_where_the_closer_one_does(self, replacement) -> None:
        for original in (lambda x, y=1: None, lambda x, y: None):
            for before in (0, 1):
                assert not alike(original, replacement, before) or misfit(original, replacement, before=before) is None
        assert alike(lambda x, y=1: None, lambda original, x, y=2: None, 1)

    def test_a_wrapper_gets_the_original_first(self) -> None:
        assert misfit(takes_xy, lambda original, x, y=1, *, z=2: None, before=1) is None
        assert misfit(takes_xy, takes_xy, before=1) is not None

    def test_what_has_no_signature_is_believed(self) -> None:
        assert misfit(takes_xy, max) is None
        assert misfit(max, takes_xy) is None

    def test_a_replacement_that_cannot_take_the_calls_fails_before_it_is_called(self, make_package) -> None:
        make_package(LIBRARY)
        module = importlib.import_module("kit.ops")
        original = module.conv
        patch = pc.Patch("kit.conv", pc.Replace("kit.ops:conv", lambda x: x))
        report = pc.Patcher([patch]).apply()
        assert module.conv is original
        record = report["kit.conv"]
        assert record.status == "failed"
        assert "does not accept every call of kit.ops:conv: its signature is (x)" in record.reason
        assert "(x, *, scale=1.0)" in record.reason

    def test_where_a_predicate_chooses_the_calls_it_answers_for_them(self, make_package) -> None:
        make_package(LIBRARY)
        module = importlib.import_module("kit.ops")
        change = pc.Replace("kit.ops:conv", lambda x: ("new", x), when_call=lambda *args, **kwargs: not kwargs)
        with pc.Patcher([pc.Patch("kit.conv", change)], strict=True):
            assert module.conv(1) == ("new", 1)
            assert module.conv(2, scale=3) == 6
