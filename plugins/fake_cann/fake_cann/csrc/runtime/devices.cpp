// Devices and contexts. A context is a device: each has one.
#include "devices.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>

#include "../exported.h"
#include "../queue.h"
#include "memory.h"

using fake_cann::kNoContext;
using fake_cann::kOk;

namespace {

constexpr int kNone = -1;
constexpr const char* kVersion = "8.5.0";
thread_local int device_of_thread = kNone;

// One bit for each device that was current, and for each that has a stream.
std::atomic<uint64_t> were_current{0}, have_stream{0};
std::terminate_handler terminate_before = nullptr;

uint64_t bit_of(int device) { return uint64_t{1} << (device % 64); }

// torch_npu creates the streams of a device with the first work on it, but its backward pass switches to a stream on each
// device that was current. That ends the process, in the depth of C++; an NPU makes no difference.
[[noreturn]] void explain_and_terminate() {
  try {
    if (auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    const uint64_t idle = were_current & ~have_stream;
    if (idle && std::strstr(error.what(), "Uninitialized default NPU stream"))
      std::fprintf(stderr,
                   "fake CANN: npu:%d was made current, but nothing has run on it. The backward pass of torch_npu ends the "
                   "process then, on an NPU, too. Add torch.npu.current_stream() where the program makes it current.\n",
                   __builtin_ctzll(idle));
  } catch (...) {
  }
  if (terminate_before) terminate_before();
  std::abort();
}

// What FAKE_CANN_DEVICES has, less what ASCEND_RT_VISIBLE_DEVICES hides. A list ends at the first entry that is no device.
int count_devices() {
  int there = int(fake_cann::number_of_environment("FAKE_CANN_DEVICES", 8));
  const char* visible = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (!visible) return there;
  std::istringstream entries(visible);
  int count = 0;
  for (std::string entry; std::getline(entries, entry, ',');) {
    bool digits = !entry.empty() && std::all_of(entry.begin(), entry.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::atoi(entry.c_str()) >= there) break;
    ++count;
  }
  return count;
}

}  // namespace

int fake_cann::device_count() {
  static const int count = count_devices();
  return count;
}

int fake_cann::current_device() { return device_of_thread == kNone ? 0 : device_of_thread; }

void fake_cann::note_stream() { have_stream |= bit_of(current_device()); }

EXPORTED int aclInit(const char*) {
  if (!terminate_before) terminate_before = std::set_terminate(explain_and_terminate);
  return kOk;
}
EXPORTED int aclFinalize() { return kOk; }

EXPORTED int aclrtGetDeviceCount(uint32_t* count) {
  *count = uint32_t(fake_cann::device_count());
  return kOk;
}

EXPORTED int aclrtSetDevice(int32_t device) {
  int count = fake_cann::device_count();
  if (device < 0 || device >= count) {
    std::string text = "invalid device " + std::to_string(device) + ", there are " + std::to_string(count);
    fake_cann_set_message(text.c_str());
    return fake_cann::kInvalidDevice;
  }
  device_of_thread = device;
  were_current |= bit_of(device);
  return kOk;
}

EXPORTED int aclrtGetDevice(int32_t* device) {
  if (device_of_thread == kNone) return kNoContext;
  *device = device_of_thread;
  return kOk;
}

EXPORTED int aclrtResetDevice(int32_t) { return kOk; }

EXPORTED int aclrtGetCurrentContext(void** context) {
  if (device_of_thread == kNone) return kNoContext;
  *context = reinterpret_cast<void*>(uintptr_t(device_of_thread) + 1);
  return kOk;
}

EXPORTED int aclrtSetCurrentContext(void* context) {
  if (context) device_of_thread = int(reinterpret_cast<uintptr_t>(context)) - 1;
  return kOk;
}

EXPORTED int aclrtGetPrimaryCtxState(int32_t, uint32_t* flags, int32_t* active) {
  if (flags) *flags = 0;
  if (active) *active = device_of_thread != kNone;
  return kOk;
}

EXPORTED const char* aclrtGetSocName() {
  static const std::string name = std::getenv("FAKE_CANN_SOC") ? std::getenv("FAKE_CANN_SOC") : "Ascend910B3";
  return name.c_str();
}

EXPORTED int aclrtGetDeviceInfo(uint32_t, int attribute, int64_t* value) {
  constexpr int kAiCpus = 1, kCubes = 101, kCores = 102, kVectors = 201, kMemory = 301;
  switch (attribute) {
    case kAiCpus: *value = 6; break;
    case kCubes:
    case kCores: *value = 20; break;
    case kVectors: *value = 40; break;
    case kMemory: *value = int64_t(fake_cann::memory_of_a_device()); break;
    default: *value = 0;
  }
  return kOk;
}

EXPORTED int aclGetDeviceCapability(uint32_t, int what, int64_t* value) {
  *value = what == 0 ? 20 : what == 1 ? 40 : 0;
  return kOk;
}

// Work is done when it is submitted: there is nothing to wait for.
EXPORTED int aclrtSynchronizeDevice() { return fake_cann_check_queue(); }
EXPORTED int aclrtSynchronizeDeviceWithTimeout(int32_t) { return fake_cann_check_queue(); }

EXPORTED int aclrtDeviceCanAccessPeer(int32_t* can, int32_t, int32_t) {
  *can = 1;
  return kOk;
}
EXPORTED int aclrtDeviceEnablePeerAccess(int32_t, uint32_t) { return kOk; }

EXPORTED int aclrtDeviceGetBareTgid(int32_t* process) {
  *process = getpid();
  return kOk;
}

// Two numbers of 4 bytes and their reserve.
EXPORTED int aclrtGetDeviceUtilizationRate(int32_t, void* rate) {
  std::memset(rate, 0, 16);
  return kOk;
}

EXPORTED int aclrtSetDeviceSatMode(int) { return kOk; }
EXPORTED int aclrtSetOpExecuteTimeOut(uint32_t) { return kOk; }
EXPORTED int aclrtSetOpExecuteTimeOutV2(uint64_t wanted, uint64_t* actual) {
  if (actual) *actual = wanted;
  return kOk;
}
EXPORTED int aclrtSetOpWaitTimeout(uint32_t) { return kOk; }

// The caller has 512 bytes for the answer, which begins with the version.
EXPORTED int aclsysGetCANNVersion(int, char* version) {
  std::memset(version, 0, 512);
  std::strcpy(version, kVersion);
  return kOk;
}
EXPORTED int aclsysGetVersionStr(char*, char* version) {
  std::strcpy(version, kVersion);
  return kOk;
}

// Options of the compiler of operators and of the runtime: taken, without effect.
EXPORTED int aclSetCompileopt(int, const char*) { return kOk; }
EXPORTED size_t aclGetCompileoptSize(int) { return 256; }
EXPORTED int aclGetCompileopt(int, char* value, size_t) {
  value[0] = 0;
  return kOk;
}
EXPORTED int aclrtCtxSetSysParamOpt(int, int64_t) { return kOk; }
EXPORTED int aclrtSetSysParamOpt(int, int64_t) { return kOk; }
EXPORTED int aclrtGetSysParamOpt(int, int64_t* value) {
  *value = 0;
  return kOk;
}
