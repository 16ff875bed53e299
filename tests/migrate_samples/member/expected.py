import torch
import torch_npu  # noqa: F401


def move(x, y, rest):
    assert x.is_npu and not y.weight.is_npu, "needs cuda tensors"
    if next(rest.parameters()).is_npu:
        return x.npu(non_blocking=True), [t.npu() for t in rest], (x
            .detach()  # a comment
            .npu())
    if x.device.type == 'npu' or y.device == torch.device("npu", 0):
        return x.type(torch.npu.FloatTensor), x.type("torch.npu.HalfTensor")
    torch.set_default_tensor_type('torch.npu.FloatTensor')
    return list(map(torch.Tensor.npu, rest)), x.new_zeros(3, device="npu:1"), x.cuda
