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

void scatter(const Old& c) {  // x, where to begin in each part, contents -> x
  TORCH_CHECK(c.text("reduce") == "update", "NotEmulated: reduce ", c.text("reduce"));
  auto x = c.in(0).clone(), contents = c.in(2);
  const auto starts = c.ints(1);
  const auto axis = c.integer("axis"), dim = axis < 0 ? axis + x.dim() : axis;
  for (size_t part = 0; part < starts.size(); ++part)
    x[int64_t(part)].narrow(dim - 1, starts[part], contents.size(dim)).copy_(contents[int64_t(part)]);
  c.put(x);
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
      {"Scatter", scatter},
      {"OneHotD", one_hot},
  };
}
