#include "memory.h"

#include "device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace npu_emulator {
namespace {

class Counters {
 public:
  void add(int64_t bytes) {
    const int64_t now = allocated_.fetch_add(bytes) + bytes;
    int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    ++allocations_;
  }

  void remove(int64_t bytes) {
    allocated_ -= bytes;
  }

  void resetPeak() {
    peak_ = allocated_.load();
  }

  MemoryUse read() const {
    return {allocated_, peak_, allocations_};
  }

 private:
  std::atomic<int64_t> allocated_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> allocations_{0};
};

std::array<Counters, kMaxDevices> counters;

// What a DataPtr of a device owns: memory of its own, or a CPU storage whose memory it presents.
struct Block {
  void* data;
  size_t bytes;
  c10::DeviceIndex index;
  c10::Storage adopted;
};

void deleteBlock(void* context) {
  auto* block = static_cast<Block*>(context);
  counters[block->index].remove(static_cast<int64_t>(block->bytes));
  if (!block->adopted) {
    c10::free_cpu(block->data);
  }
  delete block;
}

c10::DataPtr makeDataPtr(void* data, size_t bytes, c10::DeviceIndex index, c10::Storage adopted) {
  auto* block = new Block{data, bytes, index, std::move(adopted)};
  counters[index].add(static_cast<int64_t>(bytes));
  return {data, block, &deleteBlock, c10::Device(kNpu, index)};
}

class HostMemoryAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    checkNotRefused();
    return makeDataPtr(c10::alloc_cpu(bytes), bytes, currentDevice(), c10::Storage());
  }

  // The context is a Block, not the memory itself, so there is no deleter for raw pointers.
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }

  bool initialized() override {
    return true;
  }

  // Nothing is cached: memory goes back to the host as soon as it is free.
  void emptyCache(c10::MempoolId_t) override {}

  // Nothing is asynchronous: no stream can still be using memory that is freed.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const MemoryUse use = memoryUse(checkIndex(index));
    c10::CachingDeviceAllocator::DeviceStats stats;
    constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    stats.allocated_bytes[all].current = use.allocated;
    stats.allocated_bytes[all].peak = use.peak;
    stats.reserved_bytes[all] = stats.allocated_bytes[all];
    stats.allocation[all].allocated = use.allocations;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex) override {
    notEmulated(
        "npu_emulator: accumulated memory statistics are not kept, so they cannot be reset; "
        "reset_peak_memory_stats() resets the peak");
  }

  void resetPeakStats(c10::DeviceIndex index) override {
    resetPeakMemory(checkIndex(index));
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const auto allocated = static_cast<uint64_t>(memoryUse(checkIndex(index)).allocated);
    return {allocated < kDeviceMemory ? kDeviceMemory - allocated : 0, kDeviceMemory};
  }
};

// Host memory is never paged by a driver here; what remains of pinning is that is_pinned() tells the truth.
class PinnedMemory {
 public:
  void add(const void* data, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_[static_cast<const char*>(data)] = bytes;
  }

  void remove(const void* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_.erase(static_cast<const char*>(data));
  }

  bool contains(const void* pointer) {
    const auto* address = static_cast<const char*>(pointer);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) {
      return false;
    }
    const auto& [start, bytes] = *--after;
    return address < start + bytes;
  }

 private:
  std::mutex mutex_;
  std::map<const char*, size_t> blocks_;
};

// Never destroyed: tensors may outlive static objects at exit.
PinnedMemory& pinnedMemory() {
  static auto* memory = new PinnedMemory();
  return *memory;
}

void deletePinned(void* data) {
  pinnedMemory().remove(data);
  c10::free_cpu(data);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    if (data != nullptr) {
      pinnedMemory().add(data, bytes);
    }
    return {data, data, &deletePinned, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &deletePinned;
  }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }
};

HostMemoryAllocator host_memory_allocator;
PinnedAllocator pinned_allocator;

} // namespace

MemoryUse memoryUse(c10::DeviceIndex index) {
  return counters[index].read();
}

void resetPeakMemory(c10::DeviceIndex index) {
  counters[index].resetPeak();
}

c10::Allocator* deviceAllocator() {
  return &host_memory_allocator;
}

c10::Allocator* pinnedAllocator() {
  return &pinned_allocator;
}

bool isPinned(const void* pointer) {
  return pinnedMemory().contains(pointer);
}

c10::DataPtr adoptMemory(const c10::Storage& storage, c10::DeviceIndex index) {
  checkNotRefused();
  return makeDataPtr(storage.mutable_data(), storage.nbytes(), index, storage);
}

REGISTER_ALLOCATOR(kNpu, &host_memory_allocator)

} // namespace npu_emulator
