from typing import Optional, Union

import torch
import torch_npu  # noqa: F401

Kind = Union[torch.FloatTensor, "torch.cuda.FloatTensor"]


@torch.npu.amp.autocast(enabled=False)
def f(stream: torch.npu.Stream, event: "torch.cuda.Event", where: Optional[torch.npu.device] = None) -> torch.npu.Event:
    x: torch.npu.FloatTensor = stream
    return event
