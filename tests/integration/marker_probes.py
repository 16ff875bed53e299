"""What programs do with torch, as small functions whose results can be compared; each seeds itself.

The names are those of the probes that showed what wrapping torch's functions breaks.
"""

from __future__ import annotations

import copy
import operator
import os
import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

Probe = Callable[[Path], Any]

#: By name; those that mark no call at all are among the quiet ones.
PROBES: dict[str, Probe] = {}


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Scaled(torch.Tensor):
    pass


def network() -> Net:
    torch.manual_seed(0)
    return Net()


def data(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (3, 4)), generator=torch.Generator().manual_seed(1))


def gradients(model: nn.Module) -> list[Any]:
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]


def unmangled(text: str) -> str:
    """Return what TorchScript shows without what tells one compilation from another, and where it was traced from."""
    return re.sub(r"___torch_mangle_\d+\.|#.*", "", text)


def double_and_add(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


@probe
def adam_training_step(_: Path) -> Any:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _step in range(2):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(data()), torch.ones(3, 2)).backward()
        optimizer.step()
    return [p.tolist() for p in model.parameters()]


@probe
def operators_and_in_place_forms(_: Path) -> Any:
    found = []
    for name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "matmul", "eq", "lt", "ge", "ne"):
        for form in (name, f"i{name}"):
            if hasattr(operator, form):
                a, b = data(3, 3).abs() + 1, data(3, 3).abs() + 1
                found.append((form, getattr(operator, form)(a, b).tolist(), a.tolist()))
    for name in ("and_", "or_", "xor", "iand", "ior", "ixor", "lshift", "rshift"):
        x = torch.tensor([1, 2, 3])
        found.append((name, getattr(operator, name)(x, torch.tensor([1, 1, 2])).tolist(), x.tolist()))
    x = data(3, 3)
    x[0, 1:] = 5
    x.mul_(2).add_(x).clamp_(min=0)
    return [*found, x.tolist(), (-x).tolist(), (2 - x).tolist(), abs(x).tolist(), x[x > 1].tolist(), 1.5 in x]


@probe
def zero_dim_multiply(_: Path) -> Any:
    return (torch.tensor(3.0) * torch.ones(2)).tolist(), (torch.tensor(2) * torch.tensor(4)).item()


@probe
def lstm(_: Path) -> Any:
    torch.manual_seed(0)
    model = nn.LSTM(4, 5, num_layers=2)
    out, (h, c) = model(data(6, 2, 4))
    (out.sum() + h.sum() + c.sum()).backward()
    return out.tolist(), gradients(model)


@probe
def multihead_attention(_: Path) -> Any:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2)
    out, weights = model(*[data(5, 2, 8)] * 3)
    out.sum().backward()
    return out.tolist(), weights.tolist(), gradients(model)


def compiled(backend: str) -> Any:
    torch._dynamo.reset()
    model = network()
    x = data().requires_grad_()
    out = torch.compile(model, backend=backend, fullgraph=True)(x)
    out.sum().backward()
    function = torch.compile(double_and_add, backend=backend, fullgraph=True)
    again = torch.compile(double_and_add, backend=backend, fullgraph=True, dynamic=True)
    return out.tolist(), gradients(model), function(data()).tolist(), again(data(2, 5)).tolist()


@probe
def compile_aot_eager_fullgraph(_: Path) -> Any:
    return compiled("aot_eager")


@probe
def jit_script_of_a_module(_: Path) -> Any:
    scripted = torch.jit.script(network())
    return scripted(data()).tolist(), unmangled(scripted.code)


@probe
def jit_trace(_: Path) -> Any:
    traced = torch.jit.trace(network(), data())
    numbers: dict[str, int] = {}  # values are named after Python's variables, where the tracer comes upon them
    graph = re.sub(r"%[\w.]+", lambda m: f"%{numbers.setdefault(m.group(), len(numbers))}", str(traced.inlined_graph))
    return unmangled(graph), traced(data(5, 4)).tolist()


@probe
def fx_symbolic_trace(_: Path) -> Any:
    graph = torch.fx.symbolic_trace(network())
    return str(graph.graph), graph(data()).tolist()


@probe
def export(_: Path) -> Any:
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(network(), (data(),), dynamic_shapes={"x": {0: batch}})
    graph = [(node.op, str(node.target)) for node in program.graph.nodes]
    return graph, program.module()(data(5, 4)).tolist()


@probe
def vmap_of_grad(_: Path) -> Any:
    def loss(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ weight).sum() * torch.tensor(2.0)

    return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(data(4, 2), data(3, 4)).tolist()


@probe
def fake_tensors(_: Path) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x, scalar = mode.from_tensor(data()), mode.from_tensor(torch.tensor(2.0))
        y = network()(x * scalar)
        made = torch.zeros(()) + scalar
    return tuple(y.shape), str(y.dtype), type(y).__name__, tuple(made.shape)


@probe
def save_and_load(folder: Path) -> Any:
    model = network()
    torch.save(model.state_dict(), folder / "model.pt")
    torch.save(model, folder / "whole.pt")
    model.load_state_dict(torch.load(folder / "model.pt"))
    whole = torch.load(folder / "whole.pt", weights_only=False)
    return model(data()).tolist(), whole(data()).tolist()


