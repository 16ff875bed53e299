"""torch is imported where it is needed."""
import os


def first():
    import torch
    return torch.cuda.is_available()


def second():
    import torch
    return torch.ones(1)


def third():
    if os.name: import torch; return torch.zeros(1, device="cuda")
