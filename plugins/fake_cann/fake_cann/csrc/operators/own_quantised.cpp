// Whole numbers that stand for others: x is (q + offset) * scale, or q is x / scale + offset.
#include <ATen/ATen.h>

#include "own.h"

using namespace fake_cann;

namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(at::kFloat); }

at::Tensor restored(const at::Tensor& q, const at::Tensor& scale, const at::Tensor& offset) {
  return (offset.defined() ? wide(q) + wide(offset) : wide(q)) * wide(scale);
}

void anti_quant(const Call& c) {  // q, scale, offset, type, whether the scale is a root -> x
  auto scale = wide(c.tensor(1));
  c.put(5, restored(c.tensor(0), c.boolean(4) ? scale.square() : scale, c.tensor(2)));
}

void weight_quant_matmul(const Call& c) {
  // x, weight, its scale, its offset, scale of the result, its offset, bias, size of groups -> y
  TORCH_CHECK(!c.given(4) && !c.given(5), "NotEmulated: a quantised result");
  auto groups = [&](const at::Tensor& x) {  // one for each of some rows
    return x.defined() && c.integer(7) > 0 ? x.repeat_interleave(c.integer(7), 0).slice(0, 0, c.tensor(1).size(0)) : x;
  };
  auto y = at::matmul(wide(c.tensor(0)), restored(c.tensor(1), groups(c.tensor(2)), groups(c.tensor(3))));
  c.put(8, c.given(6) ? y + wide(c.tensor(6)) : y);
}

}  // namespace

Functions fake_cann::quantised_functions() {
  return {
      {"AscendAntiQuant", anti_quant},
      {"WeightQuantBatchMatmulV2", weight_quant_matmul},
  };
}
