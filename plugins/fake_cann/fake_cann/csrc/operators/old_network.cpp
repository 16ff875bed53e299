// Layers and losses of the older interface.
#include <cmath>
#include <limits>

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

// Samples of an image (n, h, w, c) at taps of a kernel that are displaced and weighted one by one: first all horizontal
// displacements (n, rows, columns, groups of channels, taps), then the vertical ones, then the weights.
struct Displaced {
  at::Tensor x, offsets;
  int64_t kernel_rows, kernel_columns, groups, taps;

  // `sampled` has the size of the samples.
  Displaced(const Old& c, size_t place, const at::Tensor& sampled)
      : x(c.in(place).to(at::kFloat).contiguous()),
        offsets(c.in(place + 1).to(at::kFloat).contiguous()),
        kernel_rows(sampled.size(1) / offsets.size(1)),
        kernel_columns(sampled.size(2) / offsets.size(2)),
        groups(c.integer("deformable_groups", 1)),
        taps(kernel_rows * kernel_columns),
        strides_(c.list("strides")),
        dilations_(c.list("dilations")),
        pads_(c.list("pads")) {
    TORCH_CHECK(c.integer("modulated", 1) != 0, "NotEmulated: samples without weights");
    TORCH_CHECK(offsets.size(3) == 3 * groups * taps, "offsets that do not fit the kernel");
  }

  // Calls `visit(image, place of the displacement, place of the sample, row, column)` for each tap of each group.
  template <typename Visit>
  void each(Visit visit) const {
    const int64_t n = offsets.size(0), rows = offsets.size(1), columns = offsets.size(2), c = x.size(3);
    const float* given = offsets.data_ptr<float>();
    for (int64_t b = 0; b < n; ++b)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          for (int64_t g = 0; g < groups; ++g)
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t first = ((b * rows + i) * columns + j) * 3 * groups * taps + g * taps + tap;
              const int64_t down = tap / kernel_columns, right = tap % kernel_columns;
              const int64_t sample =
                  (((b * rows + i) * kernel_rows + down) * columns * kernel_columns + j * kernel_columns + right) * c;
              visit(b, first, sample + g * (c / groups),
                    float(i * strides_[1] - pads_[0] + down * dilations_[1]) + given[first + groups * taps],
                    float(j * strides_[2] - pads_[2] + right * dilations_[2]) + given[first], g * (c / groups));
            }
  }

 private:
  const std::vector<int64_t>&strides_, &dilations_, &pads_;
};

// Calls `visit(place of the pixel, weight, its slope down, its slope right)` for the pixels around a point.
template <typename Visit>
void each_neighbour(const at::Tensor& x, int64_t image, float row, float column, Visit visit) {
  const int64_t h = x.size(1), w = x.size(2);
  if (!(row > -1 && column > -1 && row < float(h) && column < float(w))) return;
  const float top = std::floor(row), left = std::floor(column);
  for (int down : {0, 1})
    for (int right : {0, 1}) {
      const int64_t i = int64_t(top) + down, j = int64_t(left) + right;
      if (i < 0 || j < 0 || i >= h || j >= w) continue;
      const float a = down ? row - top : 1 - (row - top), b = right ? column - left : 1 - (column - left);
      visit(((image * h + i) * w + j) * x.size(3), a * b, (down ? b : -b), (right ? a : -a));
    }
}

void displaced_samples(const Old& c) {  // x, offsets -> samples
  auto result = at::zeros(c.out().sizes(), at::kFloat);
  const Displaced d(c, 0, result);
  const int64_t channels = d.x.size(3) / d.groups, weights = 2 * d.groups * d.taps;
  const float *x = d.x.data_ptr<float>(), *given = d.offsets.data_ptr<float>();
  float* to = result.data_ptr<float>();
  d.each([&](int64_t image, int64_t first, int64_t sample, float row, float column, int64_t channel) {
    each_neighbour(d.x, image, row, column, [&](int64_t pixel, float weight, float, float) {
      for (int64_t k = 0; k < channels; ++k)
        to[sample + k] += weight * given[first + weights] * x[pixel + channel + k];
    });
  });
  c.put(result);
}

void displaced_gradients(const Old& c) {  // gradient of the samples, x, offsets -> those of x and of the offsets
  const auto gradient = c.in(0).to(at::kFloat).contiguous();
  const Displaced d(c, 1, gradient);
  auto of_x = at::zeros_like(d.x), of_offsets = at::zeros_like(d.offsets);
  const int64_t channels = d.x.size(3) / d.groups, vertical = d.groups * d.taps, weights = 2 * vertical;
  const float *x = d.x.data_ptr<float>(), *given = d.offsets.data_ptr<float>(), *dy = gradient.data_ptr<float>();
  float *dx = of_x.data_ptr<float>(), *to = of_offsets.data_ptr<float>();
  d.each([&](int64_t image, int64_t first, int64_t sample, float row, float column, int64_t channel) {
    each_neighbour(d.x, image, row, column, [&](int64_t pixel, float weight, float down, float right) {
      float product = 0;
      for (int64_t k = 0; k < channels; ++k) {
        product += dy[sample + k] * x[pixel + channel + k];
        dx[pixel + channel + k] += dy[sample + k] * weight * given[first + weights];
      }
      to[first] += product * right * given[first + weights];
      to[first + vertical] += product * down * given[first + weights];
      to[first + weights] += product * weight;
    });
  });
  c.put(of_x, 0);
  c.put(of_offsets, 1);
}

