// What the arguments of an operator are made of: torch_npu creates these objects and passes their addresses.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fake_cann {

struct TensorValue {
  at::Tensor tensor;
};
struct ScalarValue {
  at::Scalar scalar;
};
struct Ints {
  std::vector<int64_t> items;
};
struct Floats {
  std::vector<float> items;
};
struct Bools {
  std::vector<bool> items;
};
struct Tensors {
  std::vector<TensorValue*> items;
};
struct Scalars {
  std::vector<ScalarValue*> items;
};

// The type of PyTorch for a number of CANN's aclDataType; Undefined where PyTorch has none.
at::ScalarType type_of(int number);

}  // namespace fake_cann
