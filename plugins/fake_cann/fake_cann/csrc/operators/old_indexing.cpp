// Parts of tensors and places in them, of the older interface.
#include "old.h"

using namespace fake_cann;

namespace {

void strided_slice(const Old& c) {  // x, first, last, steps
  for (auto* mask : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"})
    TORCH_CHECK(c.integer(mask) == 0, "NotEmulated: ", mask, " ", c.integer(mask));
  auto part = c.in(0);
  const auto first = c.ints(1), last = c.ints(2), steps = c.ints(3);
  for (size_t dim = 0; dim < first.size(); ++dim) part = part.slice(int64_t(dim), first[dim], last[dim], steps[dim]);
  c.put(part);
}

// The described tensor is the whole memory: sizes, strides and offset of the view follow it.
at::Tensor view(const Old& c, size_t place) {
  auto memory = c.in(place);
  auto* data = static_cast<char*>(memory.data_ptr()) + c.ints(place + 3).at(0) * int64_t(memory.element_size());
  return at::from_blob(data, c.ints(place + 1), c.ints(place + 2), memory.options());
}

void one_hot(const Old& c) {  // places, on, off
  const auto depth = c.integer("depth");
  TORCH_CHECK(c.integer("axis") == -1, "NotEmulated: axis ", c.integer("axis"));
  c.put(at::where(c.in(0).unsqueeze(-1) == at::arange(depth), c.in(1), c.in(2)));
}

}  // namespace

OldFunctions fake_cann::old_indexing_functions() {
  return {
      {"StridedSlice", strided_slice},
      {"ViewCopy", [](const Old& c) { view(c, 0).copy_(view(c, 4)); }},  // a view, a view -> the first
      {"OneHotD", one_hot},
  };
}
