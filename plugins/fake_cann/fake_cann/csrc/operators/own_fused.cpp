// Fused operators of torch_npu, from their public definitions.
#include <ATen/ATen.h>

#include "own.h"

using namespace fake_cann;

namespace {

std::vector<int64_t> last_dims(const at::Tensor& gamma) {
  std::vector<int64_t> dims;
  for (int64_t i = -gamma.dim(); i < 0; ++i) dims.push_back(i);
  return dims;
}

void rms_norm(const Call& c) {  // x, gamma, epsilon -> y, rstd
  auto x = c.tensor(0).to(at::kFloat), gamma = c.tensor(1);
  auto rstd = at::rsqrt(x.pow(2).mean(last_dims(gamma), true) + c.real(2));
  c.put(3, x * rstd * gamma.to(at::kFloat));
  c.put(4, rstd);
}

void rms_norm_backward(const Call& c) {  // gradient, x, rstd, gamma -> gradients of x, gamma
  auto g = c.tensor(0).to(at::kFloat), gamma = c.tensor(3);
  auto rstd = c.tensor(2);
  auto normal = c.tensor(1).to(at::kFloat) * rstd;
  auto weighted = g * gamma.to(at::kFloat);
  c.put(4, rstd * (weighted - normal * (weighted * normal).mean(last_dims(gamma), true)));
  auto sizes = gamma.sizes().vec();
  sizes.insert(sizes.begin(), -1);
  c.put(5, (g * normal).reshape(sizes).sum(0));
}

void swiglu(const Call& c) {  // x, dim -> y
  auto parts = c.tensor(0).to(at::kFloat).chunk(2, c.integer(1));
  c.put(2, at::silu(parts[0]) * parts[1]);
}

void swiglu_backward(const Call& c) {  // gradient, x, dim -> gradient of x
  auto g = c.tensor(0).to(at::kFloat);
  auto parts = c.tensor(1).to(at::kFloat).chunk(2, c.integer(2));
  c.put(3, at::cat({at::silu_backward(g * parts[1], parts[0]), g * at::silu(parts[0])}, c.integer(2)));
}

// Mode 0 turns halves, 1 neighbours.
at::Tensor rotated(const at::Tensor& x, int64_t mode, bool back) {
  at::Tensor first, second;
  if (mode == 0) {
    auto parts = x.chunk(2, -1);
    first = parts[0], second = parts[1];
  } else {
    first = x.slice(-1, 0, c10::nullopt, 2), second = x.slice(-1, 1, c10::nullopt, 2);
  }
  auto a = back ? second : -second, b = back ? -first : first;
  return mode == 0 ? at::cat({a, b}, -1) : at::stack({a, b}, -1).flatten(-2);
}

void rotary(const Call& c) {  // x, cosine, sine, mode -> y
  auto x = c.tensor(0);
  TORCH_CHECK(c.integer(3) == 0 || c.integer(3) == 1, "NotEmulated: mode ", c.integer(3));
  c.put(4, x * c.tensor(1) + rotated(x, c.integer(3), false) * c.tensor(2));
}

void rotary_backward(const Call& c) {  // gradient, cosine, sine, x, mode -> gradients of x, cosine, sine
  auto g = c.tensor(0), cosine = c.tensor(1), sine = c.tensor(2), x = c.tensor(3);
  int64_t mode = c.integer(4);
  TORCH_CHECK(mode == 0 || mode == 1, "NotEmulated: mode ", mode);
  c.put(5, g * cosine + rotated(g * sine, mode, true));
  if (!x.defined()) return;
  c.put(6, at::sum_to(g * x, cosine.sizes()));
  c.put(7, at::sum_to(g * rotated(x, mode, false), sine.sizes()));
}

void adam_w(const Call& c) {
  // parameter, m, v, largest v, gradient, step; rate, beta 1, beta 2, decay, epsilon, with largest v, maximize
  // Computed in float, as torch's own fused step does for half precision.
  auto p = c.tensor(0).to(at::kFloat), m = c.tensor(1).to(at::kFloat), v = c.tensor(2).to(at::kFloat);
  auto g = c.tensor(4).to(at::kFloat);
  double rate = c.real(6), beta1 = c.real(7), beta2 = c.real(8), decay = c.real(9), epsilon = c.real(10);
  double step = c.tensor(5).item().toDouble() + 1;
  if (c.boolean(12)) g = -g;
  p.mul_(1 - rate * decay);
  m.mul_(beta1).add_(g, 1 - beta1);
  v.mul_(beta2).addcmul_(g, g, 1 - beta2);
  auto second = v;
  if (c.boolean(11)) {
    second = at::maximum(c.tensor(3).to(at::kFloat), v);
    c.put(3, second);
  }
  p.addcdiv_(m, (second / (1 - std::pow(beta2, step))).sqrt_().add_(epsilon), -rate / (1 - std::pow(beta1, step)));
  c.put(0, p);
  c.put(1, m);
  c.put(2, v);
}

}  // namespace

Functions fake_cann::fused_functions() {
  return {
      {"RmsNorm", rms_norm},
      {"RmsNormGrad", rms_norm_backward},
      {"SwiGlu", swiglu},
      {"SwiGluGrad", swiglu_backward},
      {"RotaryPositionEmbedding", rotary},
      {"RotaryPositionEmbeddingGrad", rotary_backward},
      {"ApplyAdamWV2", adam_w},
  };
}
