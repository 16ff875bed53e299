// One call of the older interface (aclop*) as tensors of ATen, and the tables of its operators, by their room.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "../old_calls.h"

namespace fake_cann {

class Old {
 public:
  explicit Old(const OldCall& call) : call_(call) {}

  at::Tensor in(size_t place) const;
  bool has(size_t place) const;
  size_t inputs() const { return call_.inputs.size(); }
  at::Tensor out(size_t place = 0) const;
  void put(const at::Tensor& result, size_t place = 0) const { out(place).copy_(result.reshape(out(place).sizes())); }
  // Writes a result whose size is known only now: the caller reads it, and the memory has room for the largest.
  void put_sized(const at::Tensor& result, size_t place = 0) const {
    call_.outputs.at(place)->sizes = result.sizes().vec();
    out(place).copy_(result);
  }
  // The numbers of a tensor that has sizes, offsets or places.
  std::vector<int64_t> ints(size_t place) const;

  // Attributes by name.
  const std::vector<int64_t>& list(const char* name) const { return call_.attributes->lists.at(name); }
  const std::vector<float>& floats(const char* name) const { return call_.attributes->real_lists.at(name); }
  int64_t integer(const char* name, int64_t otherwise = 0) const;
  const std::string& text(const char* name) const { return call_.attributes->texts.at(name); }
  double real(const char* name, double otherwise) const;

 private:
  const OldCall& call_;
};

using OldFunctions = std::map<std::string, std::function<void(const Old&)>>;

OldFunctions old_box_functions();
OldFunctions old_dropout_functions();
OldFunctions old_indexing_functions();
OldFunctions old_network_functions();
OldFunctions old_recurrent_functions();

}  // namespace fake_cann
