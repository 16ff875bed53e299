// Operators whose result has a size of its own, and those that take indices in CANN's way.
#include <ATen/ATen.h>

#include <algorithm>

#include "own.h"

using namespace fake_cann;

namespace {

// torch_npu passes a tensor of size [0], with the type of what is indexed, for a dimension without an index.
bool is_whole(const at::Tensor& item, const at::Tensor& self) {
  return !item.defined() || (item.dim() == 1 && item.numel() == 0 && item.scalar_type() == self.scalar_type());
}

// An empty index chooses nothing, whatever the others are. Whole numbers that are indexed have indices of their own type:
// there an empty one counts as a whole dimension, unless all are empty.
bool choose_nothing(const Call& c, int place) {
  auto self = c.tensor(0);
  auto given = c.tensors(place);
  auto is_empty = [](const at::Tensor& item) { return !item.defined() || item.numel() == 0; };
  return std::all_of(given.begin(), given.end(), is_empty) ||
         std::any_of(given.begin(), given.end(),
                     [&](const at::Tensor& item) { return is_empty(item) && !is_whole(item, self); });
}

c10::List<std::optional<at::Tensor>> indices(const Call& c, int place) {
  c10::List<std::optional<at::Tensor>> list;
  for (auto& item : c.tensors(place))
    list.push_back(is_whole(item, c.tensor(0)) ? std::nullopt : std::make_optional(item));
  return list;
}

void index(const Call& c) {  // self, indices -> result
  if (c.tensor(2).numel() != 0) c.put(2, at::index(c.tensor(0), indices(c, 1)));
}

void index_put(const Call& c) {  // self, indices, values, whether they are added, unsafe: self is changed
  if (!choose_nothing(c, 1)) c.tensor(0).index_put_(indices(c, 1), c.tensor(2), c.boolean(3));
}

// What a scatter does with what is there.
constexpr int64_t kReplace = 0, kAdd = 1;
std::string_view reduction(int64_t number) { return number == kAdd ? "add" : "multiply"; }

at::Tensor scatter(const Call& c) {
  auto self = c.tensor(0), index = c.tensor(2), source = c.tensor(3);
  int64_t dim = c.integer(1), how = c.integer(4);
  return how == kReplace ? at::scatter(self, dim, index, source) : at::scatter(self, dim, index, source, reduction(how));
}
at::Tensor scatter_value(const Call& c) {
  auto self = c.tensor(0), index = c.tensor(2);
  int64_t dim = c.integer(1), how = c.integer(4);
  return how == kReplace ? at::scatter(self, dim, index, c.scalar(3))
                         : at::scatter(self, dim, index, c.scalar(3), reduction(how));
}
void unique(const Call& c) {  // self, sorted, inverse, counts -> values, inverse, counts
  auto [values, inverse, counts] = at::_unique2(c.tensor(0), c.boolean(1), true, true);
  auto target = c.tensor(5);
  if (target.defined() && target.numel() == inverse.numel()) c.put(5, inverse);
  if (c.boolean(3)) c.put_sized(6, counts);
  c.put_sized(4, values);
}
void unique_dim(const Call& c) {  // self, sorted, inverse, dim -> values, inverse, counts
  auto [values, inverse, counts] = at::unique_dim(c.tensor(0), c.integer(3), c.boolean(1), true, true);
  c.put(5, inverse);
  c.put_sized(6, counts);
  c.put_sized(4, values);
}
void unique_consecutive(const Call& c) {  // self, inverse, counts, dim -> values, inverse, counts
  constexpr int64_t kNoDim = 1000;
  std::optional<int64_t> dim;
  if (c.integer(3) != kNoDim) dim = c.integer(3);
  auto [values, inverse, counts] = at::unique_consecutive(c.tensor(0), c.boolean(1), c.boolean(2), dim);
  if (c.boolean(1)) c.put(5, inverse);
  c.put_sized(6, counts);
  c.put_sized(4, values);
}

void scatter_update(const Call& c) {  // x, where to begin in each part, contents, axis -> x
  auto x = c.tensor(0), contents = c.tensor(2);
  auto starts = c.tensor(1).to(at::kLong).reshape({-1});
  const int64_t dim = c.integer(3) < 0 ? c.integer(3) + x.dim() : c.integer(3);
  for (int64_t part = 0; part < starts.numel(); ++part)
    x[part].narrow(dim - 1, starts[part].item<int64_t>(), contents.size(dim)).copy_(contents[part]);
}

void embedding_bag(const Call& c) {
  // weight, indices, offsets, scaled gradients, mode, sparse, weights of the rows, last offset, padding
  // -> sums, bags of the rows, sizes of bags, places of the largest; ATen leaves out those that nobody needs
  std::optional<at::Tensor> weights;
  if (c.given(6)) weights = c.tensor(6);
  auto offsets = c.tensor(2).to(c.tensor(1).scalar_type());
  auto [sums, bags, sizes, largest] =
      at::_embedding_bag(c.tensor(0), c.tensor(1), offsets, c.boolean(3), c.integer(4), c.boolean(5), weights,
                         c.boolean(7), c.integer(8));
  int place = 9;
  for (const auto& result : {sums, bags, sizes, largest}) {
    if (c.tensor(place).numel() == result.numel()) c.put(place, result);
    ++place;
  }
}

void scatter_nd_update(const Call& c) {  // x, places, contents -> x
  auto x = c.tensor(0), places = c.tensor(1).to(at::kLong);
  c10::List<std::optional<at::Tensor>> list;
  for (auto& part : places.unbind(-1)) list.push_back(part);
  x.index_put_(list, c.tensor(2));
}

// Entries of a sparse tensor that have the same place become their sum. Distinct places, the number of the place that each
// entry has, indices, values -> indices, values.
void coalesce(const Call& c) {
  auto entry = c.tensor(1).to(at::kLong);
  c.tensor(4).index_copy_(0, entry, c.tensor(2));
  c.tensor(5).zero_().index_add_(0, entry, c.tensor(3));
}

}  // namespace

Functions fake_cann::indexing_functions() {
  return {
      {"Nonzero", [](const Call& c) { c.put_sized(1, at::nonzero(c.tensor(0))); }},
      {"NonzeroV2", [](const Call& c) { c.put_sized(1, at::nonzero(c.tensor(0)).t()); }},
      {"MaskedSelect", [](const Call& c) { c.put_sized(2, at::masked_select(c.tensor(0), c.tensor(1))); }},
      {"EmbeddingBag", embedding_bag},
      {"InplaceScatterUpdate", scatter_update},
      {"ScatterNdUpdate", scatter_nd_update},
      {"CoalesceSparse", coalesce},
      {"Unique2", unique},
      {"UniqueDim", unique_dim},
      {"UniqueConsecutive", unique_consecutive},
      {"Index", index},
      {"IndexPutImpl", index_put},
      {"Scatter", [](const Call& c) { c.put(5, scatter(c)); }},
      {"InplaceScatter", [](const Call& c) { c.put(0, scatter(c)); }},
      {"ScatterValue", [](const Call& c) { c.put(5, scatter_value(c)); }},
      {"InplaceScatterValue", [](const Call& c) { c.put(0, scatter_value(c)); }},
      {"OneHot",  // self, classes, on, off, axis -> result
       [](const Call& c) {
         auto hot = at::one_hot(c.tensor(0).to(at::kLong), c.tensor(5).size(-1)).to(at::kBool);
         c.put(5, at::where(hot, c.tensor(2), c.tensor(3)));
       }},
  };
}
