// Kernels that come as machine code of an NPU: a CPU cannot run them.
#include "../exported.h"

using fake_cann::refuse;

EXPORTED int aclrtBinaryLoadFromData(const void*, size_t, const void*, void**) {
  return refuse("machine code of an NPU (aclrtBinaryLoadFromData)");
}
EXPORTED int aclrtBinaryGetFunction(void*, const char*, void**) {
  return refuse("machine code of an NPU (aclrtBinaryGetFunction)");
}
EXPORTED int aclrtGetFunctionAddr(void*, void**, void**) {
  return refuse("machine code of an NPU (aclrtGetFunctionAddr)");
}
EXPORTED int rtDevBinaryRegister(const void*, void**) { return refuse("machine code of an NPU (rtDevBinaryRegister)"); }
EXPORTED int rtFunctionRegister(void*, const void*, const char*, const void*, uint32_t) {
  return refuse("machine code of an NPU (rtFunctionRegister)");
}
EXPORTED int rtKernelLaunch(const void*, uint32_t, void*, uint32_t, void*, void*) {
  return refuse("machine code of an NPU (rtKernelLaunch)");
}
EXPORTED int rtGetC2cCtrlAddr(uint64_t*, uint32_t*) { return refuse("control of collectives (rtGetC2cCtrlAddr)"); }
