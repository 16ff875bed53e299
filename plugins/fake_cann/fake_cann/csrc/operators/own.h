// Operators that no single call of ATen computes, by their room. Places are those of the letters in operators.txt.
#pragma once

#include <ATen/core/Generator.h>

#include <map>
#include <string>

#include "recipes.h"

namespace fake_cann {

using Functions = std::map<std::string, Function>;

Functions random_functions();
Functions indexing_functions();
Functions arithmetic_functions();
Functions network_functions();
Functions quantised_functions();
Functions fused_functions();
Functions layer_functions();
Functions attention_functions();

// The generator of one call; with FAKE_CANN_RANDOM=cpu that of the CPU.
at::Generator generator_of(int64_t seed, int64_t offset);

// A mask of dropout as bools: it has one bit per element, the lowest first.
at::Tensor unpacked(const at::Tensor& mask, at::IntArrayRef sizes, int64_t first_bit = 0);

}  // namespace fake_cann