// The gradient of distances, the points of both sides and the distances, all expanded to (..., p, r, m).
void distance_gradient(const Old& c) {
  const double p = c.real("p", 2.0);
  auto first = [](const at::Tensor& x, int64_t dim) { return x.select(dim, 0).contiguous(); };
  c.put(at::_cdist_backward(first(c.in(0), -1), first(c.in(1), -2), first(c.in(2), -3),
                            p < 0 ? std::numeric_limits<double>::infinity() : p, first(c.in(3), -1)));
}

at::Tensor hidden(const Old& c, const at::Tensor& x, size_t mask) {
  return c.integer("fixed_triu_mask") ? at::ones({x.size(-2), x.size(-1)}, at::kBool).triu(1) : c.in(mask).to(at::kBool);
}

// A number that may be an attribute of either kind.
double scale_of(const Old& c) { return c.real("scale", double(c.integer("scale", 1))); }

void scaled_masked_softmax(const Old& c) {  // x, mask -> y
  auto x = c.in(0).to(at::kFloat) * scale_of(c);
  c.put(at::softmax(x.masked_fill(hidden(c, x, 1), -1e4), -1));
}

void scaled_masked_softmax_gradient(const Old& c) {  // gradient, y, mask -> gradient of x
  auto g = c.in(0).to(at::kFloat), y = c.in(1).to(at::kFloat);
  auto result = (g - (g * y).sum(-1, true)) * y * scale_of(c);
  c.put(result.masked_fill(hidden(c, y, 2), 0));
}

// Without the dilation, which torch_npu does not pass. `pads` have the part behind that a result of ceil_mode needs.
void max_pool_3d_gradient(const Old& c) {  // x, something of the result's size, gradient -> gradient of x
  const auto &pads = c.list("pads"), &all_sizes = c.list("ksize"), &all_strides = c.list("strides");
  auto x = c.in(0).to(at::kFloat), g = c.in(2).to(at::kFloat);
  const int64_t first = x.dim() - 3;
  const std::vector<int64_t> sizes(all_sizes.end() - 3, all_sizes.end()), strides(all_strides.end() - 3, all_strides.end());
  const std::vector<int64_t> around{pads[4], pads[5], pads[2], pads[3], pads[0], pads[1]}, none{0, 0, 0}, ones{1, 1, 1};
  auto padded = at::constant_pad_nd(x, around, -std::numeric_limits<float>::infinity());
  auto [y, places] = at::max_pool3d_with_indices(padded, sizes, strides, none, ones, false);
  TORCH_CHECK(y.sizes() == g.sizes(), "NotEmulated: a gradient of ", g.sizes(), " for a result of ", y.sizes(),
              ": torch_npu passes no dilation");
  auto result = at::max_pool3d_with_indices_backward(g, padded, sizes, strides, none, ones, false, places);
  for (int64_t dim = 0; dim < 3; ++dim) result = result.narrow(first + dim, pads[size_t(2 * dim)], x.size(first + dim));
  c.put(result);
}

// A norm in two steps. Infinity comes as the largest int.
constexpr double kInfinite = double(std::numeric_limits<int>::max());
void norm_sums(const Old& c) {
  auto x = c.in(0).to(at::kFloat).abs();
  std::vector<int64_t> axes = c.list("axes");
  if (axes.empty())
    for (int64_t axis = 0; axis < x.dim(); ++axis) axes.push_back(axis);
  const double p = c.real("p", 2);
  const bool kept = c.integer("keepdim") != 0;
  if (p >= kInfinite) return c.put(x.amax(axes, kept));
  if (p <= -kInfinite) return c.put(x.amin(axes, kept));
  c.put(p == 0 ? x.ne(0).sum(axes, kept) : x.pow(p).sum(axes, kept));
}
void norm_of_sums(const Old& c) {
  const double p = c.real("p", 2);
  c.put(p == 0 || std::abs(p) >= kInfinite ? c.in(0) : c.in(0).pow(1 / p));
}

}  // namespace

OldFunctions fake_cann::old_network_functions() {
  return {
      {"LpNormReduceV2", norm_sums},
      {"LpNormUpdateV2", norm_of_sums},
      {"ScaledMaskedSoftmax", scaled_masked_softmax},
      {"ScaledMaskedSoftmaxGrad", scaled_masked_softmax_gradient},
      {"MaxPool3DGrad", max_pool_3d_gradient},
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
      {"DeformableOffsets", displaced_samples},
      {"DeformableOffsetsGrad", displaced_gradients},
      {"CdistGrad", distance_gradient},
  };
}
