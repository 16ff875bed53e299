// Layers and losses that torch_npu has under names of its own, and the parts of a batch norm over several ranks.
#include <ATen/ATen.h>

#include "own.h"

using namespace fake_cann;

namespace {

at::Tensor wide(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

std::vector<int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<int64_t> dims{0};
  for (int64_t dim = 2; dim < x.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// One number for each channel, beside a tensor with its channels in dimension 1.
at::Tensor beside(const at::Tensor& of_channels, const at::Tensor& x) {
  std::vector<int64_t> sizes(size_t(x.dim()), 1);
  sizes[1] = -1;
  return wide(of_channels).reshape(sizes);
}

// Moves the running values, which have the unbiased variance.
void move(const Call& c, int place, const at::Tensor& mean, const at::Tensor& variance, double count, double momentum) {
  if (!c.given(place) || !c.given(place + 1)) return;
  auto running_mean = c.tensor(place), running_variance = c.tensor(place + 1);
  c.put(place, wide(running_mean) * (1 - momentum) + mean * momentum);
  c.put(place + 1, wide(running_variance) * (1 - momentum) + variance * (count / (count - 1)) * momentum);
}

void batch_norm_stats(const Call& c) {  // x, epsilon -> mean, 1 / deviation
  auto x = wide(c.tensor(0));
  auto [variance, mean] = at::var_mean(x, all_but_channels(x), false);
  c.put(2, mean);
  c.put(3, at::rsqrt(variance + c.real(1)));
}

void batch_norm_gathered(const Call& c) {
  // x, means and 1 / deviations of each rank, running mean and variance, momentum, epsilon, counts -> mean, 1 / deviation
  auto means = wide(c.tensor(1)), counts = wide(c.tensor(7)).reshape({-1, 1});
  const double epsilon = c.real(6), count = counts.sum().item().toDouble();
  auto mean = (means * counts).sum(0) / count;
  auto variances = wide(c.tensor(2)).pow(-2) - epsilon;
  auto variance = ((variances + (means - mean).square()) * counts).sum(0) / count;
  move(c, 3, mean, variance, count, c.real(5));
  c.put(8, mean);
  c.put(9, at::rsqrt(variance + epsilon));
}

void batch_norm_sums(const Call& c) {  // x -> sum, sum of squares
  auto x = c.tensor(0);
  c.put(1, x.sum(all_but_channels(x)));
  c.put(2, x.square().sum(all_but_channels(x)));
}

void batch_norm_gathered_sums(const Call& c) {
  // sums and sums of squares of each rank, counts, running mean and variance, momentum, epsilon -> mean, 1 / deviation
  const double count = wide(c.tensor(2)).sum().item().toDouble();
  auto mean = wide(c.tensor(0)).sum(0) / count;
  auto variance = wide(c.tensor(1)).sum(0) / count - mean.square();
  move(c, 3, mean, variance, count, c.real(5));
  c.put(7, mean);
  c.put(8, at::rsqrt(variance + c.real(6)));
}

void batch_norm_elements(const Call& c) {  // x, weight, bias, mean, 1 / deviation, epsilon -> y
  auto x = wide(c.tensor(0));
  auto y = (x - beside(c.tensor(3), x)) * beside(c.tensor(4), x);
  if (c.given(1)) y = y * beside(c.tensor(1), x);
  c.put(6, c.given(2) ? y + beside(c.tensor(2), x) : y);
}

void batch_norm_sums_backward(const Call& c) {
  // gradient, x, mean, 1 / deviation, weight, of which a gradient is wanted: x, weight, bias
  // -> sums of the gradient and of the gradient times (x - mean), gradients of weight, bias
  auto g = wide(c.tensor(0)), x = wide(c.tensor(1));
  auto sum = g.sum(all_but_channels(x)), product = (g * (x - beside(c.tensor(2), x))).sum(all_but_channels(x));
  if (c.boolean(5)) {
    c.put(8, sum);
    c.put(9, product);
  }
  if (c.boolean(6)) c.put(10, product * wide(c.tensor(3)));
  if (c.boolean(7)) c.put(11, sum);
}

void batch_norm_elements_backward(const Call& c) {
  // gradient, x, mean, 1 / deviation, weight, the two sums of all ranks, counts -> gradient of x
  auto g = wide(c.tensor(0)), x = wide(c.tensor(1)), scale = beside(c.tensor(3), x);
  const double count = wide(c.tensor(7)).sum().item().toDouble();
  auto away = (x - beside(c.tensor(2), x)) * scale.square() * beside(c.tensor(6), x) / count;
  auto result = (g - beside(c.tensor(5), x) / count - away) * scale;
  c.put(8, c.given(4) ? result * beside(c.tensor(4), x) : result);
}

struct Normalised {
  at::Tensor y, mean, scale;
};

Normalised in_groups(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t groups, double epsilon) {
  const auto n = x.size(0), channels = x.size(1);
  auto maybe = [](const at::Tensor& t) { return t.defined() ? std::make_optional(wide(t)) : std::nullopt; };
  auto [y, mean, scale] = at::native_group_norm(wide(x).contiguous(), maybe(weight), maybe(bias), n, channels,
                                                x.numel() / (n * channels), groups, epsilon);
  return {y, mean, scale};
}

void group_norm_silu(const Call& c) {  // x, weight, bias, groups, epsilon -> y, mean, 1 / deviation
  auto done = in_groups(c.tensor(0), c.tensor(1), c.tensor(2), c.integer(3), c.real(4));
  c.put(5, at::silu(done.y));
  c.put(6, done.mean);
  c.put(7, done.scale);
}

void group_norm_swish(const Call& c) {
  // x, weight, bias, groups, format, epsilon, whether it is activated, scale -> y, mean, 1 / deviation
  auto done = in_groups(c.tensor(0), c.tensor(1), c.tensor(2), c.integer(3), c.real(5));
  c.put(8, c.boolean(6) ? done.y * at::sigmoid(done.y * c.real(7)) : done.y);
  c.put(9, done.mean);
  c.put(10, done.scale);
}

void group_norm_swish_backward(const Call& c) {
  // gradient, mean, 1 / deviation, x, weight, bias, groups, format, scale, whether weight and bias have gradients
  // -> gradients of x, weight, bias
  auto x = wide(c.tensor(3)).contiguous(), weight = wide(c.tensor(4)), mean = wide(c.tensor(1)), scale = wide(c.tensor(2));
  const auto n = x.size(0), channels = x.size(1), groups = c.integer(6);
  auto normal = (x.reshape({n, groups, -1}) - mean.reshape({n, groups, 1})) * scale.reshape({n, groups, 1});
  auto y = normal.reshape(x.sizes()) * beside(weight, x) + beside(c.tensor(5), x);
  auto gate = at::sigmoid(y * c.real(8));
  auto g = wide(c.tensor(0)) * (gate + c.real(8) * y * gate * (1 - gate));
  auto [gx, gw, gb] = at::native_group_norm_backward(g.contiguous(), x, mean.reshape({n, groups}), scale.reshape({n, groups}),
                                                     weight, n, channels, x.numel() / (n * channels), groups,
                                                     {true, true, true});
  c.put(11, gx);
  if (c.boolean(9)) c.put(12, gw);
  if (c.boolean(10)) c.put(13, gb);
}

void add_layer_norm(const Call& c) {  // x1, x2, gamma, beta, bias, epsilon, with the sum -> y, mean, 1 / deviation, sum
  auto x = wide(c.tensor(0)) + wide(c.tensor(1)), gamma = wide(c.tensor(2));
  if (c.given(4)) x = x + wide(c.tensor(4));
  auto [y, mean, scale] = at::native_layer_norm(x, gamma.sizes(), gamma, wide(c.tensor(3)), c.real(5));
  c.put(7, y);
  c.put(8, mean);
  c.put(9, scale);
  if (c.boolean(6)) c.put(10, x);
}

void add_layer_norm_backward(const Call& c) {
  // gradient, x1, x2, 1 / deviation, mean, gamma, gradient of the sum -> gradients of the sum, gamma, beta
  auto x = wide(c.tensor(1)) + wide(c.tensor(2)), gamma = wide(c.tensor(5));
  auto [gx, gw, gb] = at::native_layer_norm_backward(wide(c.tensor(0)), x, gamma.sizes(), wide(c.tensor(4)),
                                                     wide(c.tensor(3)), gamma, gamma, {true, true, true});
  c.put(7, c.given(6) ? gx + wide(c.tensor(6)) : gx);
  c.put(8, gw);
  c.put(9, gb);
}

at::Tensor rms_normal(const at::Tensor& x, const at::Tensor& gamma, double epsilon, at::Tensor& scale) {
  std::vector<int64_t> dims;
  for (int64_t dim = -gamma.dim(); dim < 0; ++dim) dims.push_back(dim);
  scale = at::rsqrt(x.square().mean(dims, true) + epsilon);
  return x * scale * gamma;
}

void gemma_rms_norm(const Call& c) {  // x, gamma, epsilon -> y, 1 / root of the mean
  at::Tensor scale;
  c.put(3, rms_normal(wide(c.tensor(0)), wide(c.tensor(1)) + 1, c.real(2), scale));
  c.put(4, scale);
}

void add_rms_norm_cast(const Call& c) {  // x1, x2, gamma, epsilon -> y as float, y, 1 / root of the mean, x1 + x2
  at::Tensor scale;
  auto x = c.tensor(0) + c.tensor(1);
  auto y = rms_normal(wide(x), wide(c.tensor(2)), c.real(3), scale).to(x.scalar_type());
  c.put(4, y);
  c.put(5, y);
  c.put(6, scale);
  c.put(7, x);
}

int64_t reduction_of(const std::string& text) {
  return text == "none" ? at::Reduction::None : text == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
}

void check_cross_entropy(double smoothing, double of_squares) {
  TORCH_CHECK(smoothing == 0 && of_squares == 0, "NotEmulated: label_smoothing and lse_square_scale_for_zloss");
}

void cross_entropy(const Call& c) {
  // x, target, weight, reduction, ignored target, smoothing, scale of squares, with their loss
  // -> loss, logarithms of probabilities, loss of squares, logarithms of sums
  check_cross_entropy(c.real(5), c.real(6));
  TORCH_CHECK(!c.boolean(7), "NotEmulated: return_zloss");
  auto logs = at::log_softmax(wide(c.tensor(0)), -1);
  auto weight = c.given(2) ? std::make_optional(wide(c.tensor(2))) : std::nullopt;
  c.put(8, at::nll_loss(logs, c.tensor(1).to(at::kLong), weight, reduction_of(c.text(3)), c.integer(4)));
  c.put(9, logs);
}

void cross_entropy_backward(const Call& c) {
  // gradient, logarithms, target, weight, gradient of the loss of squares, logarithms of sums, reduction, ignored
  // target, smoothing, scale of squares -> gradient of x
  check_cross_entropy(c.real(8), c.real(9));
  auto logs = wide(c.tensor(1)), target = c.tensor(2).to(at::kLong);
  auto weight = c.given(3) ? std::make_optional(wide(c.tensor(3))) : std::nullopt;
  const auto reduction = reduction_of(c.text(6));
  auto total = std::get<1>(at::nll_loss_forward(logs, target, weight, reduction, c.integer(7)));
  auto g = wide(c.tensor(0));
  if (reduction != at::Reduction::None) g = g.reshape({});
  auto of_logs = at::nll_loss_backward(g, logs, target, weight, reduction, c.integer(7), total);
  c.put(10, at::_log_softmax_backward_data(of_logs, logs, -1, at::kFloat));
}

at::Tensor of_mean(const at::Tensor& gradient, const at::Tensor& x, int64_t reduction) {
  return reduction == at::Reduction::Mean ? gradient / x.numel() : gradient;
}

void kl_div_backward(const Call& c) {  // gradient, x, target, reduction, target is a logarithm -> gradient of x
  auto target = c.tensor(2);
  c.put(5, -of_mean(c.tensor(0), c.tensor(1), c.integer(3)) * (c.boolean(4) ? target.exp() : target));
}

void kl_div_target_backward(const Call& c) {  // gradient, x, target, reduction, target is a logarithm -> gradient of it
  auto x = wide(c.tensor(1)), target = wide(c.tensor(2));
  auto g = of_mean(c.tensor(0), c.tensor(1), c.integer(3));
  auto of_target = c.boolean(4) ? (target + 1 - x) * target.exp() : target.log() + 1 - x;
  c.put(5, g * of_target);
}

// A weight for each channel, or one for all, beside x.
at::Tensor weight_beside(const at::Tensor& weight, const at::Tensor& x) {
  return weight.numel() == 1 || x.dim() < 2 ? wide(weight).reshape(-1) : beside(weight.reshape(-1), x);
}

void prelu(const Call& c) {  // x, weight -> y
  auto x = c.tensor(0), weight = weight_beside(c.tensor(1), x);
  c.put(2, at::where(x > 0, x, weight * x));
}

void prelu_backward(const Call& c) {  // gradient, x, weight -> gradients of x, weight
  auto g = wide(c.tensor(0)), x = wide(c.tensor(1)), weight = weight_beside(c.tensor(2), x);
  auto is_positive = x > 0;
  c.put(3, at::where(is_positive, g, weight * g));
  c.put(4, at::where(is_positive, at::zeros_like(x), x * g).sum_to_size(weight.sizes()));
}

void repeat_backward(const Call& c) {  // gradient, how often, dimension -> gradient of x
  auto g = wide(c.tensor(0)), repeats = c.tensor(1).to(at::kLong).reshape(-1);
  auto result = at::zeros(c.tensor(3).sizes(), at::kFloat);
  const auto dim = c.integer(2), count = result.size(dim);
  auto places = at::repeat_interleave(at::arange(count), repeats.expand({count}));
  c.put(3, result.index_add_(dim, places, g));
}

void apply_rotary(const Call& c) {  // query, key, cosine, sine, layout: the first two are changed
  auto cosine = wide(c.tensor(2)), sine = wide(c.tensor(3));
  for (int place : {0, 1}) {
    auto x = wide(c.tensor(place));
    auto halves = x.chunk(2, -1);
    c.put(place, x * cosine + at::cat({-halves[1], halves[0]}, -1) * sine);
  }
}

void gating(const Call& c) {  // x, which rows have finished, k -> probabilities, experts, rows one expert after the other
  TORCH_CHECK(!c.given(1), "NotEmulated: finished");
  auto x = wide(c.tensor(0)).flatten(0, -2);
  auto [values, experts] = at::softmax(x, -1).topk(c.integer(2), -1);
  const auto sizes = c.tensor(3).sizes();
  c.put(3, values.reshape(sizes));
  c.put(4, experts.reshape(sizes));
  c.put(5, at::arange(values.numel()).reshape({values.size(1), values.size(0)}).t().reshape(sizes));
}

}  // namespace

Functions fake_cann::layer_functions() {
  return {
      {"BatchNormStats", batch_norm_stats},
      {"BatchNormGatherStatsWithCounts", batch_norm_gathered},
      {"BatchNormReduce", batch_norm_sums},
      {"SyncBatchNormGatherStats", batch_norm_gathered_sums},
      {"BatchNormElemt", batch_norm_elements},
      {"BatchNormReduceBackward", batch_norm_sums_backward},
      {"BatchNormElemtBackward", batch_norm_elements_backward},
      {"GroupNormSilu", group_norm_silu},
      {"GroupNormSwish", group_norm_swish},
      {"GroupNormSwishGrad", group_norm_swish_backward},
      {"AddLayerNorm", add_layer_norm},
      {"AddLayerNormGrad", add_layer_norm_backward},
      {"GemmaRmsNorm", gemma_rms_norm},
      {"AddRmsNormCast", add_rms_norm_cast},
      {"CrossEntropyLoss", cross_entropy},
      {"CrossEntropyLossGrad", cross_entropy_backward},
      {"KlDivBackward", kl_div_backward},
      {"KlDivTargetBackward", kl_div_target_backward},
      {"RepeatInterleaveGrad", repeat_backward},
      {"ApplyRotaryPosEmb", apply_rotary},
      {"MoeGatingTopKSoftmax", gating},
      {"GeluMul",  // x, mode -> gelu of the first half times the second
       [](const Call& c) {
         auto halves = wide(c.tensor(0)).chunk(2, -1);
         c.put(2, at::gelu(halves[0], c.text(1)) * halves[1]);
       }},
      {"Prelu", prelu},
      {"PreluBackward", prelu_backward},
  };
}
