// Memory of devices and of the host: both are memory of this process; what a device has is counted and limited.
#include "memory.h"

#include <sys/mman.h>

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
std::unordered_map<void*, size_t> reserved, mapped;

int unknown(const char* memory) {
  fake_cann_set_message(memory);
  return fake_cann::kInvalidArgument;
}

bool has_room(int device, size_t bytes) {
  if (used[device] + bytes <= fake_cann::memory_of_a_device()) return true;
  std::string text = "out of memory: device " + std::to_string(device) + " has " +
                     std::to_string(fake_cann::memory_of_a_device() >> 20) + " MiB (FAKE_CANN_MEMORY_MIB)";
  fake_cann_set_message(text.c_str());
  return false;
}

int allocate(void** address, size_t size, int device) {
  size_t bytes = (size + kReserve + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard<std::mutex> lock(mutex);
  if (device != kHost && !has_room(device, bytes)) return fake_cann::kOutOfMemory;
  if (posix_memalign(address, kAlignment, bytes) != 0) return fake_cann::kOutOfMemory;
  if (device != kHost) used[device] += bytes;
  blocks[*address] = {bytes, device};
  return kOk;
}

int release(void* address) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = blocks.find(address);
  if (found == blocks.end()) return unknown("released memory that was not allocated");
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

// Memory of the host that a device uses: it has the same address there.
EXPORTED int aclrtHostRegisterV2(void* address, uint64_t size, uint32_t) {
  return address && size ? kOk : unknown("expected memory of the host to register");
}
EXPORTED int aclrtHostRegister(void* address, uint64_t size, int, void** on_device) {
  *on_device = address;
  return aclrtHostRegisterV2(address, size, 0);
}
EXPORTED int aclrtHostUnregister(void* address) {
  return address ? kOk : unknown("expected memory of the host that was registered");
}

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

// Virtual memory (PYTORCH_NPU_ALLOC_CONF=expandable_segments:True): torch_npu reserves more addresses than there is memory,
// and maps parts of it. A handle is only a size, which is counted; the memory comes from the mapping.
EXPORTED int aclrtReserveMemAddress(void** address, size_t size, size_t, void*, uint64_t) {
  void* made = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) {
    fake_cann_set_message("there are no addresses left to reserve");
    return fake_cann::kOutOfMemory;
  }
  std::lock_guard<std::mutex> lock(mutex);
  reserved[made] = size;
  *address = made;
  return kOk;
}
EXPORTED int aclrtReleaseMemAddress(void* address) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = reserved.find(address);
  if (found == reserved.end()) return unknown("addresses that were not reserved");
  munmap(address, found->second);
  reserved.erase(found);
  return kOk;
}
EXPORTED int aclrtMallocPhysical(void** handle, size_t size, const void*, uint64_t) {
  std::lock_guard<std::mutex> lock(mutex);
  const int device = fake_cann::current_device();
  if (!has_room(device, size)) return fake_cann::kOutOfMemory;
  used[device] += size;
  *handle = new Block{size, device};
  return kOk;
}
EXPORTED int aclrtFreePhysical(void* handle) {
  std::lock_guard<std::mutex> lock(mutex);
  auto* block = static_cast<Block*>(handle);
  used[block->device] -= block->bytes;
  delete block;
  return kOk;
}
EXPORTED int aclrtMapMem(void* address, size_t size, size_t, void*, uint64_t) {
  if (mprotect(address, size, PROT_READ | PROT_WRITE) != 0) return unknown("addresses that were not reserved");
  std::lock_guard<std::mutex> lock(mutex);
  mapped[address] = size;
  return kOk;
}
EXPORTED int aclrtUnmapMem(void* address) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = mapped.find(address);
  if (found == mapped.end()) return unknown("addresses that are not mapped");
  mmap(address, found->second, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  mapped.erase(found);
  return kOk;
}

EXPORTED int aclrtMemExportToShareableHandle(void*, int, uint64_t, uint64_t*) {
  return fake_cann::refuse("memory that processes share (aclrtMemExportToShareableHandle)");
}
EXPORTED int aclrtMemImportFromShareableHandle(uint64_t, int32_t, void**) {
  return fake_cann::refuse("memory that processes share (aclrtMemImportFromShareableHandle)");
}
EXPORTED int aclrtMemSetPidToShareableHandle(uint64_t, int32_t*, size_t) {
  return fake_cann::refuse("memory that processes share (aclrtMemSetPidToShareableHandle)");
}
