import torch
import torch_npu  # noqa: F401

DEVICE = "npu:1"
KEY = "cuda"
times = {KEY: 0}


def make(size, device="npu", *, dtype=None):
    return torch.empty(size, device=device, dtype=dtype)


class Trainer:
    device = "cuda"

    def __init__(self, model, where="npu:0", label="cuda"):
        self.where, self.label = where, label
        self.model = model.to(self.where)

    def run(self, place):
        return self.model.to(place), make(2, DEVICE), make(3, device="npu")

    def start(self):
        return self.run("npu:2")


times[KEY] += torch.ones(1, device=KEY).item()
chosen = DEVICE if DEVICE != "npu" else "cpu"
Trainer(None, "npu:3", "cuda")
unknown("cuda", device="cuda")
