// Random numbers: each call brings the seed and the offset of the device's generator.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdlib>
#include <string_view>

#include "own.h"

using namespace fake_cann;

namespace {

// FAKE_CANN_RANDOM=cpu: the numbers that the same program draws on the CPU.
bool draws_as_cpu() {
  static const bool chosen = [] {
    const char* source = std::getenv("FAKE_CANN_RANDOM");
    return source && std::string_view(source) == "cpu";
  }();
  return chosen;
}

at::Generator generator(const Call& c, int seed) { return generator_of(c.integer(seed), c.integer(seed + 1)); }

// The reverse of `unpacked`.
void pack(const at::Tensor& keep, const at::Tensor& mask) {
  auto bytes = mask.view({-1});
  auto flat = keep.contiguous();
  auto* from = flat.data_ptr<bool>();
  auto* to = static_cast<uint8_t*>(bytes.data_ptr());
  bytes.zero_();
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (from[i]) to[i / 8] |= uint8_t(1 << (i % 8));
}

at::Tensor keep_mask(at::IntArrayRef sizes, double p, const Call& c, int seed) {
  return at::empty(sizes, at::kBool).bernoulli_(1 - p, generator(c, seed));
}

at::Tensor dropped(const at::Tensor& x, const at::Tensor& keep, double p) {
  return p < 1 ? at::where(keep, x / (1 - p), at::zeros_like(x)) : at::zeros_like(x);
}

}  // namespace

at::Generator fake_cann::generator_of(int64_t seed, int64_t offset) {
  if (draws_as_cpu()) return at::detail::getDefaultCPUGenerator();
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15ULL;  // neighbouring offsets give unrelated numbers
  return at::make_generator<at::CPUGeneratorImpl>(uint64_t(seed) + kMix * uint64_t(offset));
}

at::Tensor fake_cann::unpacked(const at::Tensor& mask, at::IntArrayRef sizes, int64_t first_bit) {
  auto keep = at::empty(sizes, at::kBool);
  auto* from = static_cast<const uint8_t*>(mask.data_ptr());
  auto* to = keep.data_ptr<bool>();
  TORCH_CHECK(first_bit + keep.numel() <= 8 * mask.numel(), "a mask of dropout that is too short");
  for (int64_t i = 0, bit = first_bit; i < keep.numel(); ++i, ++bit) to[i] = (from[bit / 8] >> (bit % 8)) & 1;
  return keep;
}

Functions fake_cann::random_functions() {
  return {
      {"InplaceNormal", [](const Call& c) { c.tensor(0).normal_(c.real(1), c.real(2), generator(c, 3)); }},
      {"InplaceUniform", [](const Call& c) { c.tensor(0).uniform_(c.real(1), c.real(2), generator(c, 3)); }},
      {"InplaceRandom", [](const Call& c) { c.tensor(0).random_(c.integer(1), c.integer(2), generator(c, 3)); }},
      {"InplaceBernoulli", [](const Call& c) { c.tensor(0).bernoulli_(c.scalar(1).toDouble(), generator(c, 2)); }},
      {"InplaceBernoulliTensor", [](const Call& c) { c.tensor(0).bernoulli_(c.tensor(1), generator(c, 2)); }},
      {"Randperm", [](const Call& c) { c.put(3, at::randperm(c.integer(0), generator(c, 1))); }},
      {"Multinomial",
       [](const Call& c) { c.put(5, at::multinomial(c.tensor(0), c.integer(1), c.boolean(2), generator(c, 3))); }},
      {"DropoutGenMaskV2", [](const Call& c) { pack(keep_mask(c.ints(0), c.real(1), c, 2), c.tensor(5)); }},
      {"DropoutDoMask",
       [](const Call& c) { c.put(3, dropped(c.tensor(0), unpacked(c.tensor(1), c.tensor(0).sizes()), c.real(2))); }},
  };
}
