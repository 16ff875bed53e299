// The functions that create, read and destroy the arguments of operators.
#include "values.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <mutex>

#include "../exported.h"
#include "live.h"

using namespace fake_cann;

at::ScalarType fake_cann::type_of(int number) {
  switch (number) {
    case 0: return at::kFloat;
    case 1: return at::kHalf;
    case 2: return at::kChar;
    case 3: return at::kInt;
    case 4: return at::kByte;
    case 6: return at::kShort;
    case 7: return at::kUInt16;
    case 8: return at::kUInt32;
    case 9: return at::kLong;
    case 10: return at::kUInt64;
    case 11: return at::kDouble;
    case 12: return at::kBool;
    case 16: return at::kComplexFloat;
    case 17: return at::kComplexDouble;
    case 27: return at::kBFloat16;
    case 33: return at::kComplexHalf;
    case 35: return at::kFloat8_e5m2;
    case 36: return at::kFloat8_e4m3fn;
    default: return at::ScalarType::Undefined;
  }
}

namespace {

// To describe a tensor anew is cheaper than to create one: those that nobody uses are kept for the next call.
class Pool {
 public:
  TensorValue* take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return nullptr;
    auto* last = free_.back();
    free_.pop_back();
    return last;
  }
  bool keep(TensorValue* value) {
    constexpr size_t kMost = 4096;
    auto* impl = value->tensor.unsafeGetTensorImpl();
    if (value->tensor.use_count() != 1 || impl->unsafe_storage().use_count() != 1) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() >= kMost) return false;
    free_.push_back(value);
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<TensorValue*> free_;
};

// Never destroyed: threads of torch_npu call until the process ends.
Pool& pool() {
  static auto* it = new Pool;
  return *it;
}

void describe(at::Tensor& tensor, at::IntArrayRef sizes, const int64_t* strides, int64_t offset, at::ScalarType type,
              void* data) {
  auto* impl = tensor.unsafeGetTensorImpl();
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(data, c10::Device(c10::kCPU)));
  auto meta = c10::scalarTypeToTypeMeta(type);
  if (impl->dtype() != meta) impl->set_storage_and_dtype(c10::Storage(impl->unsafe_storage()), meta);
  if (strides) {
    impl->set_sizes_and_strides(sizes, at::IntArrayRef(strides, sizes.size()), offset);
  } else {
    impl->set_sizes_contiguous(sizes);
    impl->set_storage_offset(offset);
  }
  storage->set_nbytes(at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), impl->itemsize(), size_t(offset)));
}

template <class Value>
Value* created(Value* value, char letter) {
  note_created(value, letter);
  return value;
}

template <class Value>
int destroy(const Value* value) {
  note_destroyed(value);
  delete value;
  return kOk;
}

}  // namespace

EXPORTED TensorValue* aclCreateTensor(const int64_t* sizes, uint64_t count, int type, const int64_t* strides,
                                      int64_t offset, int, const int64_t*, uint64_t, void* data) {
  auto dtype = type_of(type);
  if (dtype == at::ScalarType::Undefined) {
    fake_cann_set_message(("NotEmulated: the fake CANN has no tensors of type " + std::to_string(type)).c_str());
    return nullptr;
  }
  at::IntArrayRef shape(sizes, count);
  auto* value = pool().take();
  if (!value) {
    c10::InferenceMode without_autograd;
    value = new TensorValue{at::for_blob(data, {0}).options(at::TensorOptions().dtype(dtype)).make_tensor()};
  }
  describe(value->tensor, shape, strides, offset, dtype, data);
  return created(value, 'T');
}

EXPORTED int aclDestroyTensor(const TensorValue* value) {
  note_destroyed(value);
  if (value && !pool().keep(const_cast<TensorValue*>(value))) delete value;
  return kOk;
}

namespace {

ScalarValue* scalar_of(void* data, int type) {
  switch (type_of(type)) {
    case at::kFloat: return new ScalarValue{*static_cast<float*>(data)};
    case at::kDouble: return new ScalarValue{*static_cast<double*>(data)};
    case at::kLong: return new ScalarValue{*static_cast<int64_t*>(data)};
    case at::kInt: return new ScalarValue{*static_cast<int32_t*>(data)};
    case at::kBool: return new ScalarValue{*static_cast<bool*>(data)};
    default: {
      c10::InferenceMode without_autograd;
      return new ScalarValue{at::from_blob(data, {}, at::TensorOptions().dtype(type_of(type))).item()};
    }
  }
}

}  // namespace

EXPORTED ScalarValue* aclCreateScalar(void* data, int type) { return created(scalar_of(data, type), 'S'); }

EXPORTED Ints* aclCreateIntArray(const int64_t* items, uint64_t count) {
  return created(new Ints{{items, items + count}}, 'A');
}
EXPORTED Floats* aclCreateFloatArray(const float* items, uint64_t count) {
  return created(new Floats{{items, items + count}}, 'F');
}
EXPORTED Bools* aclCreateBoolArray(const bool* items, uint64_t count) {
  return created(new Bools{std::vector<bool>(items, items + count)}, 'B');
}
EXPORTED Tensors* aclCreateTensorList(TensorValue* const* items, uint64_t count) {
  return created(new Tensors{{items, items + count}}, 'L');
}
EXPORTED Scalars* aclCreateScalarList(ScalarValue* const* items, uint64_t count) {
  return created(new Scalars{{items, items + count}}, 'Z');
}

EXPORTED int aclDestroyScalar(const ScalarValue* value) { return destroy(value); }
EXPORTED int aclDestroyIntArray(const Ints* value) { return destroy(value); }
EXPORTED int aclDestroyFloatArray(const Floats* value) { return destroy(value); }
EXPORTED int aclDestroyBoolArray(const Bools* value) { return destroy(value); }
EXPORTED int aclDestroyTensorList(const Tensors* list) {
  if (list)
    for (auto* item : list->items) aclDestroyTensor(item);
  return destroy(list);
}
EXPORTED int aclDestroyScalarList(const Scalars* list) {
  if (list)
    for (auto* item : list->items) destroy(item);
  return destroy(list);
}

// The caller deletes the sizes.
EXPORTED int aclGetViewShape(const TensorValue* value, int64_t** sizes, uint64_t* count) {
  auto shape = value->tensor.sizes();
  *count = shape.size();
  *sizes = new int64_t[shape.size() + 1];
  std::copy(shape.begin(), shape.end(), *sizes);
  return kOk;
}
