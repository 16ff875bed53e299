"""Markers: ranges around modules, functions and backward passes of the real torch, which stays what it is."""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import math
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_markers")

from marker_probes import PROBES, data, network  # noqa: E402

import torch_markers as markers  # noqa: E402
from patchcore.errors import PatchError  # noqa: E402
from torch_markers import backends  # noqa: E402

nn = torch.nn


class Log:
    """A backend that remembers the ranges of each thread and insists on their order."""

    idle = None

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.depths: list[int] = []
        self._local = threading.local()
        self.stacks: list[list[str]] = []
        self.finished = False

    def open(self, text: str) -> Any:
        said = markers.parse(text)
        assert said is not None, text
        assert text.isascii()
        stack = vars(self._local).setdefault("stack", [])
        if not stack:
            self.stacks.append(stack)
        self.said.append(said)
        self.depths.append(len(stack))
        stack.append(text)
        return (threading.get_ident(), len(stack))

    def close(self, token: Any) -> None:
        assert token == (threading.get_ident(), len(self._local.stack)), "closed in another order, or thread"
        self._local.stack.pop()

    def finish(self) -> None:
        self.finished = True

    @property
    def left_open(self) -> list[str]:
        return [text for stack in self.stacks for text in stack]

    def names(self, **wanted: str) -> list[str]:
        found = [said for said in self.said if all(said.get(key) == value for key, value in wanted.items())]
        return [said.get("name") or said["op"] for said in found]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setitem(backends._MAKERS, "nvtx", lambda: made)
    return made


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(one: Any, other: Any) -> bool:
    """Compare, where a NaN is equal to a NaN."""
    return repr(one) == repr(other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROBES)
def test_with_markers_everything_gives_the_same(name: str, tmp_path: Path, log: Log) -> None:
    probe = PROBES[name]
    plain = probe(tmp_path)
    with markers.start("nvtx"):
        marked = probe(tmp_path)
    assert same(marked, plain)
    assert log.left_open == []
    assert log.said
    assert log.finished


