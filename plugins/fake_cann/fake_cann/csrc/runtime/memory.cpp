// Memory of devices and of the host: both are memory of this process; what a device has is counted and limited.
#include "memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "../exported.h"
#include "devices.h"

using fake_cann::kOk;

namespace {

constexpr size_t kAlignment = 512;
// The adapter may read a few bytes behind a block.
constexpr size_t kReserve = 32;
constexpr int kHost = -1;

struct Block {
  size_t bytes;
  int device;
};

std::mutex mutex;
std::unordered_map<void*, Block> blocks;
std::map<int, size_t> used;

int allocate(void** address, size_t size, int device) {
  size_t bytes = (size + kReserve + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard<std::mutex> lock(mutex);
  if (device != kHost && used[device] + bytes > fake_cann::memory_of_a_device()) {
    std::string text = "out of memory: device " + std::to_string(device) + " has " +
                       std::to_string(fake_cann::memory_of_a_device() >> 20) + " MiB (FAKE_CANN_MEMORY_MIB)";
    fake_cann_set_message(text.c_str());
    return fake_cann::kOutOfMemory;
  }
  if (posix_memalign(address, kAlignment, bytes) != 0) return fake_cann::kOutOfMemory;
  if (device != kHost) used[device] += bytes;
  blocks[*address] = {bytes, device};
  return kOk;
}

int release(void* address) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = blocks.find(address);
  if (found == blocks.end()) {
    fake_cann_set_message("released memory that was not allocated");
    return fake_cann::kInvalidArgument;
  }
  if (found->second.device != kHost) used[found->second.device] -= found->second.bytes;
  blocks.erase(found);
  std::free(address);
  return kOk;
}

int copy(void* to, size_t room, const void* from, size_t count) {
  if (count > room) {
    fake_cann_set_message("a copy is larger than the memory that it goes to");
    return fake_cann::kInvalidArgument;
  }
  std::memmove(to, from, count);
  return kOk;
}

}  // namespace

size_t fake_cann::memory_of_a_device() {
  static const size_t bytes = size_t(number_of_environment("FAKE_CANN_MEMORY_MIB", 65536)) << 20;
  return bytes;
}

EXPORTED int aclrtMalloc(void** address, size_t size, int) { return allocate(address, size, fake_cann::current_device()); }
EXPORTED int aclrtMallocAlign32(void** address, size_t size, int) {
  return allocate(address, size, fake_cann::current_device());
}
EXPORTED int aclrtFree(void* address) { return release(address); }
EXPORTED int aclrtMallocHost(void** address, size_t size) { return allocate(address, size, kHost); }
EXPORTED int aclrtMallocHostWithCfg(void** address, uint64_t size, void*) { return allocate(address, size, kHost); }
EXPORTED int aclrtFreeHost(void* address) { return release(address); }

EXPORTED int aclrtGetMemInfo(int, size_t* free_bytes, size_t* total) {
  std::lock_guard<std::mutex> lock(mutex);
  *total = fake_cann::memory_of_a_device();
  *free_bytes = *total - used[fake_cann::current_device()];
  return kOk;
}

EXPORTED int aclrtMemcpy(void* to, size_t room, const void* from, size_t count, int) {
  return copy(to, room, from, count);
}
EXPORTED int aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t count, int, void*) {
  return copy(to, room, from, count);
}
EXPORTED int aclrtMemcpyAsyncWithCondition(void* to, size_t room, const void* from, size_t count, int, void*) {
  return copy(to, room, from, count);
}
EXPORTED int aclrtMemset(void* to, size_t, int32_t value, size_t count) {
  std::memset(to, value, count);
  return kOk;
}
EXPORTED int aclrtMemsetAsync(void* to, size_t, int32_t value, size_t count, void*) {
  std::memset(to, value, count);
  return kOk;
}

// Virtual memory (PYTORCH_NPU_ALLOC_CONF=expandable_segments:True): a reservation is memory, to map it costs nothing.
EXPORTED int aclrtReserveMemAddress(void** address, size_t size, size_t, void*, uint64_t) {
  return allocate(address, size, kHost);
}
EXPORTED int aclrtReleaseMemAddress(void* address) { return release(address); }
EXPORTED int aclrtMallocPhysical(void** handle, size_t, const void*, uint64_t) {
  *handle = std::malloc(1);
  return kOk;
}
EXPORTED int aclrtFreePhysical(void* handle) {
  std::free(handle);
  return kOk;
}
EXPORTED int aclrtMapMem(void*, size_t, size_t, void*, uint64_t) { return kOk; }
EXPORTED int aclrtUnmapMem(void*) { return kOk; }

EXPORTED int aclrtMemExportToShareableHandle(void*, int, uint64_t, uint64_t*) {
  return fake_cann::refuse("memory that processes share (aclrtMemExportToShareableHandle)");
}
EXPORTED int aclrtMemImportFromShareableHandle(uint64_t, int32_t, void**) {
  return fake_cann::refuse("memory that processes share (aclrtMemImportFromShareableHandle)");
}
EXPORTED int aclrtMemSetPidToShareableHandle(uint64_t, int32_t*, size_t) {
  return fake_cann::refuse("memory that processes share (aclrtMemSetPidToShareableHandle)");
}
