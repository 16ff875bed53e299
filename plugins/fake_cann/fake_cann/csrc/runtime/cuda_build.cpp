// Lets torch_npu be loaded in a CUDA build of torch. There c10's allocator configuration knows the options of CUDA's
// allocator by name, and torch_npu, which registers its own, ends the process over the first that is there already.
#include <dlfcn.h>

#include <string>
#include <unordered_set>

#include "../exported.h"

namespace {

// The options of CUDA's allocator (c10/cuda/CUDAAllocatorConfig.h) that torch_npu's allocator has as well.
constexpr const char* kOfBoth[] = {"pinned_reserve_segment_size_mb", "per_process_memory_fraction"};
// c10::CachingAllocator::AcceleratorAllocatorConfig::getMutableKeys()
constexpr const char* kKeys = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeysB5cxx11Ev";

}  // namespace

// Takes these options out of the list of known ones, where torch is loaded; torch_npu puts them in again.
EXPORTED void fake_cann_before_torch_npu() {
  void* c10 = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!c10) return;
  if (auto* keys = reinterpret_cast<std::unordered_set<std::string>& (*)()>(dlsym(c10, kKeys)))
    for (const char* key : kOfBoth) keys().erase(key);
  dlclose(c10);
}

// This library is loaded as one that torch_npu needs, just before torch_npu: torch is there then.
__attribute__((constructor)) static void loaded() { fake_cann_before_torch_npu(); }
