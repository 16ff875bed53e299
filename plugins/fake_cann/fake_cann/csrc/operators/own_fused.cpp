// Fused operators of torch_npu, from their public definitions.
#include <ATen/ATen.h>

#include <limits>

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

void add_rms_norm(const Call& c) {  // x1, x2, gamma, epsilon -> y, rstd, x1 + x2
  auto x = (c.tensor(0) + c.tensor(1)), wide = x.to(at::kFloat);
  auto rstd = at::rsqrt(wide.pow(2).mean(last_dims(c.tensor(2)), true) + c.real(3));
  c.put(4, wide * rstd * c.tensor(2).to(at::kFloat));
  c.put(5, rstd);
  c.put(6, x);
}

// 0 is the exact function, all else the one with tanh.
constexpr const char* gelu_mode(int64_t number) { return number == 0 ? "none" : "tanh"; }

void gelu_with_mode(const Call& c) { c.put(2, at::gelu(c.tensor(0), gelu_mode(c.integer(1)))); }
void gelu_with_mode_backward(const Call& c) {
  c.put(3, at::gelu_backward(c.tensor(0), c.tensor(1), c.text(2)));
}

void geglu(const Call& c) {  // x, dim, mode, left is activated -> y, gelu
  auto parts = c.tensor(0).chunk(2, c.integer(1));
  bool left = c.boolean(3);
  auto activated = at::gelu(parts[left ? 0 : 1], gelu_mode(c.integer(2)));
  c.put(4, activated * parts[left ? 1 : 0]);
  c.put(5, activated);
}

void geglu_backward(const Call& c) {  // gradient, x, gelu, dim, mode, left is activated -> gradient of x
  auto g = c.tensor(0), activated = c.tensor(2);
  auto parts = c.tensor(1).chunk(2, c.integer(3));
  bool left = c.boolean(5);
  auto of_gate = at::gelu_backward(g * parts[left ? 1 : 0], parts[left ? 0 : 1], gelu_mode(c.integer(4)));
  auto of_value = g * activated;
  c.put(6, left ? at::cat({of_gate, of_value}, c.integer(3)) : at::cat({of_value, of_gate}, c.integer(3)));
}

// Tokens sorted by the expert that they go to; an expert's tokens keep their order.
void moe_permute(const Call& c) {  // tokens, experts of each, kept, padded -> sorted tokens, place of each copy
  TORCH_CHECK(!c.boolean(3), "NotEmulated: padded_mode");
  auto tokens = c.tensor(0), experts = c.tensor(1);
  int64_t each = experts.dim() == 1 ? 1 : experts.size(1);
  auto order = at::argsort(experts.reshape({-1}), /*stable=*/true, 0, false);
  auto place = at::argsort(order, /*stable=*/true, 0, false);
  auto kept = c.tensor(4).size(0);
  c.put(4, tokens.index_select(0, at::floor_divide(order.slice(0, 0, kept), each)));
  c.put(5, place);
}

void moe_permute_backward(const Call& c) {  // gradient, place of each copy, copies of a token, padded -> gradient of tokens
  TORCH_CHECK(!c.boolean(3), "NotEmulated: padded_mode");
  auto g = c.tensor(0), place = c.tensor(1).to(at::kLong);
  auto padded = at::cat({g.to(at::kFloat), at::zeros({1, g.size(1)})}, 0);  // copies that were dropped lead to zeros
  auto found = padded.index_select(0, place.clamp_max(g.size(0)));
  c.put(4, found.view({-1, c.integer(2), g.size(1)}).sum(1));
}

void moe_unpermute(const Call& c) {  // sorted tokens, place of each copy, weights, padded, sizes -> tokens
  TORCH_CHECK(!c.boolean(3), "NotEmulated: padded_mode");
  auto sorted = c.tensor(0), weights = c.tensor(2);
  auto padded = at::cat({sorted.to(at::kFloat), at::zeros({1, sorted.size(1)})}, 0);
  auto copies = padded.index_select(0, c.tensor(1).to(at::kLong).clamp_max(sorted.size(0)));
  int64_t each = weights.defined() ? weights.size(1) : 1;
  auto grouped = copies.view({-1, each, sorted.size(1)});
  if (weights.defined()) grouped = grouped * weights.to(at::kFloat).unsqueeze(-1);
  c.put(5, grouped.sum(1));
}