class TestWhatRangesSay:
    def test_a_function_tells_arguments_and_the_lines_that_led_to_it(self, log: Log) -> None:
        x, weight = data(), torch.ones(2, 4)
        with markers.start("nvtx"):
            nn.functional.linear(x, weight, bias=None)
        (said,) = log.said
        assert said["mod"] == "torch.nn.functional"
        assert said["op"] == "linear"
        assert said["args"] == [
            {"type": "Tensor", "shape": [3, 4], "dtype": "float32"},
            {"type": "Tensor", "shape": [2, 4], "dtype": "float32"},
            {"name": "bias", "type": "NoneType", "value": None},
        ]
        file, _, line = said["traceMarker"][-1].rpartition(":")
        assert file == __file__
        assert "nn.functional.linear(x, weight" in Path(file).read_text().splitlines()[int(line) - 1]
        assert not [place for place in said["traceMarker"] if "torch/nn" in place or "patchcore" in Path(place).name]

    def test_a_module_tells_its_path_and_representation(self, log: Log) -> None:
        model = nn.Sequential(nn.Linear(4, 2), nn.Sequential(nn.Dropout(0.5)))
        with markers.start("nvtx", level="modules"):
            model(data())
        assert log.names() == ["Sequential", "0", "1", "1.0"]
        assert log.depths == [0, 1, 1, 2]
        assert [said["strRepr"] for said in log.said[1:]] == [
            "Linear(in_features=4, out_features=2, bias=True)",
            "Sequential()",
            "Dropout(p=0.5, inplace=False)",
        ]
        assert log.said[1]["args"] == [{"type": "Tensor", "shape": [3, 4], "dtype": "float32"}]
        assert log.said[1]["mod"] == "torch.nn.modules.linear.Linear"

    def test_the_backward_pass_nests_as_the_forward_pass_did(self, log: Log) -> None:
        model = network()
        with markers.start("nvtx"):
            model(data()).sum().backward()
        told = [(log.depths[i], said.get("name") or said["op"]) for i, said in enumerate(log.said) if "dir" in said]
        assert told == [
            (1, "backward"),  # inside of Tensor.backward
            (2, "sum"),
            (2, "Net"),
            (3, "second"),
            (4, "linear"),
            (3, "relu"),
            (3, "first"),
            (4, "linear"),
        ]
        (linear,) = [said for said in log.said if said.get("op") == "linear" and said["args"][0]["shape"] == [3, 8]][1:]
        assert linear["args"][1] == {"type": "Parameter", "shape": [2, 8], "dtype": "float32"}

    def test_without_function_markers_the_backward_pass_has_its_modules(self, log: Log) -> None:
        model = network()
        with markers.start("nvtx", level="modules"):
            model(data()).sum().backward()
        told = [(log.depths[i], said.get("name") or said["op"]) for i, said in enumerate(log.said) if "dir" in said]
        # what is between two modules belongs to the module around them
        assert told == [(0, "backward"), (1, "Net"), (2, "second"), (2, "first")]

    def test_at_the_level_of_functions_no_module_is_marked(self, log: Log) -> None:
        with markers.start("nvtx", level="functions"):
            network()(data()).sum().backward()
        assert log.left_open == []
        assert log.said
        assert not [said for said in log.said if "strRepr" in said]

    def test_options_leave_things_out(self, log: Log) -> None:
        with markers.start("nvtx", stacks=False, arguments=False, backward=False):
            network()(data()).sum().backward()
        assert not [said for said in log.said if {"args", "traceMarker", "dir"} & set(said)]

    def test_what_only_asks_about_a_tensor_is_not_marked(self, log: Log) -> None:
        x = data()
        with markers.start("nvtx"):
            asked = [x.shape, x.dim(), x.size(0), x.dtype, x.device, x.requires_grad, len(x), x.is_contiguous()]
        assert asked[1] == 2
        assert log.said == []

    @pytest.mark.parametrize(
        ("call", "name"),
        [
            (lambda x: torch.add(x, x), "torch.add"),
            (lambda x: x + x, "torch.Tensor.add"),
            (lambda x: x.relu_(), "torch.Tensor.relu_"),
            (lambda x: nn.functional.relu(x), "torch.nn.functional.relu"),
            (lambda x: nn.functional.gelu(x), "torch.nn.functional.gelu"),
            (lambda x: torch.einsum("ij->ji", x), "torch.einsum"),
            (lambda x: torch.fft.fft(x), "torch.fft.fft_fft"),
            (lambda x: torch.linalg.norm(x), "torch.linalg.linalg_norm"),
            (lambda x: x.unflatten(0, (3, 1)), "torch.Tensor.unflatten"),
            (lambda x: torch.stack([x, x]), "torch.stack"),
            (lambda x: torch.ops.aten.sin.default(x), "torch._ops.aten.sin.default"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_functions_have_the_names_that_users_know(self, call: Any, name: str, log: Log) -> None:
        with markers.start("nvtx"):
            call(data())
        assert f"{log.said[-1]['mod']}.{log.said[-1]['op']}" == name


NASTY = [
    '"',
    "'",
    "\\",
    "%41",
    "\n\x00\x1b",
    "\u00e9\u20ac\U0001f600",
    "\ud800",
    "</script>",
    "x" * 10_000,
    "{'op':'",
    "]}",
]


class TestArguments:
    @pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
    def test_any_string_leaves_a_profilers_trace_valid(self, text: str, tmp_path: Path) -> None:
        class Odd(nn.Module):
            def extra_repr(self) -> str:
                return text

            def forward(self, x: Any, **kwargs: Any) -> Any:
                return torch.einsum("ij->ij", x)

        with markers.start("record_function"), torch.profiler.profile() as profile:
            with markers.range(text, detail=text):
                Odd()(data(), **{text: text})
            with contextlib.suppress(Exception):  # no device has such a name
                data().to(text)
        profile.export_chrome_trace(str(tmp_path / "trace.json"))
        names = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
        said = [found for found in map(markers.parse, names) if found is not None]
        kept = text if len(text) <= 200 else text[:200] + "..."
        assert [found["op"] for found in said if "detail" in found] == [kept]
        (odd,) = [found for found in said if "strRepr" in found]
        assert odd["strRepr"] == (f"Odd({text})" if len(text) < 400 else f"Odd({text}"[:500] + "...")
        (to,) = [found for found in said if found.get("op") == "to"]
        assert to["args"][1] == {"type": "str", "value": kept}

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            (math.inf, {"type": "float", "value": "inf"}),
            (-math.inf, {"type": "float", "value": "-inf"}),
            (math.nan, {"type": "float", "value": "nan"}),
            (True, {"type": "bool", "value": True}),
            (10**5000, {"type": "int", "value": "16610 bits"}),
            (None, {"type": "NoneType", "value": None}),
            ((1, [2.5, "a"]), {"type": "tuple", "value": [1, {"type": "list", "value": [2.5, "a"]}]}),
            ([0] * 100, {"type": "list", "value": [0] * 8 + ["... 100 in all"]}),
            ([[[[1]]]], {"type": "list", "value": [{"type": "list", "value": [{"type": "list", "value": "..."}]}]}),
            (torch.float16, {"type": "dtype", "value": "torch.float16"}),
            (torch.device("cpu"), {"type": "device", "value": "cpu"}),
            (slice(1, None), {"type": "slice", "value": [1, None, None]}),
            (torch.tensor(5.0), {"type": "Tensor", "shape": [], "dtype": "float32"}),
            (torch.ones(2, device="meta"), {"type": "Tensor", "shape": [2], "dtype": "float32"}),
            (object(), {"type": "object"}),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_values_are_told_as_json_has_them(self, value: Any, told: Any) -> None:
        from torch_markers.arguments import describe_arguments

        assert markers.parse("{'args':" + describe_arguments((), (value,), {}) + "}") == {"args": [told]}

    def test_nothing_that_an_argument_defines_is_called(self, log: Log) -> None:
        class Trap:
            def __getattribute__(self, name: str) -> Any:
                raise AssertionError(name)

            def __repr__(self) -> str:
                raise AssertionError

        class Takes(nn.Module):
            def forward(self, *args: Any) -> None:
                pass

        class Number(int):
            def __repr__(self) -> str:
                raise AssertionError

            __str__ = __format__ = __hash__ = __repr__  # type: ignore[assignment]

        with markers.start("nvtx"):
            Takes()(Number(3), Trap())
        assert log.said[0]["args"] == [{"type": "Number", "value": 3}, {"type": "Trap"}]

    def test_no_element_is_read_so_that_no_device_is_waited_for(self, log: Log) -> None:
        class Unread(torch.Tensor):
            """Says which operators are run on it."""

            @staticmethod
            def __new__(cls, inner: Any) -> Any:
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

            def __init__(self, inner: Any) -> None:
                self.inner = inner

            @classmethod
            def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                run.append(str(function))
                plain = [arg.inner if isinstance(arg, cls) else arg for arg in args]
                return cls(function(*plain, **(kwargs or {})))

        run: list[str] = []
        with markers.start("nvtx"):
            Unread(torch.tensor(2.0)) * Unread(torch.ones(3))
            nn.Identity()(Unread(torch.tensor(1.0)))
        assert run == ["aten.mul.Tensor"]
        (mul,) = [said for said in log.said if said.get("op") == "mul"]
        assert mul["args"][0] == {"type": "Unread", "shape": [], "dtype": "float32"}


class TestEndings:
    def test_an_operator_that_raises_leaves_no_range_open(self, log: Log) -> None:
        with markers.start("nvtx"):
            with pytest.raises(RuntimeError, match="mat1 and mat2"):
                network()(data(3, 5))
            assert log.left_open == []
            torch.ones(2).sum()
            assert log.depths[-1] == 0

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_a_module_that_raises_leaves_none_open_at_the_next_call(self, error: type[BaseException], log: Log) -> None:
        class Raising(nn.Module):
            def forward(self, x: Any) -> Any:
                raise error

        model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Raising()))
        with markers.start("nvtx", level="modules"):
            with pytest.raises(error):
                model(data())
            if issubclass(error, Exception):  # torch tells its hooks of these only
                assert log.left_open == []
            network()(data())
            assert log.left_open == []
            assert log.depths[-3:] == [0, 1, 1]

    @pytest.mark.parametrize("level", ["modules", "all"])
    def test_a_backward_pass_that_raises_leaves_none_open(self, level: str, log: Log) -> None:
        class Raising(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                raise ValueError("in backward")

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.Linear(4, 4)

            def forward(self, x: Any) -> Any:
                return self.inner(Raising.apply(self.inner(x))).relu()

        with markers.start("nvtx", level=level):
            with pytest.raises(ValueError, match="in backward"):
                Model()(data()).sum().backward()
            assert log.left_open == []

    def test_a_graph_that_outlives_the_markers_runs_unmarked(self, log: Log) -> None:
        model = network()
        with markers.start("nvtx"):
            loss = model(data()).sum()
        count = len(log.said)
        loss.backward()
        assert model.first.weight.grad is not None
        assert len(log.said) == count


class TestReverting:
    def test_everything_is_what_it_was(self, log: Log) -> None:
        from torch.nn.modules import module

        def present() -> Any:
            spaces = (torch, torch.Tensor, nn.functional, nn.Module, torch.autograd, torch.distributed, torch.overrides)
            tables = [dict(vars(space)) for space in spaces]
            hooks = [
                dict(getattr(module, name))
                for name in vars(module)
                if name.startswith("_global_") and isinstance(getattr(module, name), dict)
            ]
            return tables, hooks, torch._C._len_torch_function_stack(), torch.autograd.graph._engine_run_backward

        before = present()
        with markers.start("nvtx"):
            assert torch._C._len_torch_function_stack() == before[2] + 1
            network()(data()).sum().backward()
        after = present()
        for one, other in zip(before[0], after[0]):
            assert one.keys() == other.keys()
            assert all(one[name] is other[name] for name in one)
        assert before[1:] == after[1:]

    def test_the_functions_of_torch_stay_themselves_meanwhile(self, log: Log) -> None:
        functions = torch.add, torch.Tensor.add, nn.functional.linear, nn.Module.__call__
        with markers.start("nvtx"):
            assert functions == (torch.add, torch.Tensor.add, nn.functional.linear, nn.Module.__call__)

    @pytest.mark.parametrize("outer", [lambda: torch.device("meta"), lambda: torch.overrides.BaseTorchFunctionMode()])
    def test_inside_and_across_the_modes_of_the_user(self, outer: Any, log: Log) -> None:
        with outer():
            started = markers.start("nvtx")
            torch.ones(1)
        torch.ones(1)
        assert log.names(op="ones") == ["ones", "ones"]
        with outer():
            started.revert()
            torch.ones(1)
        assert torch._C._len_torch_function_stack() == 0
        assert log.names(op="ones") == ["ones", "ones"]

    def test_another_thread_has_the_mode_while_it_calls_a_module(self, log: Log) -> None:
        depths = []

        class Model(nn.Module):
            def forward(self, x: Any) -> Any:
                depths.append(torch._C._len_torch_function_stack())
                return x * 2

        def work() -> None:
            Model()(data())
            depths.append(torch._C._len_torch_function_stack())
            data() * 3

        with markers.start("nvtx"):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert depths == [1, 0]
        assert log.names() == ["Model", "mul"]


class TestWrapping:
    def test_anything_else_can_be_wrapped_and_taken_back(self, log: Log) -> None:
        original = json.dumps
        with markers.wrap(json, "dumps"):
            assert json.dumps([1]) == "[1]"  # nobody marks
            with markers.start("nvtx"):
                assert json.dumps([1], indent=None) == "[1]"
        assert json.dumps is original
        (said,) = log.said
        assert (said["mod"], said["op"]) == ("json", "dumps")
        assert said["args"] == [
            {"name": "obj", "type": "list", "value": [1]},
            {"name": "indent", "type": "NoneType", "value": None},
        ]

    def test_a_method_by_its_class_or_by_its_target(self, log: Log) -> None:
        from marker_probes import Doubled

        with markers.wrap(Doubled, "forward"), markers.wrap("marker_probes:Doubled.backward"), markers.start("nvtx"):
            Doubled.apply(data().requires_grad_()).sum().backward()
        assert {"forward", "backward"} <= set(log.names(mod="marker_probes.Doubled"))

    def test_an_object_cannot_be_found_by_its_name(self) -> None:
        with pytest.raises(Exception, match=r"markers.wrap\(type\(model\), 'forward'\)"):
            markers.wrap(nn.Linear(1, 1), "forward")  # type: ignore[arg-type]

    def test_ranges_of_ones_own(self, log: Log) -> None:
        @markers.range("decode", boxes=3)
        def decode(depth: int) -> int:
            return depth if not depth else decode(depth - 1)

        decode(1)
        with markers.start("nvtx"):
            assert decode(1) == 0
        assert log.said == [{"op": "decode", "boxes": 3}] * 2
        assert log.depths == [0, 1]

    def test_a_range_of_ones_own_compiles(self, log: Log) -> None:
        def run(x: Any) -> Any:
            with markers.range("inside"):
                return x * 2

        with markers.start("nvtx"):
            torch._dynamo.reset()
            out = torch.compile(run, backend="eager", fullgraph=True)(data())
        assert out.tolist() == (data() * 2).tolist()


class TestBackends:
    def test_a_backend_that_does_not_work_says_so_and_changes_nothing(self) -> None:
        if backends._has_gpu():
            pytest.skip("nvtx works here")
        with pytest.raises(PatchError, match=r"nvtx does not work here.*record_function, trace"):
            markers.start("nvtx")
        assert torch._C._len_torch_function_stack() == 0
        assert not torch.nn.modules.module._global_forward_hooks

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ({"level": "module"}, r"level = 'module'; expected one of modules, functions, all.*did you mean 'modules'"),
            ({"stacks": "perhaps"}, "stacks = 'perhaps'; expected true or false"),
            ({"depth": 3}, "has no option 'depth'"),
        ],
    )
    def test_an_impossible_option_is_an_error(self, option: dict[str, Any], message: str) -> None:
        with pytest.raises(Exception, match=message):
            markers.start("trace", **option)

    def test_itt_and_record_function_work_here(self) -> None:
        for backend in ("itt", "record_function"):
            with markers.start(backend):
                network()(data()).sum().backward()
                assert torch._C._len_torch_function_stack() == 1

    def test_while_no_profiler_runs_record_function_makes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backends._RecordFunction, "open", lambda self, text: pytest.fail(text))
        with markers.start("record_function"):
            network()(data()).sum().backward()

    @pytest.mark.parametrize("methods", [("range_push", "range_pop"), ("range_start", "range_end")])
    def test_mstx_by_either_interface(self, methods: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        calls = []
        ends = {"range_pop": lambda: calls.append("pop") or 0, "range_end": lambda number: calls.append(number)}
        mstx = SimpleNamespace(**{methods[0]: lambda text: calls.append(text) or 7, methods[1]: ends[methods[1]]})
        module = ModuleType("torch_npu")
        module.__spec__ = importlib.machinery.ModuleSpec("torch_npu", None)
        module.npu = SimpleNamespace(mstx=mstx)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch_npu", module)
        with markers.start("auto", stacks=False, arguments=False):
            torch.ones(1)
        assert calls == ["{'mod':'torch','op':'ones'}", "pop" if methods[0] == "range_push" else 7]
