#include "device.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>

namespace npu_emulator {
namespace {

std::atomic<c10::DeviceIndex> device_count{0};
thread_local c10::DeviceIndex current_device = 0;
std::atomic<const std::string*> refusal{nullptr};

} // namespace

void setDeviceCount(int64_t count) {
  TORCH_CHECK(
      count >= 0 && count <= kMaxDevices, "npu_emulator: expected 0 to ", kMaxDevices, " devices, found ", count);
  device_count = static_cast<c10::DeviceIndex>(count);
}

c10::DeviceIndex deviceCount() noexcept {
  return device_count;
}

c10::DeviceIndex currentDevice() noexcept {
  return current_device;
}

void setCurrentDevice(int64_t index) {
  current_device = checkIndex(index);
}

void setCurrentDeviceUnchecked(c10::DeviceIndex index) noexcept {
  current_device = index;
}

c10::DeviceIndex resolveIndex(c10::Device device) {
  return device.has_index() ? checkIndex(device.index()) : current_device;
}

c10::DeviceIndex checkIndex(int64_t index) {
  TORCH_CHECK(
      index >= 0 && index < deviceCount(),
      "npu_emulator: invalid device ordinal: expected npu:0 to npu:",
      static_cast<int>(deviceCount()) - 1,
      ", found npu:",
      index,
      " (NPU_EMULATOR_DEVICES sets how many there are)");
  return static_cast<c10::DeviceIndex>(index);
}

void refuse(const std::string& reason) {
  refusal = new std::string(reason); // to the end of the process
}

void checkNotRefused() {
  const std::string* reason = refusal.load(std::memory_order_relaxed);
  TORCH_CHECK(reason == nullptr, *reason);
}

void notEmulated(const std::string& message) {
  py::gil_scoped_acquire gil;
  const auto type = py::module_::import("npu_emulator.errors").attr("NotEmulated");
  PyErr_SetString(type.ptr(), message.c_str());
  // persist() takes the error along, as another thread (autograd's) may be the one to hand it to Python.
  python_error error;
  error.persist();
  throw std::move(error);
}

} // namespace npu_emulator
