#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <utility>

namespace npu_emulator {

// An alias is a tensor of the other device with the same memory, sizes, strides and dtype. It is not differentiable:
// kernels work with it below autograd.
at::Tensor aliasOnCpu(const at::Tensor& tensor);

// Storages that aliases were made for, and the aliases' own.
using SharedStorages = c10::SmallVector<std::pair<const c10::StorageImpl*, c10::Storage>, 4>;

// The same, for tensors whose aliases are to share storages as they do. Without `storages`, they do not.
at::Tensor aliasOnCpu(const at::Tensor& tensor, SharedStorages* storages);

// Returns a tensor that is on the emulated device already as it is.
at::Tensor aliasOnNpu(const at::Tensor& tensor, c10::DeviceIndex index);

// The tensor itself if it is no tensor of the emulated device.
at::Tensor onHost(const at::Tensor& tensor);

// Gives a tensor the sizes and the memory of its alias, which a kernel wrote to and perhaps resized.
void adoptAlias(const at::Tensor& tensor, const at::Tensor& alias);

inline bool isOnNpu(const at::Tensor& tensor) {
  return tensor.device().type() == c10::DeviceType::PrivateUse1;
}

} // namespace npu_emulator
