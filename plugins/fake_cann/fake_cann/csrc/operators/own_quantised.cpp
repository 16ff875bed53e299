// Whole numbers that stand for others: x is (q + offset) * scale, or q is x / scale + offset.
#include <ATen/ATen.h>

#include "own.h"

using namespace fake_cann;

namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(at::kFloat); }

// Each int32 has eight numbers of four bits, the lowest first.
at::Tensor unpacked_fours(const at::Tensor& q) {
  if (q.scalar_type() != at::kInt) return q;
  auto fours = at::bitwise_and(at::bitwise_right_shift(q.unsqueeze(-1), at::arange(0, 32, 4, at::kInt)), 15).flatten(-2);
  return at::where(fours > 7, fours - 16, fours);
}

// As an NPU does it in the type of the scale.
at::Tensor restored(const at::Tensor& packed, const at::Tensor& scale, const at::Tensor& offset) {
  auto q = unpacked_fours(packed).to(scale.scalar_type());
  return (offset.defined() ? q + offset.to(q.scalar_type()) : q) * scale;
}

void anti_quant(const Call& c) {  // q, scale, offset, type, whether the scale is a root -> x
  auto scale = c.tensor(1);
  c.put(5, restored(c.tensor(0), c.boolean(4) ? scale.square() : scale, c.tensor(2)));
}

void weight_quant_matmul(const Call& c) {
  // x, weight, its scale, its offset, scale of the result, its offset, bias, size of groups -> y
  TORCH_CHECK(!c.given(4) && !c.given(5), "NotEmulated: a quantised result");
  auto groups = [&](const at::Tensor& x) {  // one for each of some rows
    return x.defined() && c.integer(7) > 0 ? x.repeat_interleave(c.integer(7), 0).slice(0, 0, c.tensor(1).size(0)) : x;
  };
  auto y = at::matmul(wide(c.tensor(0)), wide(restored(c.tensor(1), groups(c.tensor(2)), groups(c.tensor(3)))));
  c.put(8, c.given(6) ? y + wide(c.tensor(6)) : y);
}

void quant_matmul(const Call& c) {
  // x, weight, scale of each row of x, that of each column of the weight, scale of the result, offsets of x, of the weight
  // and of the result, bias, two that are false, size of groups -> y
  auto x = c.tensor(0), weight = c.tensor(1), rows = c.tensor(2), columns = c.tensor(3), bias = c.tensor(8);
  TORCH_CHECK(x.scalar_type() == at::kChar && weight.scalar_type() == at::kChar, "NotEmulated: another type than int8");
  TORCH_CHECK(at::isFloatingType(columns.scalar_type()) && at::isFloatingType(c.tensor(12).scalar_type()),
              "NotEmulated: a result of whole numbers, or scales in int64 (float16 without pertoken_scale)");
  TORCH_CHECK(!c.given(4) && !c.given(6) && c.integer(11) == 0, "NotEmulated: y_scale, offset or group_sizes");
  auto y = at::matmul(x.to(at::kDouble), weight.to(at::kDouble));  // exact
  const bool is_whole = bias.defined() && bias.scalar_type() == at::kInt;
  if (is_whole) y = y + bias;
  y = y.to(at::kFloat) * wide(columns);
  if (rows.defined()) y = y * wide(rows).unsqueeze(-1);
  c.put(12, bias.defined() && !is_whole ? y + wide(bias) : y);
}

void dynamic_quant(const Call& c) {  // x, factors -> q, scale of each row
  TORCH_CHECK(c.tensor(2).scalar_type() == at::kChar, "NotEmulated: another type than int8");
  auto x = c.tensor(0).to(at::kFloat);
  if (c.given(1)) x = x * c.tensor(1).to(at::kFloat);
  auto scale = x.abs().amax(-1, true) / 127;
  c.put(2, at::round(x / scale));
  c.put(3, scale.squeeze(-1));
}

}  // namespace

Functions fake_cann::quantised_functions() {
  return {
      {"DynamicQuant", dynamic_quant},
      {"QuantMatmulV5", quant_matmul},
      {"AscendAntiQuant", anti_quant},
      {"WeightQuantBatchMatmulV2", weight_quant_matmul},
  };
}
