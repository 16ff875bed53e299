// LSTM and GRU of the older interface. Steps are computed in float; results have the type of their tensors.
#include "old.h"

using namespace fake_cann;

namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(at::kFloat); }

// The steps in the order in which they are computed.
std::vector<int64_t> steps_of(int64_t count, bool is_reverse) {
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < count; ++step) steps.push_back(is_reverse ? count - 1 - step : step);
  return steps;
}

bool is_reverse(const Old& c) { return c.text("direction") == "REDIRECTIONAL"; }

// Which sequences of a batch have a step: 1 or 0 per element. Where a sequence has ended, its state stays.
struct Lengths {
  at::Tensor mask;  // undefined where all have the same length
  at::Tensor of(int64_t step) const { return mask.defined() ? mask[step] : at::ones({1}); }
};

struct Lstm {
  at::Tensor x, weight, bias, first_h, first_c;  // weight: rows of x, then of h; columns of the gates i, f, j, o
  Lengths lengths;
  bool backwards = false;
};

void lstm(const Lstm& it, const Old& c) {
  auto h = it.first_h, cell = it.first_c;
  std::vector<std::vector<at::Tensor>> results(8, std::vector<at::Tensor>(size_t(it.x.size(0))));
  for (auto step : steps_of(it.x.size(0), it.backwards)) {
    auto gates = at::matmul(at::cat({it.x[step], h}, 1), it.weight);
    if (it.bias.defined()) gates = gates + it.bias;
    auto parts = gates.chunk(4, 1);
    auto i = at::sigmoid(parts[0]), f = at::sigmoid(parts[1]), j = at::tanh(parts[2]), o = at::sigmoid(parts[3]);
    auto new_cell = f * cell + i * j, tanhc = at::tanh(new_cell), new_h = o * tanhc;
    const auto mask = it.lengths.of(step);
    h = new_h * mask + h * (1 - mask);
    cell = new_cell * mask + cell * (1 - mask);
    size_t place = 0;
    for (const auto& result : {new_h * mask, h, cell, i, j, f, o, tanhc}) results[place++][size_t(step)] = result;
  }
  for (size_t place = 0; place < results.size(); ++place) c.put(at::stack(results[place]), place);
}

struct LstmGradients {
  at::Tensor weight, bias, x, h, c;
};

// `saved` is the place of the first of i, j, f, o, tanhc; `of_y` of the gradients of y, h, c; `h` of the outputs h, c.
LstmGradients lstm_gradients(const Lstm& it, const Old& c, size_t h, size_t of_y, size_t saved) {
  const auto sizes = it.first_h.sizes();
  auto all_h = wide(c.in(h)), all_c = wide(c.in(h + 1)), of_outputs = wide(c.in(of_y));
  auto of_h = wide(c.in(of_y + 1)).reshape(sizes), of_c = wide(c.in(of_y + 2)).reshape(sizes);
  auto i = wide(c.in(saved)), j = wide(c.in(saved + 1)), f = wide(c.in(saved + 2)), o = wide(c.in(saved + 3)),
       tanhc = wide(c.in(saved + 4));
  const int64_t features = it.x.size(2);
  LstmGradients result{at::zeros_like(it.weight), at::zeros({it.weight.size(1)}), at::zeros_like(it.x), {}, {}};
  auto steps = steps_of(it.x.size(0), it.backwards);
  for (size_t at = steps.size(); at-- > 0;) {
    const auto step = steps[at];
    const auto mask = it.lengths.of(step);
    auto before_h = at ? all_h[steps[at - 1]] : it.first_h, before_c = at ? all_c[steps[at - 1]] : it.first_c;
    auto here = of_h * mask + of_outputs[step] * mask;
    auto of_cell = of_c * mask + here * o[step] * (1 - tanhc[step].square());
    auto of_gates = at::cat({of_cell * j[step] * i[step] * (1 - i[step]), of_cell * before_c * f[step] * (1 - f[step]),
                             of_cell * i[step] * (1 - j[step].square()), here * tanhc[step] * o[step] * (1 - o[step])},
                            1);
    auto of_inputs = at::matmul(of_gates, it.weight.t());
    result.x[step] = of_inputs.slice(1, 0, features);
    result.weight += at::matmul(at::cat({it.x[step], before_h}, 1).t(), of_gates);
    result.bias += of_gates.sum(0);
    of_h = of_h * (1 - mask) + of_inputs.slice(1, features);
    of_c = of_c * (1 - mask) + of_cell * f[step];
  }
  result.h = of_h;
  result.c = of_c;
  return result;
}

Lengths lengths_of(const Old& c, size_t place) {
  if (!c.has(place)) return {};
  auto mask = wide(c.in(place));
  return mask.dim() == 3 ? Lengths{mask} : Lengths{};
}

at::Tensor state(const at::Tensor& x) { return wide(x).reshape({-1, x.size(-1)}); }

void dynamic_rnn(const Old& c) {  // x, weight, bias, lengths, h, c -> y, h, c, i, j, f, o, tanh of c
  lstm({wide(c.in(0)), wide(c.in(1)), wide(c.in(2)), state(c.in(4)), state(c.in(5)), lengths_of(c, 3), is_reverse(c)}, c);
}

