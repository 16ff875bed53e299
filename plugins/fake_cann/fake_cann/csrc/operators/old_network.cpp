// Layers and losses of the older interface.
#include "old.h"

using namespace fake_cann;

namespace {

// Strides and dilations begin with the batch and the channels; there is a padding before and one after each dimension.
struct Geometry {
  std::vector<int64_t> strides, dilations, before, after;
  int64_t groups;

  explicit Geometry(const Old& c) : groups(c.integer("groups", 1)) {
    const auto &all_strides = c.list("strides"), &all_dilations = c.list("dilations"), &pads = c.list("pads");
    strides.assign(all_strides.begin() + 2, all_strides.end());
    dilations.assign(all_dilations.begin() + 2, all_dilations.end());
    for (size_t place = 0; place < pads.size(); ++place) (place % 2 ? after : before).push_back(pads[place]);
    TORCH_CHECK(before == after, "NotEmulated: a convolution whose paddings differ");
  }
  std::vector<int64_t> nothing() const { return std::vector<int64_t>(strides.size()); }
};

// The CPU has no fast convolution of half precision.
at::Tensor input(const Old& c, size_t place) {
  auto x = c.in(place);
  return x.scalar_type() == at::kHalf ? x.to(at::kFloat) : x;
}

std::optional<at::Tensor> bias(const Old& c, size_t place) {
  return c.has(place) ? std::make_optional(input(c, place)) : std::nullopt;
}

void convolution(const Old& c) {  // x, weight, perhaps bias
  const Geometry g(c);
  c.put(at::convolution(input(c, 0), input(c, 1), bias(c, 2), g.strides, g.before, g.dilations, false, g.nothing(), g.groups));
}

void transposed_convolution(const Old& c) {  // sizes of the result, x, weight, perhaps bias
  const Geometry g(c);
  auto x = input(c, 1), weight = input(c, 2);
  std::vector<int64_t> more;
  for (size_t dim = 0; dim < g.strides.size(); ++dim) {
    const auto at = int64_t(dim) + 2;
    more.push_back(c.out().size(at) - ((x.size(at) - 1) * g.strides[dim] - 2 * g.before[dim] +
                                       g.dilations[dim] * (weight.size(at) - 1) + 1));
  }
  c.put(at::convolution(x, weight, bias(c, 3), g.strides, g.before, g.dilations, true, more, g.groups));
}

at::Tensor convolution_gradient(const Old& c, const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight,
                                bool of_x) {
  const Geometry g(c);
  auto [gx, gw, gb] = at::convolution_backward(gradient, x, weight, c10::nullopt, g.strides, g.before, g.dilations,
                                               false, g.nothing(), g.groups, {of_x, !of_x, false});
  return of_x ? gx : gw;
}

void gradient_of_x(const Old& c) {  // sizes, weight, gradient
  auto g = input(c, 2);
  c.put(convolution_gradient(c, g, at::empty(c.out().sizes(), g.options()), input(c, 1), true));
}
void gradient_of_weight(const Old& c) {  // x, sizes, gradient
  auto x = input(c, 0);
  c.put(convolution_gradient(c, input(c, 2), x, at::empty(c.out().sizes(), x.options()), false));
}

void layer_norm(const Old& c) {  // x, weight, bias -> y, mean, one by the deviation
  auto x = c.in(0);
  const auto begin = c.integer("begin_norm_axis");
  auto sizes = x.sizes().slice(size_t(begin));
  auto [y, mean, scale] = at::native_layer_norm(x, sizes, c.in(1).reshape(sizes), c.in(2).reshape(sizes), c.real("epsilon", 1e-5));
  c.put(y, 0);
  c.put(mean, 1);
  c.put(scale, 2);
}

void cross_entropy(const Old& c) {  // x, shares of the classes -> losses, gradient of x
  auto x = c.in(0).to(at::kFloat), shares = c.in(1).to(at::kFloat), logs = at::log_softmax(x, -1);
  c.put(-(shares * logs).sum(-1), 0);
  c.put(logs.exp() * shares.sum(-1, true) - shares, 1);
}

// torch_npu adds a multiple of the number of classes.
int64_t blank_of(const Old& c, const at::Tensor& log_probs) { return c.integer("blank") % log_probs.size(-1); }

// The rows of the last result are longer than those of ATen: the memory has another step there.
at::Tensor of_width(const at::Tensor& alpha, const std::vector<int64_t>& target_lengths) {
  const auto longest = *std::max_element(target_lengths.begin(), target_lengths.end());
  return alpha.slice(2, 0, 2 * longest + 1);
}

void ctc_loss(const Old& c) {  // logarithms, targets, lengths of these and those -> losses, alpha
  auto [loss, alpha] = at::_ctc_loss(c.in(0), c.in(1), c.ints(2), c.ints(3), blank_of(c, c.in(0)),
                                     c.integer("zero_infinity") != 0);
  c.put(loss, 0);
  of_width(c.out(1), c.ints(3)).copy_(alpha);
}

void ctc_loss_gradient(const Old& c) {  // gradient, logarithms, targets, lengths, losses, alpha -> gradient
  auto alpha = of_width(c.in(6), c.ints(4)).contiguous();
  c.put(at::_ctc_loss_backward(c.in(0), c.in(1), c.in(2), c.ints(3), c.ints(4), c.in(5), alpha, blank_of(c, c.in(1)),
                               c.integer("zero_infinity") != 0));
}

}  // namespace

OldFunctions fake_cann::old_network_functions() {
  return {
      {"Conv2D", convolution},
      {"Conv2DBackpropInput", gradient_of_x},
      {"Conv2DBackpropFilter", gradient_of_weight},
      {"Conv2DTranspose", transposed_convolution},
      {"Conv3D", convolution},
      {"Conv3DBackpropInput", gradient_of_x},
      {"Conv3DBackpropFilter", gradient_of_weight},
      {"Conv3DTranspose", transposed_convolution},
      {"MatMulV2",  // x, y, perhaps bias
       [](const Old& c) {
         auto x = c.in(0), y = c.in(1);
         auto result = at::matmul(c.integer("transpose_x1") ? x.t() : x, c.integer("transpose_x2") ? y.t() : y);
         c.put(c.has(2) ? result + c.in(2) : result);
       }},
      {"LayerNormV3", layer_norm},
      {"SoftmaxCrossEntropyWithLogits", cross_entropy},
      {"AffineGrid",  // theta, sizes
       [](const Old& c) { c.put(at::affine_grid_generator(c.in(0), c.ints(1), c.integer("align_corners") != 0)); }},
      {"CTCLossV2", ctc_loss},
      {"CTCLossV2Grad", ctc_loss_gradient},
  };
}
