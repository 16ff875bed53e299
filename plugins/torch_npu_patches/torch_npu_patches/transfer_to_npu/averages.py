"""Averages of integers between processes, which NCCL computes and HCCL does not.

torch_npu sums the tensors over HCCL, then divides the sum in place (``ProcessGroupHCCL::allreduce`` in
torch_npu/csrc/distributed/ProcessGroupHCCL.cpp). torch cannot divide integers in place: "result type Float can't be
cast to the desired output type Long". NCCL divides and drops the fraction, and so does torch_npu on the newest NPUs
(Ascend950). Lightning averages like this, ``self.log("seen", 3, sync_dist=True)`` for example.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import patchcore as pc
from torch_npu_patches.transfer_to_npu.devices import NPU
from torch_npu_patches.transfer_to_npu.wrappers import under_the_name

__all__ = ["METHODS", "make_reduction"]

#: Methods of a process group that reduce tensors, by the place of their options among the positional arguments.
METHODS = {
    "allreduce": 2,
    "reduce": 2,
    "reduce_scatter": 3,
    "reduce_scatter_single": 3,
    "_reduce_scatter_base": 3,
}


def make_reduction(target: pc.Target) -> Callable[[Any], Any]:
    """Return the factory of a method of ``ProcessGroup`` that averages integers on NPUs, too.

    The method is called with the options that ``torch.distributed.all_reduce`` and its like make. The sum is divided on
    the current stream, which waits for the collective first, also if ``async_op`` is true.

    Args:
        target: the method, one of :data:`METHODS`.
    """
    position = METHODS[str(target.path[-1])]

    def make(original: Any) -> Any:
        import torch.distributed as dist

        average, total = dist.ReduceOp.AVG, dist.ReduceOp.SUM

        def reduction(*args: Any, **kwargs: Any) -> Any:
            options: Any = args[position] if len(args) > position else kwargs.get("opts")
            if getattr(options, "reduceOp", None) != average:
                return original(*args, **kwargs)
            results = [tensor for tensor in _tensors(args[1]) if _is_integer_on_npu(tensor)]
            if not results:
                return original(*args, **kwargs)
            options.reduceOp = total
            try:
                work = original(*args, **kwargs)
            finally:
                options.reduceOp = average
            if work is not None:  # a backend that returns none has put the collective on the current stream
                work.wait()
            group = args[0]
            if getattr(options, "rootRank", group.rank()) == group.rank():  # others get no result from a reduce
                for tensor in results:
                    tensor.div_(group.size(), rounding_mode="trunc")
            return None if work is None else _finished(results)

        return under_the_name(reduction, original, target)

    return make


def _finished(results: list[Any]) -> Any:
    """Return the work of a collective that has ended.

    The work of the sum is not returned: with gloo, ``wait()`` copies the sum to the output each time that it is called.

    Args:
        results: the tensors with the result.
    """
    import torch
    import torch.distributed as dist

    class Finished(dist.Work):
        def wait(self, timeout: Any = None) -> bool:
            return True

        def is_completed(self) -> bool:
            return True

        def is_success(self) -> bool:
            return True

        def result(self) -> list[Any]:
            return results

        def get_future(self) -> Any:
            future: Any = torch.futures.Future(devices=[results[0].device])
            future.set_result(results)
            return future

    return Finished()


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _tensors(element)
    else:
        yield value


def _is_integer_on_npu(tensor: Any) -> bool:
    import torch

    is_integer = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)
    return is_integer and tensor.device.type == NPU
