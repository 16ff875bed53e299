import torch
from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction, multi_scale_deformable_attn_pytorch
from mmcv.utils import ext_loader
from torch.autograd import Function

from . import iou3d_cuda
from .points import points_in_boxes

try:
    from . import knn_ext as fast
except ImportError:
    fast = None

ext_module = ext_loader.load_ext('_ext', ['ms_deform_attn_forward', 'roi_align_forward', 'carafe_forward'])


class Attention(Function):
    @staticmethod
    def forward(ctx, value):
        return ext_module.ms_deform_attn_forward(value, im2col_step=64)


class RoIAlign(Function):
    @staticmethod
    def forward(ctx, value):
        return ext_module.roi_align_forward(value)


attend = Attention.apply


def portable(value):
    return value * 2


def attention(value):  # stays
    if torch.cuda.is_available() and value.is_cuda:
        function = Attention
        return function.apply(value)
    else:
        return portable(value)


def attention_of_mmcv(value):  # stays
    return MultiScaleDeformableAttnFunction.apply(value) if value.is_cuda else multi_scale_deformable_attn_pytorch(value)


def early(value):  # stays
    if not value.is_cuda:
        return portable(value)
    value = value.contiguous()
    return attend(value)


def overlaps(a, b):  # stays
    if a.device.type == "cuda":
        return iou3d_cuda.boxes(a, b)
    return a @ b


def distances(a):  # stays
    if not a.is_cuda:
        return a
    elif fast is not None:
        return fast.knn(a)


def both(value):  # becomes is_npu: attention() runs everywhere
    if value.is_cuda:
        return attention(value)
    return value


def aligned(value):  # becomes is_npu: there is a kernel
    if torch.cuda.is_available() and value.is_cuda:
        return RoIAlign.apply(value)
    return portable(value)


def no_other_way(value):  # becomes is_npu: an error is no other way
    if not value.is_cuda:
        raise NotImplementedError
    return attend(value)


def of_a_variable(value):  # stays
    on_cuda = torch.cuda.is_available()
    if on_cuda and value.dim() == 4:
        return ext_module.carafe_forward(value)
    return portable(value)


def of_a_variable_for_more(value):  # a human's
    on_cuda = torch.cuda.is_available()
    if on_cuda:
        value = value.cuda()
    return ext_module.carafe_forward(value) if on_cuda else portable(value)


def elsewhere(points, boxes):  # becomes is_npu: nothing is known of it
    if points.is_cuda:
        return points_in_boxes(points, boxes)
    return points.cuda()


class Layer(torch.nn.Module):
    def forward(self, value):
        return attend(value)


def made_on_any_device(use):  # becomes is_available of NPUs: a model is made, and both sides need the kernel
    if torch.cuda.is_available():
        return Layer().cuda()
    return attend(use) if use.is_cuda else attend(use * 2)
