// Layers and losses whose results or saved values differ in form from those of ATen.
#include <ATen/ATen.h>

#include "own.h"

using namespace fake_cann;

namespace {

// Saved means have another type than half precision inputs, which ATen's backward on the CPU wants as the input.
at::Tensor as_type(const at::Tensor& x, const at::Tensor& like) { return x.defined() ? x.to(like.scalar_type()) : x; }

std::array<bool, 3> mask(const Call& c, int place) {
  auto bools = c.bools(place);
  return {bools[0], bools[1], bools[2]};
}

std::optional<at::Tensor> maybe(const at::Tensor& x) { return x.defined() ? std::make_optional(x) : std::nullopt; }

// The CPU has no fast convolution of half precision: in float it takes a tenth of the time, as an NPU adds in float.
// It adds up transposed ones in half precision, and is followed in that.
at::Tensor for_convolution(const at::Tensor& x, bool is_transposed) {
  return x.defined() && x.scalar_type() == at::kHalf && !is_transposed ? x.to(at::kFloat) : x;
}

void convolution(const Call& c) {
  // x, weight, bias, strides, padding, dilation, transposed, output padding, groups -> y
  const bool is_transposed = c.boolean(6);
  auto x = for_convolution(c.tensor(0), is_transposed), weight = for_convolution(c.tensor(1), is_transposed),
       bias = for_convolution(c.tensor(2), is_transposed);
  c.put(9, at::convolution(x, weight, maybe(bias), c.ints(3), c.ints(4), c.ints(5), is_transposed, c.ints(7), c.integer(8)));
}

void convolution_backward(const Call& c) {
  // gradient, x, weight, sizes of the bias, strides, padding, dilation, transposed, output padding, groups, mask
  // -> gradients of x, weight, bias
  const bool is_transposed = c.boolean(7);
  auto g = for_convolution(c.tensor(0), is_transposed), x = for_convolution(c.tensor(1), is_transposed),
       weight = for_convolution(c.tensor(2), is_transposed);
  auto sizes = c.given(3) ? at::OptionalIntArrayRef(c.ints(3)) : c10::nullopt;
  auto [gx, gw, gb] = at::convolution_backward(g, x, weight, sizes, c.ints(4), c.ints(5), c.ints(6), c.boolean(7),
                                               c.ints(8), c.integer(9), mask(c, 10));
  c.put(12, gx);
  c.put(13, gw);
  c.put(14, gb);
}

void batch_norm(const Call& c) {
  bool training = c.boolean(5);
  auto [out, mean, scale] = at::native_batch_norm(c.tensor(0), maybe(c.tensor(1)), maybe(c.tensor(2)), maybe(c.tensor(3)),
                                                  maybe(c.tensor(4)), training, c.real(6), c.real(7));
  c.put(8, out);
  if (!training) return;  // nothing is saved
  c.put(9, mean);
  c.put(10, scale);
}

void batch_norm_backward(const Call& c) {
  // gradient, x, weight, mean, variance, saved mean, saved scale, training, epsilon, mask -> gradients of x, weight, bias
  auto wide = [&c](int place) {  // saved values are float where the input is half precision
    auto x = c.tensor(place);
    return x.defined() ? std::make_optional(x.to(at::kFloat)) : std::nullopt;
  };
  auto [gx, gw, gb] = at::native_batch_norm_backward(*wide(0), *wide(1), wide(2), wide(3), wide(4), wide(5), wide(6),
                                                     c.boolean(7), c.real(8), mask(c, 9));
  c.put(10, gx);
  c.put(11, gw);
  c.put(12, gb);
}

void layer_norm_backward(const Call& c) {
  auto x = c.tensor(1);
  auto [gx, gw, gb] = at::native_layer_norm_backward(c.tensor(0), x, c.ints(2), as_type(c.tensor(3), x),
                                                     as_type(c.tensor(4), x), maybe(c.tensor(5)), maybe(c.tensor(6)),
                                                     mask(c, 7));
  c.put(8, gx);
  c.put(9, gw);
  c.put(10, gb);
}

void group_norm(const Call& c) {
  auto [out, mean, scale] =
      at::native_group_norm(c.tensor(0).contiguous(), maybe(c.tensor(1)), maybe(c.tensor(2)), c.integer(3), c.integer(4),
                            c.integer(5), c.integer(6), c.real(7));
  c.put(8, out);
  c.put(9, mean);
  c.put(10, scale);
}

void group_norm_backward(const Call& c) {
  auto x = c.tensor(1).contiguous();
  auto [gx, gw, gb] = at::native_group_norm_backward(c.tensor(0).contiguous(), x, as_type(c.tensor(2), x),
                                                     as_type(c.tensor(3), x), maybe(c.tensor(4)), c.integer(5),
                                                     c.integer(6), c.integer(7), c.integer(8), mask(c, 9));
  c.put(10, gx);
  c.put(11, gw);
  c.put(12, gb);
}

// The mask has the NPU's own format: it stays empty, and the backward pass finds the places again.
void max_pool_with_mask(const Call& c) {
  c.put(6, std::get<0>(at::max_pool2d_with_indices(c.tensor(0), c.ints(1), c.ints(2), c.ints(3), c.ints(4), c.boolean(5))));
}
void max_pool_with_mask_backward(const Call& c) {
  auto x = c.tensor(1);
  auto places =
      std::get<1>(at::max_pool2d_with_indices(x, c.ints(3), c.ints(4), c.ints(5), c.ints(6), c.boolean(7)));
  c.put(8, at::max_pool2d_with_indices_backward(c.tensor(0), x, c.ints(3), c.ints(4), c.ints(5), c.ints(6), c.boolean(7),
                                                places));
}

at::Tensor of_mean(const at::Tensor& gradient, const at::Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::Mean ? gradient / self.numel() : gradient;
}

void l1_loss_backward(const Call& c) {  // gradient, self, target, reduction -> result
  auto self = c.tensor(1);
  c.put(4, c.tensor(0) * of_mean(at::sign(self - c.tensor(2)), self, c.integer(3)));
}

void logits(const Call& c) {  // self, target, weight, positive weight, reduction -> loss
  auto wide = [&c](int place) {
    auto x = c.tensor(place);
    return x.defined() ? std::make_optional(x.to(at::kFloat)) : std::nullopt;
  };
  c.put(5, at::binary_cross_entropy_with_logits(*wide(0), *wide(1), wide(2), wide(3), c.integer(4)));
}

// ATen's places are long; max_pool2d of torch_npu returns a mask of its own format instead, which is no place.
at::Tensor places(const Call& c) {
  auto given = c.tensor(1);
  const auto type = given.scalar_type();
  TORCH_CHECK(type == at::kLong || type == at::kInt, "NotEmulated: indices of type ", type, ": those of max_pool2d on an "
              "NPU are a mask in a format of its own");
  return given.to(at::kLong);
}

void logits_backward(const Call& c) {  // gradient, self, target, weight, positive weight, reduction -> result
  auto self = c.tensor(1), target = c.tensor(2), weight = c.tensor(3), positive = c.tensor(4);
  auto p = at::sigmoid(self);
  auto result = positive.defined() ? (1 + (positive - 1) * target) * p - positive * target : p - target;
  if (weight.defined()) result = result * weight;
  c.put(6, c.tensor(0) * of_mean(result, self, c.integer(5)));
}

void svd(const Call& c) {  // x, whether u and v are square, whether they are wanted -> singular values, u, v
  auto x = c.tensor(0);
  if (!c.boolean(2)) return c.put(3, at::linalg_svdvals(x));
  auto [u, s, vh] = at::linalg_svd(x, c.boolean(1));
  c.put(3, s);
  c.put(4, u);
  c.put(5, vh.mH());
}

void qr(const Call& c) {  // x, 0 for "reduced", 1 for "complete", 2 for "r" -> q, r
  const int64_t mode = c.integer(1);
  auto [q, r] = at::linalg_qr(c.tensor(0), mode == 0 ? "reduced" : mode == 1 ? "complete" : "r");
  if (mode < 2) c.put(2, q);
  c.put(3, r);
}

}  // namespace

