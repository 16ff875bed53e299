import torch


def move(x, y, rest):
    assert x.is_cuda and not y.weight.is_cuda, "needs cuda tensors"
    if next(rest.parameters()).is_cuda:
        return x.cuda(non_blocking=True), [t.cuda() for t in rest], (x
            .detach()  # a comment
            .cuda())
    if x.device.type == 'cuda' or y.device == torch.device("cuda", 0):
        return x.type(torch.cuda.FloatTensor), x.type("torch.cuda.HalfTensor")
    torch.set_default_tensor_type('torch.cuda.FloatTensor')
    torch.set_default_tensor_type(torch.cuda.HalfTensor)
    return list(map(torch.Tensor.cuda, rest)), x.new_zeros(3, device="cuda:1"), x.cuda