@probe
def deepcopy_and_pickle_of_a_module(_: Path) -> Any:
    model = network()
    model(data()).sum().backward()
    twin, third = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    return twin(data()).tolist(), third(data()).tolist(), sorted(vars(twin)), gradients(twin)


@probe
def autocast(_: Path) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = network()(data())
    out.float().sum().backward()
    return str(out.dtype), out.tolist()


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index)) * 2


@probe
def data_loader_with_workers(_: Path) -> Any:
    return [batch.tolist() for batch in torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=1)]


def checkpointed(*, use_reentrant: bool) -> Any:
    from torch.utils.checkpoint import checkpoint

    model = network()
    x = data().requires_grad_()
    checkpoint(model, x * 2, use_reentrant=use_reentrant).sum().backward()
    return gradients(model), x.grad.tolist() if x.grad is not None else None


@probe
def checkpoint_without_reentry(_: Path) -> Any:
    return checkpointed(use_reentrant=False)


@probe
def checkpoint_with_reentry(_: Path) -> Any:
    return checkpointed(use_reentrant=True)


@probe
def tensor_subclasses(_: Path) -> Any:
    x = data().as_subclass(Scaled)
    y = torch.cat([x * 2, x.exp()])
    return type(y).__name__, y.tolist(), type(torch.stack([data(), data()])).__name__


@probe
def torch_function_overrides(_: Path) -> Any:
    seen = []

    class Duck:
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            return 5

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    made = torch.mean(Duck()), nn.functional.relu(Duck())
    x = data().as_subclass(Logged)
    return made, (x + 1).sum().item(), seen


@probe
def torch_function_mode_of_the_user(_: Path) -> Any:
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    with Mode():
        network()(data())
        torch.ones(2).add(1).shape
    with torch.device("meta"):
        made = torch.ones(2) * 2
    torch.set_default_device("meta")
    with Mode():
        other = torch.zeros(2)
    torch.set_default_device(None)
    return seen, made.device.type, other.device.type, torch.ones(1).device.type


@probe
def numpy_interop(_: Path) -> Any:
    array = data().numpy()
    back = torch.from_numpy(array) * np.float32(2)
    return np.asarray(back).tolist(), float(np.sum(back.numpy())), torch.tensor(np.ones(2)).tolist(), np.array(data(2))


@probe
def nested_tensors(_: Path) -> Any:
    x = torch.nested.nested_tensor([data(2, 3), data(4, 3)])
    jagged = torch.nested.nested_tensor([data(2, 3), data(4, 3)], layout=torch.jagged)
    return [part.tolist() for part in (x * 2).unbind()], [part.tolist() for part in jagged.sin().unbind()]


def in_group(folder: Path, function: Callable[[], Any]) -> Any:
    import torch.distributed as dist

    rendezvous = folder / f"rendezvous-{os.urandom(4).hex()}"
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=0, world_size=1)
    try:
        return function()
    finally:
        dist.destroy_process_group()


@probe
def gloo_collectives(folder: Path) -> Any:
    import torch.distributed as dist

    def talk() -> Any:
        x = data()
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        gathered = [torch.zeros(3, 4)]
        dist.all_gather(gathered, x)
        objects: list[Any] = [None]
        dist.all_gather_object(objects, {"a": 1})
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        work.wait()
        dist.barrier()
        return x.tolist(), gathered[0].tolist(), objects

    return in_group(folder, talk)


@probe
def distributed_data_parallel(folder: Path) -> Any:
    def train() -> Any:
        model = nn.parallel.DistributedDataParallel(network())
        model(data()).sum().backward()
        return gradients(model)

    return in_group(folder, train)


@probe
def threads(_: Path) -> Any:
    results: dict[int, Any] = {}

    models = [network() for _ in range(4)]

    def work(number: int) -> None:
        model = models[number]
        (model(data() * number).sum() * 2).backward()
        results[number] = gradients(model)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [results[number] for number in range(4)]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 2 + x * 0


@probe
def custom_autograd_function(_: Path) -> Any:
    x = data().requires_grad_()
    Doubled.apply(x).sum().backward()
    y = data().double().requires_grad_()
    return x.grad.tolist() if x.grad is not None else None, torch.autograd.gradcheck(Doubled.apply, (y,))


@probe
def second_derivatives(_: Path) -> Any:
    x = data().requires_grad_()
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    first.sum().backward()
    return first.tolist(), x.grad.tolist() if x.grad is not None else None


@probe
def hooks_of_the_user(_: Path) -> Any:
    seen = []
    model = network()
    model.first.register_forward_pre_hook(lambda module, args: seen.append("pre"))
    model.first.register_forward_hook(lambda module, args, out: out * 2)
    model.second.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(len(grad_in)))
    x = data().requires_grad_()
    x.register_hook(lambda gradient: gradient * 3)
    model(x).sum().backward()
    return seen, x.grad.tolist() if x.grad is not None else None, gradients(model)
