// Kernels that the fallback cannot replace: they make or change tensors of the device themselves, or a composite kernel
// would be chosen before the fallback.

#include "alias.h"
#include "device.h"
#include "memory.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/contiguous_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

namespace npu_emulator {
namespace {

using at::IntArrayRef;
using at::Tensor;
using c10::Device;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::SymInt;
using c10::SymIntArrayRef;
using std::optional;

const DispatchKeySet kKeys(DispatchKey::PrivateUse1);

// Factories

void fillIfDeterministic(Tensor& tensor) {
  const auto& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) {
    at::native::fill_empty_deterministic_(tensor);
  }
}

DeviceScope scopeOf(optional<Device> device, optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return DeviceScope(device ? resolveIndex(*device) : currentDevice());
}

Tensor empty(
    SymIntArrayRef size,
    optional<at::ScalarType> dtype,
    optional<at::Layout>,
    optional<Device> device,
    optional<bool> pin_memory,
    optional<at::MemoryFormat> memory_format) {
  const auto scope = scopeOf(device, pin_memory);
  Tensor result = at::detail::empty_generic(
      C10_AS_INTARRAYREF_SLOW(size), deviceAllocator(), kKeys, c10::dtype_or_default(dtype), memory_format);
  fillIfDeterministic(result);
  return result;
}

Tensor emptyStrided(
    SymIntArrayRef size,
    SymIntArrayRef stride,
    optional<at::ScalarType> dtype,
    optional<at::Layout>,
    optional<Device> device,
    optional<bool> pin_memory) {
  const auto scope = scopeOf(device, pin_memory);
  Tensor result = at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size),
      C10_AS_INTARRAYREF_SLOW(stride),
      deviceAllocator(),
      kKeys,
      c10::dtype_or_default(dtype));
  fillIfDeterministic(result);
  return result;
}

// The tensor that autograd makes without memory elsewhere: here an ordinary one.
Tensor zeros(
    SymIntArrayRef size,
    optional<at::ScalarType> dtype,
    optional<at::Layout> layout,
    optional<Device> device,
    optional<bool> pin_memory) {
  return empty(size, dtype, layout, device, pin_memory, std::nullopt).zero_();
}

// Views

Tensor asStrided(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride, optional<SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self,
      C10_AS_INTARRAYREF_SLOW(size),
      C10_AS_INTARRAYREF_SLOW(stride),
      offset ? optional<int64_t>(offset->guard_int(__FILE__, __LINE__)) : std::nullopt);
}

Tensor view(const Tensor& self, SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

Tensor reshapeAlias(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

// Memory formats: torch_npu refuses others where a program sets one.

bool isSupported(at::MemoryFormat format) {
  return format == at::MemoryFormat::Contiguous || format == at::MemoryFormat::Preserve;
}

Tensor toCopy(
    const Tensor& self,
    optional<at::ScalarType> dtype,
    optional<at::Layout> layout,
    optional<Device> device,
    optional<bool> pin_memory,
    bool non_blocking,
    optional<at::MemoryFormat> memory_format) {
  TORCH_CHECK(
      !memory_format || isSupported(*memory_format),
      "Only contiguous_format or preserve_format is supported. (emulated as the hardware does it)");
  return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format);
}

Tensor contiguous(const Tensor& self, at::MemoryFormat memory_format) {
  TORCH_CHECK(
      isSupported(memory_format),
      "NPU contiguous operator only supported contiguous memory format. (emulated as the hardware does it)");
  return at::native::contiguous(self, memory_format);
}

// Storage

const Tensor& resize(const Tensor& self, SymIntArrayRef size, optional<at::MemoryFormat> memory_format) {
  const DeviceScope scope(self.device().index());
  return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), memory_format);
}

Tensor& setStorage(Tensor& self, at::Storage storage, SymInt offset, SymIntArrayRef size, SymIntArrayRef stride) {
  return at::native::set_storage_cpu_(
      self,
      std::move(storage),
      offset.guard_int(__FILE__, __LINE__),
      C10_AS_INTARRAYREF_SLOW(size),
      C10_AS_INTARRAYREF_SLOW(stride));
}

