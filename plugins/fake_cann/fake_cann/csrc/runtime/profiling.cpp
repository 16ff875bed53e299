// Dumps and profiling: taken, nothing is recorded.
#include <chrono>
#include <functional>
#include <string>

#include "../exported.h"

using fake_cann::kOk;

EXPORTED int aclmdlInitDump() { return kOk; }
EXPORTED int aclmdlSetDump(const char*) { return kOk; }
EXPORTED int aclmdlFinalizeDump() { return kOk; }
EXPORTED int aclprofInit(const char*, size_t) { return kOk; }
EXPORTED int aclprofStart(const void*) { return kOk; }
EXPORTED int aclprofStop(const void*) { return kOk; }
EXPORTED int aclprofFinalize() { return kOk; }
EXPORTED void* aclprofCreateConfig(uint32_t*, uint32_t, int, const void*, uint64_t) { return std::malloc(1); }
EXPORTED int aclprofDestroyConfig(const void* config) {
  std::free(const_cast<void*>(config));
  return kOk;
}
EXPORTED void* aclprofCreateStepInfo() { return std::malloc(1); }
EXPORTED void aclprofDestroyStepInfo(void* info) { std::free(info); }
EXPORTED int aclprofGetStepTimestamp(void*, int, void*) { return kOk; }
EXPORTED int aclprofSetConfig(int, const char*, size_t) { return kOk; }
EXPORTED int aclprofGetSupportedFeatures(size_t* size, void** data) {
  *size = 0;
  *data = nullptr;
  return kOk;
}
EXPORTED int MsprofRegisterCallback(uint32_t, void*) { return kOk; }
EXPORTED int MsprofReportApi(uint32_t, const void*) { return kOk; }
EXPORTED int MsprofReportCompactInfo(uint32_t, const void*, uint32_t) { return kOk; }
EXPORTED int MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) { return kOk; }
EXPORTED uint64_t MsprofGetHashId(const char* text, size_t length) {
  return std::hash<std::string>()(std::string(text, length));
}
EXPORTED uint64_t MsprofSysCycleTime() {
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
}
