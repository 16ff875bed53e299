#include "guard.h"

#include "device.h"
#include "generator.h"
#include "memory.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>

namespace npu_emulator {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using c10::StreamId;

// Stream 0 is the default stream.
thread_local std::array<StreamId, kMaxDevices> current_streams{};
std::atomic<StreamId> next_stream{1};

using Clock = std::chrono::steady_clock;

// Everything is computed when it is called. Streams have identities and events have times; there is never anything to
// wait for.
class NpuGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override {
    return kNpu;
  }

  Device exchangeDevice(Device device) const override {
    const Device previous = getDevice();
    setDevice(device);
    return previous;
  }

  Device getDevice() const override {
    return Device(kNpu, currentDevice());
  }

  void setDevice(Device device) const override {
    setCurrentDevice(resolveIndex(device));
  }

  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) {
      setCurrentDeviceUnchecked(device.index());
    }
  }

  DeviceIndex deviceCount() const noexcept override {
    return npu_emulator::deviceCount();
  }

  Stream getStream(Device device) const override {
    const auto index = resolveIndex(device);
    return makeStream(index, current_streams[index]);
  }

  Stream getDefaultStream(Device device) const override {
    return makeStream(resolveIndex(device), 0);
  }

  Stream getStreamFromGlobalPool(Device device, bool) const override {
    return makeStream(resolveIndex(device), next_stream++);
  }

  Stream getNewStream(Device device, int) const override {
    return makeStream(resolveIndex(device), next_stream++);
  }

  Stream exchangeStream(Stream stream) const override {
    const Stream previous = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return previous;
  }

  bool queryStream(const Stream&) const override {
    return true;
  }

  void synchronizeStream(const Stream&) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}

  void record(void** event, const Stream&, const DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) {
      *event = new Clock::time_point();
    }
    *static_cast<Clock::time_point*>(*event) = Clock::now();
  }

  void block(void*, const Stream&) const override {}

  bool queryEvent(void*) const override {
    return true;
  }

  void synchronizeEvent(void*) const override {}

  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }

  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    const auto passed = *static_cast<Clock::time_point*>(end) - *static_cast<Clock::time_point*>(start);
    return std::chrono::duration<double, std::milli>(passed).count();
  }

 private:
  static Stream makeStream(DeviceIndex index, StreamId id) {
    return Stream(Stream::UNSAFE, Device(kNpu, index), id);
  }
};

class NpuHooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override {
    return true;
  }

  bool isAvailable() const override {
    return npu_emulator::deviceCount() > 0;
  }

  bool hasPrimaryContext(DeviceIndex) const override {
    return true;
  }

  void init() const override {}

  DeviceIndex deviceCount() const override {
    return npu_emulator::deviceCount();
  }

  DeviceIndex getCurrentDevice() const override {
    return currentDevice();
  }

  void setCurrentDevice(DeviceIndex index) const override {
    npu_emulator::setCurrentDevice(index);
  }

  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    const auto previous = currentDevice();
    npu_emulator::setCurrentDevice(index);
    return previous;
  }

  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    return defaultGenerator(index < 0 ? currentDevice() : checkIndex(index));
  }

  at::Generator getNewGenerator(DeviceIndex index) const override {
    return newGenerator(index < 0 ? currentDevice() : checkIndex(index));
  }

  bool isPinnedPtr(const void* data) const override {
    return isPinned(data);
  }

  c10::Allocator* getPinnedMemoryAllocator() const override {
    return pinnedAllocator();
  }

  Device getDeviceFromPtr(void*) const override {
    notEmulated(
        "npu_emulator: which device a pointer belongs to is not known, as all memory is the host's; name the device");
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const auto device = storage.device();
    const DeviceScope scope(device.index());
    at::native::resize_bytes_cpu(storage.unsafeGetStorageImpl(), bytes);
    if (bytes == 0) { // it leaves a pointer of the CPU, whose device is that of the storage
      storage.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, device));
    }
  }
};

} // namespace

void registerHooks() {
  static NpuHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, NpuGuard)

} // namespace npu_emulator
