#include "alias.h"

#include "device.h"
#include "memory.h"

#include <ATen/SparseTensorImpl.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <c10/core/CPUAllocator.h>

namespace npu_emulator {
namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::Storage;

// The storage of an alias on the CPU holds the storage that it presents; this deleter is also what it is known by.
void releasePresented(void* context) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(context));
}

c10::StorageImpl* presentedBy(const Storage& storage) {
  const auto& data = storage.data_ptr();
  return data.get_deleter() == &releasePresented ? static_cast<c10::StorageImpl*>(data.get_context()) : nullptr;
}

Storage storageOnCpu(const Storage& storage) {
  checkNotRefused();
  void* memory = storage.mutable_data(); // may throw, so nothing is held before
  auto* presented = storage.unsafeGetStorageImpl();
  c10::raw::intrusive_ptr::incref(presented); // without an allocation: the DataPtr itself holds it
  c10::DataPtr data(memory, presented, &releasePresented, Device(c10::kCPU));
  return Storage(
      Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetCPUAllocator(), /*resizable=*/true);
}

Storage sharedStorageOnCpu(const Storage& storage, SharedStorages& storages) {
  for (const auto& [known, alias] : storages) {
    if (known == storage.unsafeGetStorageImpl()) {
      return alias;
    }
  }
  return storages.emplace_back(storage.unsafeGetStorageImpl(), storageOnCpu(storage)).second;
}

Storage storageOnNpu(const Storage& storage, DeviceIndex index) {
  // A kernel that returned a view of an input: the result shares the input's own storage.
  auto* presented = presentedBy(storage);
  if (presented != nullptr && presented->device().index() == index) {
    return Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(presented));
  }
  return Storage(
      Storage::use_byte_size_t(),
      storage.nbytes(),
      adoptMemory(storage, index),
      deviceAllocator(),
      /*resizable=*/true);
}

Tensor withStorage(const Tensor& tensor, Storage storage, DispatchKey key) {
  auto result = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), DispatchKeySet(key), tensor.dtype());
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  impl->_set_conj(tensor.is_conj());
  impl->_set_neg(tensor.is_neg());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return result;
}

Tensor sparseFrom(const Tensor& tensor, const Tensor& indices, const Tensor& values) {
  const auto options = at::TensorOptions().device(values.device()).dtype(tensor.dtype());
  return at::_sparse_coo_tensor_unsafe(indices, values, tensor.sizes(), options)._coalesced_(tensor.is_coalesced());
}

void checkLayout(const Tensor& tensor) {
  if (tensor.layout() != c10::kStrided) {
    notEmulated(c10::str(
        "npu_emulator: tensors of layout ",
        tensor.layout(),
        " are not emulated; torch.strided and torch.sparse_coo are"));
  }
}

void adoptSparseAlias(const Tensor& tensor, const Tensor& alias) {
  const auto index = tensor.device().index();
  auto* impl = at::sparse::get_sparse_impl(tensor);
  impl->raw_resize_(alias.sparse_dim(), alias.dense_dim(), alias.sizes());
  impl->set_indices_and_values_unsafe(aliasOnNpu(alias._indices(), index), aliasOnNpu(alias._values(), index));
  impl->set_coalesced(alias.is_coalesced());
}

} // namespace

Tensor aliasOnCpu(const Tensor& tensor) {
  return aliasOnCpu(tensor, nullptr);
}

Tensor aliasOnCpu(const Tensor& tensor, SharedStorages* storages) {
  if (tensor.is_sparse()) {
    return sparseFrom(tensor, aliasOnCpu(tensor._indices()), aliasOnCpu(tensor._values()));
  }
  checkLayout(tensor);
  const Storage& storage = tensor.storage();
  return withStorage(
      tensor,
      storages == nullptr ? storageOnCpu(storage) : sharedStorageOnCpu(storage, *storages),
      DispatchKey::CPU);
}

Tensor aliasOnNpu(const Tensor& tensor, DeviceIndex index) {
  if (isOnNpu(tensor)) {
    return tensor;
  }
  if (tensor.is_sparse()) {
    return sparseFrom(tensor, aliasOnNpu(tensor._indices(), index), aliasOnNpu(tensor._values(), index));
  }
  checkLayout(tensor);
  return withStorage(tensor, storageOnNpu(tensor.storage(), index), DispatchKey::PrivateUse1);
}

Tensor onHost(const Tensor& tensor) {
  return isOnNpu(tensor) ? aliasOnCpu(tensor) : tensor;
}

void adoptAlias(const Tensor& tensor, const Tensor& alias) {
  if (tensor.is_sparse()) {
    adoptSparseAlias(tensor, alias);
    return;
  }
  const Storage& storage = alias.storage();
  if (presentedBy(storage) == nullptr) { // resized, so it has memory of its own now
    auto* impl = tensor.storage().unsafeGetStorageImpl();
    impl->set_data_ptr_noswap(adoptMemory(storage, tensor.device().index()));
    impl->set_nbytes(storage.nbytes());
  }
  if (tensor.sizes() != alias.sizes() || tensor.strides() != alias.strides() ||
      tensor.storage_offset() != alias.storage_offset()) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
  }
}

} // namespace npu_emulator