Tensor& setWholeStorage(Tensor& self, at::Storage storage) {
  const auto length = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return at::native::set_storage_cpu_(self, std::move(storage), 0, {length}, {});
}

Tensor& setEmptyStorage(Tensor& self) {
  const DeviceScope scope(self.device().index());
  return setWholeStorage(
      self, at::Storage(at::Storage::use_byte_size_t(), 0, deviceAllocator(), /*resizable=*/true));
}

// Copies, between any two devices

// Registered itself, as the composite copy_ resolves the conjugate bit by another copy_ of the same tensors.
Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  onHost(self).copy_(onHost(source), non_blocking);
  return self;
}

Tensor copyFrom(const Tensor& source, const Tensor& destination, bool non_blocking) {
  onHost(destination).copy_(onHost(source), non_blocking);
  return destination;
}

Tensor copyFromAndResize(const Tensor& source, const Tensor& destination) {
  if (destination.sizes() != source.sizes()) {
    destination.resize_(source.sizes());
  }
  onHost(destination).copy_(onHost(source));
  return destination;
}

at::Scalar localScalar(const Tensor& self) {
  return aliasOnCpu(self).item();
}

// Convolution: the composite kernel of a backend without one of its own calls these two.

optional<Tensor> aliasOrNone(const optional<Tensor>& tensor) {
  return tensor && tensor->defined() ? optional<Tensor>(aliasOnCpu(*tensor)) : std::nullopt;
}

void checkSameDevice(const Tensor& input, const Tensor& other) {
  TORCH_CHECK(
      other.device() == input.device(),
      "Expected all tensors to be on the same device, but found at least two devices, ",
      input.device(),
      " and ",
      other.device(),
      "! (when checking arguments of aten::convolution)");
}

Tensor convolution(
    const Tensor& input,
    const Tensor& weight,
    const optional<Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  checkSameDevice(input, weight);
  if (bias && bias->defined()) {
    checkSameDevice(input, *bias);
  }
  const Tensor result = at::convolution(
      aliasOnCpu(input),
      aliasOnCpu(weight),
      aliasOrNone(bias),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups);
  return aliasOnNpu(result, input.device().index());
}

std::tuple<Tensor, Tensor, Tensor> convolutionBackward(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  const int64_t bias_size = transposed ? weight.size(1) * groups : weight.size(0);
  const auto [grad_input, grad_weight, grad_bias] = at::convolution_backward(
      aliasOnCpu(grad_output),
      aliasOnCpu(input),
      aliasOnCpu(weight),
      IntArrayRef{bias_size},
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      output_mask);
  const auto index = input.device().index();
  const auto present = [index](const Tensor& tensor) {
    return tensor.defined() ? aliasOnNpu(tensor, index) : tensor;
  };
  return {present(grad_input), present(grad_weight), present(grad_bias)};
}

// Module.to() exchanges the data of a parameter only if this holds, and replaces the parameter itself if not.
bool hasCompatibleShallowCopyType(const Tensor& self, const Tensor& source) {
  return self.layout() == source.layout();
}

// Nothing is asynchronous: no stream can still be using a tensor that is freed.
void recordStream(Tensor&, at::Stream) {}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &emptyStrided);
  m.impl("_efficientzerotensor", &zeros);

  m.impl("as_strided", &asStrided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshapeAlias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);

  m.impl("_to_copy", &toCopy);
  m.impl("contiguous", &contiguous);

  m.impl("resize_", &resize);
  m.impl("set_", &setEmptyStorage);
  m.impl("set_.source_Storage", &setWholeStorage);
  m.impl("set_.source_Storage_storage_offset", &setStorage);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("is_set_to", &at::native::is_set_to);

  m.impl("copy_", &copy);
  m.impl("_copy_from", &copyFrom);
  m.impl("_copy_from_and_resize", &copyFromAndResize);
  m.impl("_local_scalar_dense", &localScalar);

  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolutionBackward);

  m.impl("_has_compatible_shallow_copy_type", &hasCompatibleShallowCopyType);
  m.impl("record_stream", &recordStream);
}

// A composite operator with a kernel of a backend would have no derivative there otherwise.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("contiguous", &contiguous);
}

} // namespace npu_emulator
