import torch


def parameter(torch):
    return torch.cuda.is_available()


def local():
    torch = object()
    return torch.cuda.is_available()


def nested():
    def inner(device="cuda"):
        return torch.ones(1, device=device)

    def other(torch, device="cuda"):
        return torch.ones(1, device=device)

    return inner(), other(None), torch.cuda.current_device()


class Space:
    torch = None

    def method(self):
        return torch.cuda.is_available()


values = [torch.cuda for torch in ()]
