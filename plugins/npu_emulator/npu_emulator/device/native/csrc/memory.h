#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>

namespace npu_emulator {

struct MemoryUse {
  int64_t allocated; // bytes
  int64_t peak; // bytes
  int64_t allocations;
};

MemoryUse memoryUse(c10::DeviceIndex index);
void resetPeakMemory(c10::DeviceIndex index);

// Allocates host memory and counts it as the current device's.
c10::Allocator* deviceAllocator();

// Allocates host memory that isPinned() knows.
c10::Allocator* pinnedAllocator();
bool isPinned(const void* pointer);

// Presents the memory of a CPU storage, which is kept alive, as memory of a device.
c10::DataPtr adoptMemory(const c10::Storage& storage, c10::DeviceIndex index);

} // namespace npu_emulator