Functions fake_cann::network_functions() {
  return {
      {"Convolution", convolution},
      {"ConvolutionBackward", convolution_backward},
      {"BatchNorm", batch_norm},
      {"BatchNormBackward", batch_norm_backward},
      {"LayerNormBackward", layer_norm_backward},
      {"GroupNorm", group_norm},
      {"GroupNormBackward", group_norm_backward},
      {"MaxPool2dWithMask", max_pool_with_mask},
      {"MaxPool2dWithMaskBackward", max_pool_with_mask_backward},
      {"MultilabelMarginLoss",  // self, target, reduction -> loss, whether each is a target; ATen has long targets only
       [](const Call& c) {
         auto [loss, is_target] =
             at::multilabel_margin_loss_forward(c.tensor(0), c.tensor(1).to(at::kLong), c.integer(2));
         c.put(3, loss);
         c.put(4, is_target);
       }},
      {"MaxUnpool2d",  // x, places, sizes -> y
       [](const Call& c) { c.put(3, at::max_unpool2d(c.tensor(0), places(c), c.ints(2))); }},
      {"MaxUnpool3d",  // x, places, sizes, strides, padding -> y
       [](const Call& c) { c.put(5, at::max_unpool3d(c.tensor(0), places(c), c.ints(2), c.ints(3), c.ints(4))); }},
      {"Svd", svd},
      {"LinalgQr", qr},
      {"L1LossBackward", l1_loss_backward},
      {"BinaryCrossEntropyWithLogits", logits},
      {"BinaryCrossEntropyWithLogitsBackward", logits_backward},
  };
}
