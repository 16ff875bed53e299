#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <string>

namespace npu_emulator {

constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;

// Fixed, so that per-device tables are plain arrays that need no lock; Settings allows no more either.
constexpr int kMaxDevices = 64;

// What the Ascend 910B has. Only reported: host memory is what runs out here.
constexpr uint64_t kDeviceMemory = 64ULL << 30;

void setDeviceCount(int64_t count);
c10::DeviceIndex deviceCount() noexcept;

// The current device is one per thread, as with CUDA.
c10::DeviceIndex currentDevice() noexcept;
void setCurrentDevice(int64_t index);
void setCurrentDeviceUnchecked(c10::DeviceIndex index) noexcept;

// Returns the index, or the current device's if there is none; throws if there is no such device.
c10::DeviceIndex resolveIndex(c10::Device device);
c10::DeviceIndex checkIndex(int64_t index);

// Makes a device current until the end of the scope.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex index) : previous_(currentDevice()) {
    setCurrentDeviceUnchecked(index);
  }
  ~DeviceScope() {
    setCurrentDeviceUnchecked(previous_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex previous_;
};

// From now on every use of a device's memory throws, with this reason: for a process that was forked from one that had
// used a device.
void refuse(const std::string& reason);
void checkNotRefused();

// Throws npu_emulator.errors.NotEmulated.
[[noreturn]] void notEmulated(const std::string& message);

} // namespace npu_emulator
