#include "alias.h"
#include "device.h"
#include "fallback.h"
#include "generator.h"
#include "guard.h"
#include "memory.h"

#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

namespace npu_emulator {
namespace {

void start(int64_t devices, bool share_engine) {
  if (share_engine) {
    shareEngineOfCpu();
  }
  setDeviceCount(devices);
  registerHooks();
  registerOutrankedOperators();
}

at::Tensor checkedAliasOnCpu(const at::Tensor& tensor) {
  TORCH_CHECK(isOnNpu(tensor), "npu_emulator: expected a tensor on npu, found one on ", tensor.device());
  return aliasOnCpu(tensor);
}

at::Tensor checkedAliasOnNpu(const at::Tensor& tensor, int64_t index) {
  TORCH_CHECK(tensor.is_cpu(), "npu_emulator: expected a tensor on cpu, found one on ", tensor.device());
  return aliasOnNpu(tensor, checkIndex(index));
}

py::tuple memory(int64_t index) {
  const MemoryUse use = memoryUse(checkIndex(index));
  return py::make_tuple(use.allocated, use.peak, use.allocations);
}

py::object pythonGenerator(int64_t index) {
  return py::reinterpret_steal<py::object>(THPGenerator_initDefaultGenerator(defaultGenerator(checkIndex(index))));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("start", &start);
  m.def("device_count", [] { return static_cast<int64_t>(deviceCount()); });
  m.def("current_device", [] { return static_cast<int64_t>(currentDevice()); });
  m.def("set_device", &setCurrentDevice);
  m.def("alias_on_cpu", &checkedAliasOnCpu);
  m.def("alias_on_npu", &checkedAliasOnNpu);
  m.def("memory", &memory);
  m.def("reset_peak_memory", [](int64_t index) { resetPeakMemory(checkIndex(index)); });
  m.def("refuse", &refuse);
  m.def("default_generator", &pythonGenerator);
}

} // namespace
} // namespace npu_emulator
