"""Train a classifier on one GPU; --distributed makes it run on several."""
import os
import argparse

import torch
import torch_npu  # noqa: F401
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader, device):
    with torch.no_grad():
        return sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])  # torchrun --nproc-per-node N
    torch.npu.set_device(local_rank)
    torch.distributed.init_process_group("hccl")
    device = torch.device("npu" if torch.npu.is_available() else "cpu")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=8, sampler=torch.utils.data.distributed.DistributedSampler(data))
    test = DataLoader(data, batch_size=8)

    # the model
    model = nn.Linear(8, 2)
    model.to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        if torch.distributed.get_rank() == 0:
            print(f"epoch {epoch}: {loss.item():.4f}")
    print(evaluate(model, test, device))
    if torch.distributed.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pth")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
