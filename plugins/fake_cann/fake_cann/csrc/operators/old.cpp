// Operators of the older interface (aclop*), by the name of their type. Their inputs, outputs and attributes are those
// that op-plugin and torch_npu give them (OpCommand, Input, Output, Attr).
#include "old.h"

#include <c10/core/InferenceMode.h>

#include <mutex>

#include "../exported.h"
#include "values.h"

using namespace fake_cann;

at::Tensor Old::in(size_t place) const {
  auto* it = call_.inputs.at(place);
  void* data = it->constant.empty() ? call_.input_data.at(place)->data : it->constant.data();
  return at::from_blob(data, it->sizes, at::TensorOptions(type_of(it->type)));
}

bool Old::has(size_t place) const {
  return place < call_.inputs.size() && type_of(call_.inputs[place]->type) != at::ScalarType::Undefined;
}

at::Tensor Old::out(size_t place) const {
  auto* it = call_.outputs.at(place);
  return at::from_blob(call_.output_data.at(place)->data, it->sizes, at::TensorOptions(type_of(it->type)));
}

std::vector<int64_t> Old::ints(size_t place) const {
  auto values = in(place).to(at::kLong).reshape(-1);
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

int64_t Old::integer(const char* name, int64_t otherwise) const {
  auto found = call_.attributes->integers.find(name);
  return found == call_.attributes->integers.end() ? otherwise : found->second;
}

double Old::real(const char* name, double otherwise) const {
  auto found = call_.attributes->reals.find(name);
  return found == call_.attributes->reals.end() ? otherwise : found->second;
}

namespace {

using Function = OldFunctions::mapped_type;

at::Tensor turned(const at::Tensor& x, bool is_turned) { return is_turned ? x.transpose(-1, -2) : x; }

Function of_one(at::Tensor (*function)(const at::Tensor&)) {
  return [function](const Old& c) { c.put(function(c.in(0))); };
}
Function of_two(at::Tensor (*function)(const at::Tensor&, const at::Tensor&)) {
  return [function](const Old& c) { c.put(function(c.in(0), c.in(1))); };
}

OldFunctions common_functions() {
  return {
      // A change of format: elements lie one after the other in each, so that they are copied.
      {"Identity", [](const Old& c) { c.put(c.in(0)); }},
      {"Cast", [](const Old& c) { c.put(c.in(0)); }},  // to the type of the output
      {"ZerosLike", [](const Old& c) { c.out().zero_(); }},
      {"Fill", [](const Old& c) { c.out().fill_(c.in(1).item()); }},  // sizes, value
      {"BroadcastTo", [](const Old& c) { c.put(c.in(0).expand(c.out().sizes())); }},
      {"Transpose", [](const Old& c) { c.put(c.in(0).permute(c.ints(1))); }},
      {"ConfusionTransposeD",  // perm, shape, transpose_first
       [](const Old& c) {
         const bool is_first = c.integer("transpose_first");
         c.put(is_first ? c.in(0).permute(c.list("perm")) : c.in(0).reshape(c.list("shape")).permute(c.list("perm")));
       }},
      {"Slice",  // x, offsets, sizes
       [](const Old& c) {
         auto part = c.in(0);
         const auto offsets = c.ints(1), sizes = c.ints(2);
         for (size_t dim = 0; dim < offsets.size(); ++dim)
           part = part.narrow(int64_t(dim), offsets[dim],
                              sizes[dim] < 0 ? part.size(int64_t(dim)) - offsets[dim] : sizes[dim]);
         c.put(part);
       }},
      {"Pad",  // x, paddings: before and after for each dimension
       [](const Old& c) {
         const auto given = c.ints(1);
         std::vector<int64_t> reversed;  // ATen begins with the last dimension
         for (size_t dim = given.size() / 2; dim-- > 0;) {
           reversed.push_back(given[2 * dim]);
           reversed.push_back(given[2 * dim + 1]);
         }
         c.put(at::constant_pad_nd(c.in(0), reversed));
       }},
      {"GatherV2", [](const Old& c) {  // x, indices, axis
         auto axis = c.ints(2).at(0), at = axis < 0 ? axis + c.in(0).dim() : axis;
         c.put(at::index_select(c.in(0), at, c.in(1).reshape(-1).to(at::kLong)));
       }},
      {"MaskedSelect", [](const Old& c) { c.put_sized(at::masked_select(c.in(0), c.in(1).to(at::kBool))); }},
      {"Sigmoid", of_one(at::sigmoid)},
      {"Mish", of_one(at::mish)},
      {"MishGrad", of_two([](const at::Tensor& dy, const at::Tensor& x) { return at::mish_backward(dy, x); })},
      {"SwishGrad",  // dy, x, y
       [](const Old& c) {
         const double scale = c.real("scale", 1.0);
         const auto x = c.in(1).to(at::kFloat) * scale, gate = at::sigmoid(x);
         c.put(c.in(0) * (gate + x * gate * (1 - gate)));
       }},
      {"Swish", [](const Old& c) { c.put(c.in(0) * at::sigmoid(c.in(0) * c.real("scale", 1.0))); }},
      {"FastGelu", [](const Old& c) { c.put(c.in(0) * at::sigmoid(c.in(0) * 1.702)); }},
      {"FastGeluGrad",  // dy, x
       [](const Old& c) {
         const auto x = c.in(1).to(at::kFloat) * 1.702, gate = at::sigmoid(x);
         c.put(c.in(0) * (gate + x * gate * (1 - gate)));
       }},
      {"LeakyRelu", [](const Old& c) { c.put(at::leaky_relu(c.in(0), c.real("negative_slope", 0.01))); }},
      {"SoftplusV2",
       [](const Old& c) { c.put(at::softplus(c.in(0), c.real("beta", 1.0), c.real("threshold", 20.0))); }},
      {"SignBitsUnpack",  // bytes -> 1 for each bit that is set, the lowest first, and -1 for the others
       [](const Old& c) {
         auto bits = at::bitwise_and(c.in(0).unsqueeze(-1), at::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kByte)).ne(0);
         c.put(bits.to(at::kFloat) * 2 - 1);
       }},
      {"SoftmaxV2", [](const Old& c) { c.put(at::softmax(c.in(0), c.list("axes").at(0))); }},
      {"RealDiv", of_two([](const at::Tensor& a, const at::Tensor& b) { return at::div(a, b); })},
      {"Add", of_two([](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); })},
      {"Sub", of_two([](const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); })},
      {"Mul", of_two([](const at::Tensor& a, const at::Tensor& b) { return at::mul(a, b); })},
      {"Pow", of_two([](const at::Tensor& a, const at::Tensor& b) { return at::pow(a, b); })},
      {"Greater", of_two([](const at::Tensor& a, const at::Tensor& b) { return at::gt(a, b); })},
      {"AxpyV2", [](const Old& c) { c.put(c.in(0) + c.in(1) * c.in(2)); }},  // x, y, alpha
      {"ReduceSum",  // x, axes
       [](const Old& c) { c.put(at::sum(c.in(0), c.ints(1), c.integer("keep_dims") != 0)); }},
      {"BatchMatMul",
       [](const Old& c) {
         c.put(at::matmul(turned(c.in(0), c.integer("adj_x1")), turned(c.in(1), c.integer("adj_x2"))));
       }},
      {"ArgMaxWithValue",  // -> places, values
       [](const Old& c) {
         auto [values, places] = at::max(c.in(0), c.integer("dimension"), c.integer("keep_dims") != 0);
         c.put(places, 0);
         c.put(values, 1);
       }},
      {"ArgMinWithValue",
       [](const Old& c) {
         auto [values, places] = at::min(c.in(0), c.integer("dimension"), c.integer("keep_dims") != 0);
         c.put(places, 0);
         c.put(values, 1);
       }},
  };
}

const OldFunctions& functions() {
  static const auto* all = [] {
    auto* found = new OldFunctions(common_functions());
    for (auto of_room : {old_box_functions, old_dropout_functions, old_indexing_functions, old_network_functions,
                         old_recurrent_functions})
      found->merge(of_room());
    return found;
  }();
  return *all;
}

std::mutex executed_lock;
std::string executed;

bool execute(const OldCall& call) {
  auto found = functions().find(call.type);
  if (found == functions().end()) return false;
  c10::InferenceMode guard;
  found->second(Old(call));
  std::lock_guard<std::mutex> lock(executed_lock);
  executed += call.type + " ";
  return true;
}

struct Registered {
  Registered() { fake_cann_set_old_operators(execute); }
} registered;

}  // namespace

// Returns the types that were executed since it was called last, each with a space behind it.
EXPORTED const char* fake_cann_old_calls() {
  static thread_local std::string taken;
  std::lock_guard<std::mutex> lock(executed_lock);
  taken.swap(executed);
  executed.clear();
  return taken.c_str();
}
