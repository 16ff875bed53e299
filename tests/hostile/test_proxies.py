"""Objects whose own code raises, at whatever is read of them: proxies without what they stand for, wrappers in C."""

from __future__ import annotations

import sys
from typing import Any, Callable

import pytest

import patchcore as pc

LIBRARY = """
def _refuse(name):
    def method(self, *args, **kwargs):
        raise RuntimeError(f"{name} was run")
    return method

_body = {name: _refuse(name) for name in (
    "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__eq__", "__hash__", "__bool__", "__len__",
    "__iter__", "__contains__", "__repr__", "__get__", "__dir__", "__reduce_ex__", "__getitem__")}
_body.update((name, property(_refuse(name))) for name in (
    "__class__", "__dict__", "__module__", "__name__", "__wrapped__", "__signature__", "__doc__", "__func__"))
_body["__call__"] = lambda self, *args: ("proxy", args)
Proxy = type("Proxy", (), _body)

def proxy():
    return object.__new__(Proxy)

target, held = proxy(), proxy()
def function(x): return x
class Net:
    act = proxy()
    def method(self, x): return x
net = Net()
net.__dict__["x"] = proxy()
TABLE = {"key": proxy()}
"""

TARGETS = ["lib:target", "lib:Net.act", "lib:net.x", "lib:TABLE['key']"]


def wrapper(original: Callable[..., Any], *args: Any) -> Any:
    return "wrapped"


def replacement(*args: Any) -> Any:
    return "new"


def no(*args: Any) -> bool:
    return False


@pytest.fixture
def lib(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    make_package({"lib": LIBRARY, "user": "from lib import function, held, target"})
    import lib
    import user

    assert user.target is lib.target
    # in a program's sys.modules, too, there may be anything
    monkeypatch.setitem(sys.modules, "a_proxy", lib.proxy())
    return lib


def lifecycle(*changes: Any) -> Any:
    """Apply the changes, look for holders, revert; return the report of the apply."""
    patcher = pc.Patcher([pc.Patch("p", list(changes))])
    report = patcher.apply()
    str(patcher.report(unreachable=True))
    patcher.revert()
    return report


def raw(lib: Any, target: str) -> Any:
    places = {"lib:target": vars(lib), "lib:Net.act": vars(lib.Net), "lib:net.x": vars(lib.net)}
    return places.get(target, lib.TABLE)[target.strip("']").split(".")[-1].split(":")[-1].split("'")[-1]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["wrap", "replace", "factory", "when_call", "by a proxy"])
def test_a_proxy_that_raises_is_patched_like_any_object(lib: Any, target: str, kind: str) -> None:
    changes = {
        "wrap": pc.Wrap(target, wrapper),
        "replace": pc.Replace(target, replacement),
        "factory": pc.Replace(target, factory=lambda found: lambda *args: "made"),
        "when_call": pc.Replace(target, replacement, when_call=no),
        "by a proxy": pc.Replace(target, lib.proxy()),
    }
    before = raw(lib, target)
    report = lifecycle(changes[kind])
    assert report["p"].status == "applied", report
    assert raw(lib, target) is before


@pytest.mark.parametrize("target", ["lib:function", "lib:Net.method", "math:sqrt"])
@pytest.mark.parametrize("role", ["wrapper", "replacement", "from a factory", "predicate", "replacement of some calls"])
def test_a_proxy_is_what_a_patch_puts_in_place(lib: Any, target: str, role: str) -> None:
    proxy = lib.proxy()
    changes = {
        "wrapper": lambda: pc.Wrap(target, proxy),
        "replacement": lambda: pc.Replace(target, proxy),
        "from a factory": lambda: pc.Replace(target, factory=lambda found: proxy),
        "predicate": lambda: pc.Replace(target, replacement, when_call=proxy),
        "replacement of some calls": lambda: pc.Replace(target, proxy, when_call=no),
    }
    report = lifecycle(changes[role]())
    assert report["p"].status == "applied", report


def test_a_target_inside_of_a_proxy_fails_its_patch_alone(lib: Any) -> None:
    attribute, item = pc.Patch("a", pc.Replace("lib:held.x", 1)), pc.Patch("b", pc.Replace("lib:held['x']", 1))
    with pc.Patcher([attribute, item, pc.Patch("c", pc.Wrap("lib:function", wrapper))]) as patcher:
        report = patcher.report()
        assert [record.status for record in report.patches] == ["failed", "failed", "applied"]
        assert "a Proxy object has no attributes of its own to replace" in report["a"].reason
        assert "expected a mutable mapping before ['x'], found Proxy" in report["b"].reason


def test_patches_without_a_proxy_go_past_those_of_others(lib: Any) -> None:
    with pc.Patcher([pc.Patch("p", pc.Replace("lib:function", replacement))]) as patcher:
        assert patcher.report()["p"].changes[0].rebound == ("user:function",)
        assert patcher.report(unreachable=True)["p"].changes[0].unreachable == ()


def test_what_a_factory_found_elsewhere_keeps_its_own_name(lib: Any, make_package: Any) -> None:
    make_package({"fast": "class Net: pass"})
    import fast

    own = fast.Net
    patcher = pc.Patcher([pc.Patch("p", pc.Replace("lib:Net", factory=lambda found: own))], strict=True)
    patcher.apply()
    assert lib.Net is own
    patcher.revert()
    assert fast.Net is own
    assert lib.Net is not own


OTHER_TOOL = """
import sys
import patchcore as pc

def mine(original, *args, **kwargs):
    calls.append(original)
    return original(*args, **kwargs)

calls = []
TARGETS = ["builtins:open", "math:sqrt", "json:dumps", "time:sleep", "threading:Thread.start", "socket:socket.connect",
           "logging:Logger.callHandlers", "sys:excepthook", "subprocess:Popen.__init__", "select:select"]
patcher = pc.Patcher([pc.Patch(f"p{i}", pc.Wrap(target, mine)) for i, target in enumerate(TARGETS)])
import json, logging, math, select, socket, subprocess, threading, time

def program():
    import colorsys, wave  # what is imported later goes through patchcore
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    open(__import__("os").devnull).close()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return math.sqrt(4), json.dumps([1])

def theirs():
    {tool}

steps = [theirs, patcher.apply]
for step in steps if {first} else steps[::-1]:
    step()
assert program() == (2.0, "[1]")
report = patcher.report(unreachable=True)
assert report.ok, report
assert calls
patcher.revert()
calls.clear()
assert program() == (2.0, "[1]")
assert not calls, calls
print("done", flush=True)
__import__("os")._exit(0)
"""

WRAPT = """
    import wrapt
    def other(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs)
    for target in TARGETS:
        module, _, name = target.partition(":")
        wrapt.wrap_function_wrapper(module, name, other)
"""
TOOLS = {
    "wrapt": WRAPT,
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "sentry_sdk": "import sentry_sdk; sentry_sdk.init('http://key@localhost:1/1')",
    "opentelemetry.instrumentation.requests": (
        "from opentelemetry.instrumentation.requests import RequestsInstrumentor; RequestsInstrumentor().instrument()"
    ),
}


@pytest.mark.parametrize("first", [True, False], ids=["before ours", "after ours"])
@pytest.mark.parametrize("tool", [pytest.param(tool, marks=pytest.mark.libraries(tool)) for tool in TOOLS])
def test_other_tools_patch_the_same_functions(tool: str, first: bool, tmp_path: Any, run_python: Any) -> None:
    script = tmp_path / "program.py"
    script.write_text(OTHER_TOOL.replace("{tool}", TOOLS[tool].strip()).replace("{first}", str(first)))
    assert run_python(script).endswith("done\n")