void dynamic_rnn_gradients(const Old& c) {
  // x, weight, bias, y, first h, first c, h, c, gradients of y, h, c, i, j, f, o, tanh of c, lengths
  // -> gradients of weight, bias, x, first h, first c
  const Lstm it{wide(c.in(0)),  wide(c.in(1)),     {},           state(c.in(4)),
                state(c.in(5)), lengths_of(c, 16), is_reverse(c)};
  auto found = lstm_gradients(it, c, 6, 8, 11);
  c.put(found.weight, 0);
  c.put(found.bias, 1);
  c.put(found.x, 2);
  c.put(found.h, 3);
  c.put(found.c, 4);
}

void lstm_cell(const Old& c) {  // x, weight of x, of h, bias, -, h, c -> as DynamicRNN
  auto weight = at::cat({wide(c.in(1)), wide(c.in(2))}, 0);
  lstm({wide(c.in(0)), weight, c.has(3) ? wide(c.in(3)) : at::Tensor(), state(c.in(5)), state(c.in(6)), {}, false}, c);
}

void lstm_cell_gradients(const Old& c) {
  // x, weight of x, of h, y, first h, first c, h, c, gradients of y, h, c, i, j, f, o, tanh of c
  // -> gradients of weight of x, of h, bias, x, first h, first c
  auto x = wide(c.in(0));
  if (x.dim() == 2) x = x.unsqueeze(0);
  const int64_t features = x.size(2);
  const Lstm it{x, at::cat({wide(c.in(1)), wide(c.in(2))}, 0), {}, state(c.in(4)), state(c.in(5)), {}, false};
  auto found = lstm_gradients(it, c, 6, 8, 11);
  c.put(found.weight.slice(0, 0, features), 0);
  c.put(found.weight.slice(0, features), 1);
  c.put(found.bias, 2);
  c.put(found.x, 3);
  c.put(found.h, 4);
  c.put(found.c, 5);
}

void dynamic_gru(const Old& c) {  // x, weight of x, of h, bias of x, of h, -, h -> y, h, update, reset, new, part of h
  auto x = wide(c.in(0)), of_x = wide(c.in(1)), of_h = wide(c.in(2)), x_bias = wide(c.in(3)), h_bias = wide(c.in(4));
  auto h = state(c.in(6));
  std::vector<std::vector<at::Tensor>> results(6);
  for (int64_t step = 0; step < x.size(0); ++step) {
    auto a = (at::matmul(x[step], of_x) + x_bias).chunk(3, 1), b = (at::matmul(h, of_h) + h_bias).chunk(3, 1);
    auto reset = at::sigmoid(a[0] + b[0]), update = at::sigmoid(a[1] + b[1]), fresh = at::tanh(a[2] + reset * b[2]);
    h = (1 - update) * fresh + update * h;
    size_t place = 0;
    for (const auto& result : {h, h, update, reset, fresh, b[2]}) results[place++].push_back(result);
  }
  for (size_t place = 0; place < results.size(); ++place) c.put(at::stack(results[place]), place);
}

void dynamic_gru_gradients(const Old& c) {
  // x, weight of x, of h, y, first h, h, gradients of y, h, update, reset, new, part of h
  // -> gradients of weight of x, of h, bias of x, of h, x, first h
  auto x = wide(c.in(0)), x_weight = wide(c.in(1)), h_weight = wide(c.in(2)), first = state(c.in(4)), h = wide(c.in(5));
  auto of_outputs = wide(c.in(6)), of_h = state(c.in(7));
  auto update = wide(c.in(8)), reset = wide(c.in(9)), fresh = wide(c.in(10)), part = wide(c.in(11));
  auto of_x_weight = at::zeros_like(x_weight), of_h_weight = at::zeros_like(h_weight), of_x = at::zeros_like(x);
  auto of_x_bias = at::zeros({x_weight.size(1)}), of_h_bias = at::zeros({x_weight.size(1)});
  for (int64_t step = x.size(0); step-- > 0;) {
    auto before = step ? h[step - 1] : first, z = update[step], r = reset[step], n = fresh[step];
    auto here = of_h + of_outputs[step];
    auto of_n = here * (1 - z) * (1 - n.square()), of_z = here * (before - n) * z * (1 - z);
    auto of_r = of_n * part[step] * r * (1 - r);
    auto of_a = at::cat({of_r, of_z, of_n}, 1), of_b = at::cat({of_r, of_z, of_n * r}, 1);
    of_x_weight += at::matmul(x[step].t(), of_a);
    of_h_weight += at::matmul(before.t(), of_b);
    of_x_bias += of_a.sum(0);
    of_h_bias += of_b.sum(0);
    of_x[step] = at::matmul(of_a, x_weight.t());
    of_h = here * z + at::matmul(of_b, h_weight.t());
  }
  size_t place = 0;
  for (const auto& result : {of_x_weight, of_h_weight, of_x_bias, of_h_bias, of_x, of_h}) c.put(result, place++);
}

}  // namespace

OldFunctions fake_cann::old_recurrent_functions() {
  return {
      {"DynamicRNN", dynamic_rnn},
      {"DynamicRNNGrad", dynamic_rnn_gradients},
      {"DynamicRNNV2", lstm_cell},
      {"DynamicRNNV2Grad", lstm_cell_gradients},
      {"DynamicGRUV2", dynamic_gru},
      {"DynamicGRUV2Grad", dynamic_gru_gradients},
  };
}