void moe_unpermute_backward(const Call& c) {
  // sorted tokens, gradient, place of each copy, weights, padded, sizes -> gradients of sorted tokens, weights
  TORCH_CHECK(!c.boolean(4), "NotEmulated: padded_mode");
  auto sorted = c.tensor(0), g = c.tensor(1).to(at::kFloat), weights = c.tensor(3);
  auto place = c.tensor(2).to(at::kLong).clamp_max(sorted.size(0));
  int64_t each = weights.defined() ? weights.size(1) : 1;
  auto of_copies = g.unsqueeze(1).expand({g.size(0), each, g.size(1)});
  if (weights.defined()) {
    auto padded = at::cat({sorted.to(at::kFloat), at::zeros({1, sorted.size(1)})}, 0);
    c.put(7, (padded.index_select(0, place).view({-1, each, g.size(1)}) * of_copies).sum(-1));
    of_copies = of_copies * weights.to(at::kFloat).unsqueeze(-1);
  }
  auto result = at::zeros({sorted.size(0) + 1, g.size(1)});
  result.index_add_(0, place, of_copies.reshape({-1, g.size(1)}));
  c.put(6, result.slice(0, 0, sorted.size(0)));
}

void grouped_matmul(const Call& c) {
  // x, weight, bias, scale, offset, antiquant scale, antiquant offset, per token scale, group list, activations (3),
  // split item, group type, group list type, activation, [tuning] -> out, activations (2)
  constexpr int64_t kOne = -1, kRows = 0, kInner = 2;
  for (int place : {3, 4, 5, 6, 7, 9, 10, 11})
    for (auto& item : c.tensors(place)) TORCH_CHECK(!item.defined() || !item.numel(), "NotEmulated: quantised groups");
  auto x = c.tensors(0), weight = c.tensors(1), bias = c.tensors(2), out = c.tensors(int(c.arguments.size()) - 3);
  int64_t type = c.integer(13);
  TORCH_CHECK(c.integer(15) == 0, "NotEmulated: act_type ", c.integer(15));
  auto product = [](const at::Tensor& a, const at::Tensor& b) { return at::matmul(a.to(at::kFloat), b.to(at::kFloat)); };
  if (type == kOne) {
    for (size_t i = 0; i < x.size(); ++i) {
      auto y = product(x[i], weight[i]);
      out[i].copy_(i < bias.size() && bias[i].defined() && bias[i].numel() ? y + bias[i].to(at::kFloat) : y);
    }
    return;
  }
  TORCH_CHECK((type == kRows || (type == kInner && weight.size() == 1)) && x.size() == 1 && out.size() == 1,
              "NotEmulated: group_type ", type, " of ", x.size(), " tensors");
  TORCH_CHECK(c.integer(14) == 0 || c.integer(14) == 1, "NotEmulated: group_list_type ", c.integer(14));
  auto groups = c.tensor(8).to(at::kLong);
  if (c.integer(14) == 1) groups = groups.cumsum(0);  // lengths, else their sums
  int64_t start = 0;
  if (type == kRows) out[0].zero_();
  else out[0].fill_(std::numeric_limits<float>::quiet_NaN());  // the public pages do not say that it is written
  for (int64_t i = 0; i < groups.numel(); ++i) {
    int64_t end = groups[i].item<int64_t>();
    if (end > start && type == kInner) {  // without a bias
      out[0][i].copy_(product(x[0].slice(1, start, end), weight[0].slice(0, start, end)));
    } else if (end > start) {
      auto w = weight.size() == 1 ? weight[0][i] : weight[size_t(i)];
      auto y = product(x[0].slice(0, start, end), w);
      if (!bias.empty() && bias[0].defined() && bias[0].numel())
        y = y + (bias.size() == 1 && bias[0].dim() > 1 ? bias[0][i] : bias[size_t(i)]).to(at::kFloat);
      out[0].slice(0, start, end).copy_(y);
    }
    start = end;
  }
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
      {"AddRmsNorm", add_rms_norm},
      {"GeluV2", gelu_with_mode},
      {"GeluBackwardV2", gelu_with_mode_backward},
      {"GeGluV3", geglu},
      {"GeGluV3Backward", geglu_backward},
      {"MoeTokenPermute", moe_permute},
      {"MoeTokenPermuteGrad", moe_permute_backward},
      {"MoeTokenUnpermute", moe_unpermute},
      {"MoeTokenUnpermuteGrad", moe_unpermute_backward},
      {"GroupedMatmulV4", grouped_matmul},
      {"MaskedSoftmaxWithRelPosBias",  // x, mask that is added, bias, scale, precision -> y
       [](const Call& c) {
         auto x = c.tensor(0).to(at::kFloat) * c.real(3);
         if (c.given(1)) x = x + c.tensor(1);
         c.put(5, at::softmax(x + c.tensor(2), -1));
       }},
  };
}
