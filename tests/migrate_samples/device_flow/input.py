import torch

DEVICE = "cuda:1"
KEY = "cuda"
times = {KEY: 0}


def make(size, device="cuda", *, dtype=None):
    return torch.empty(size, device=device, dtype=dtype)


class Trainer:
    device = "cuda"

    def __init__(self, model, where="cuda:0", label="cuda"):
        self.where, self.label = where, label
        self.model = model.to(self.where)

    def run(self, place):
        return self.model.to(place), make(2, DEVICE), make(3, device="cuda")

    def start(self):
        return self.run("cuda:2")


times[KEY] += torch.ones(1, device=KEY).item()
chosen = DEVICE if DEVICE != "cuda" else "cpu"
Trainer(None, "cuda:3", "cuda")
unknown("cuda", device="cuda")
