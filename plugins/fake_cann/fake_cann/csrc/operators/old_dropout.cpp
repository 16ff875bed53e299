// Random numbers of the older interface, those of dropout above all. Its masks have a bit for each element, or a byte.
#include <ATen/CPUGeneratorImpl.h>

#include "old.h"
#include "own.h"

using namespace fake_cann;

namespace {

at::Generator generator(int64_t seed, int64_t offset) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15ULL;  // as own_random.cpp
  return at::make_generator<at::CPUGeneratorImpl>(uint64_t(seed) + kMix * uint64_t(offset));
}

void bits(const Old& c) {  // sizes, share that is kept, seed, second seed, offsets -> mask
  auto mask = c.out();
  auto keep = at::rand({mask.numel(), 8}, generator(c.ints(2)[0], c.ints(4)[1])) < c.in(1).item().toDouble();
  mask.copy_((keep * at::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kInt)).sum(1));
}

void bytes(const Old& c) {  // sizes, share that is kept -> mask
  c.put(at::rand({c.out().numel()}, generator(c.integer("seed"), c.integer("seed2"))) < c.in(1).item().toDouble());
}

at::Tensor kept(const at::Tensor& x, const at::Tensor& keep, double share) {
  return share > 0 ? at::where(keep, x / share, at::zeros_like(x)) : at::zeros_like(x);
}

at::Tensor of_bytes(const at::Tensor& mask, const at::Tensor& like) {
  return mask.reshape({-1}).slice(0, 0, like.numel()).reshape(like.sizes()).to(at::kBool);
}

// The share that is kept may be an attribute of either kind.
double share_of(const Old& c, const char* name) { return c.real(name, double(c.integer(name, 1))); }

void add_softmax_dropout(const Old& c) {  // x, what is added, mask -> softmax, dropped
  auto x = c.in(0).to(at::kFloat) + c.in(1).to(at::kFloat) * c.real("alpha", double(c.integer("alpha", 1)));
  auto soft = at::softmax(x, c.list("axis").at(0));
  c.put(soft, 0);
  c.put(kept(soft, of_bytes(c.in(2), soft), share_of(c, "input_keep_prob")), 1);
}

void add_softmax_dropout_gradient(const Old& c) {  // gradient, mask, softmax -> gradient of what is added
  auto soft = c.in(2).to(at::kFloat);
  auto g = kept(c.in(0).to(at::kFloat), of_bytes(c.in(1), soft), share_of(c, "input_keep_prob"));
  const auto dim = c.list("axes").at(0);
  c.put((g - (g * soft).sum(dim, true)) * soft * c.real("alpha", double(c.integer("alpha", 1))));
}

}  // namespace

OldFunctions fake_cann::old_dropout_functions() {
  return {
      {"StatelessDropOutGenMask", bits},
      {"StatelessRandomNormalV2",  // sizes, seed, offsets -> numbers with mean 0 and deviation 1
       [](const Old& c) { c.out().normal_(0, 1, generator_of(c.ints(1)[0], c.ints(2)[1])); }},
      {"DropOutDoMask",  // x, mask, share that is kept
       [](const Old& c) { c.put(kept(c.in(0), unpacked(c.in(1), c.in(0).sizes()), c.in(2).item().toDouble())); }},
      {"DropOutGenMaskV3", bytes},
      {"AxpyWithSoftmaxAndDropOutDoMask", add_softmax_dropout},
      {"DropoutWithMulsAndSoftmaxGrad", add_softmax_dropout_gradient},
  };
}
