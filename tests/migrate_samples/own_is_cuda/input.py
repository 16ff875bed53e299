import torch
from torch import Tensor


class Settings:
    is_cuda = False

    def flip(self):
        self.is_cuda = not self.is_cuda


class Points(Tensor):
    def where(self):
        return self.is_cuda


class Holder:
    def where(self):
        return self.is_cuda


settings = Settings()
if settings.is_cuda and torch.ones(1).is_cuda:
    Settings().is_cuda


def look(x):
    return x.is_cuda
