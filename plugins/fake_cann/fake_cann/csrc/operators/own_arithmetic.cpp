// Arithmetic whose modes ATen takes in another form.
#include <ATen/ATen.h>

#include "own.h"

using namespace fake_cann;

namespace {

std::optional<std::string_view> rounding(int64_t mode) {
  constexpr int64_t kTrunc = 1, kFloor = 2;
  if (mode == kTrunc) return "trunc";
  if (mode == kFloor) return "floor";
  return std::nullopt;
}

// x, perhaps a window, into, points, step, points of the window, as many as points, normalized, onesided, complex
void spectrum(const Call& c) {
  auto x = c.tensor(0), window = c.tensor(1);
  auto y = at::stft(x, c.integer(3), c.integer(4), c.integer(5), window.defined() ? std::make_optional(window) : std::nullopt,
                    c.boolean(6), c.boolean(7), true);
  c.put(2, c.boolean(8) ? y : at::view_as_real(y));
}

// An NPU adds float32 to a product of float16, which ATen refuses: both are converted to the wider type.
void addmm(const Call& c) {  // self, left, right, beta, alpha -> result
  auto self = c.tensor(0), left = c.tensor(1), right = c.tensor(2), result = c.tensor(5);
  if (self.scalar_type() == left.scalar_type() && result.scalar_type() == left.scalar_type()) {
    at::addmm_out(result, self, left, right, c.scalar(3), c.scalar(4));
    return;
  }
  const auto wide = at::promote_types(self.scalar_type(), left.scalar_type());
  c.put(5, at::addmm(self.to(wide), left.to(wide), right.to(wide), c.scalar(3), c.scalar(4)));
}

}  // namespace

Functions fake_cann::arithmetic_functions() {
  return {
      {"Addmm", addmm},
      {"Histc",  // self, bins, low, high -> counts; ATen has no histogram of whole numbers on the CPU
       [](const Call& c) { c.put(4, at::histc(c.tensor(0).to(at::kFloat), c.integer(1), c.scalar(2), c.scalar(3))); }},
      {"DivMod", [](const Call& c) { c.put(3, at::div(c.tensor(0), c.tensor(1), rounding(c.integer(2)))); }},
      {"DivMods", [](const Call& c) { c.put(3, at::div(c.tensor(0), c.scalar(1), rounding(c.integer(2)))); }},
      {"InplaceDivMod", [](const Call& c) { c.tensor(0).div_(c.tensor(1), rounding(c.integer(2))); }},
      {"InplaceDivMods", [](const Call& c) { c.tensor(0).div_(c.scalar(1), rounding(c.integer(2))); }},
      {"Aminmax",  // x, dims, keep -> smallest, largest
       [](const Call& c) {
         c.put(3, at::amin(c.tensor(0), c.ints(1), c.boolean(2)));
         c.put(4, at::amax(c.tensor(0), c.ints(1), c.boolean(2)));
       }},
      {"LogSigmoidBackward",  // dy, x, buffer -> dx; torch_npu's buffer is empty, ATen's has what forward computed
       [](const Call& c) {
         auto buffer = std::get<1>(at::log_sigmoid_forward(c.tensor(1)));
         c.put(3, at::log_sigmoid_backward(c.tensor(0), c.tensor(1), buffer));
       }},
      {"aclStft", spectrum},
      {"Equal", [](const Call& c) { c.tensor(2).fill_(at::equal(c.tensor(0), c.tensor(1))); }},
  };
}
