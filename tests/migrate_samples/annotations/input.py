from typing import Optional, Union

import torch

Kind = Union[torch.FloatTensor, "torch.cuda.FloatTensor"]


@torch.cuda.amp.autocast(enabled=False)
def f(stream: torch.cuda.Stream, event: "torch.cuda.Event", where: Optional[torch.cuda.device] = None) -> torch.cuda.Event:
    x: torch.cuda.FloatTensor = stream
    return event
