// The older interface to operators (aclop*): an operator by the name of its type, with tensors and attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_cann {

// How a tensor is described: an element type of CANN and sizes. The shape in memory is another one where the format is
// one of an NPU's own; here elements lie one after the other in any format, so that it has no meaning.
struct Description {
  int type;
  int format;
  std::vector<int64_t> sizes;
  std::string name;
  std::vector<char> constant;  // the contents, of a tensor of the host
};
struct Buffer {
  void* data;
  size_t size;
};
struct Attributes {
  std::map<std::string, int64_t> integers;  // bools, too
  std::map<std::string, double> reals;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<int64_t>> lists;
  std::map<std::string, std::vector<float>> real_lists;
};

// One call.
struct OldCall {
  std::string type;
  std::vector<Description*> inputs, outputs;
  std::vector<Buffer*> input_data, output_data;
  const Attributes* attributes;
};

// Carries out a call; returns false for a type that it does not have. An exception is the operator's failure.
using OldFunction = bool (*)(const OldCall&);

}  // namespace fake_cann

// The library of the operators brings the function, when it is loaded.
extern "C" __attribute__((visibility("default"))) void fake_cann_set_old_operators(fake_cann::OldFunction function);
