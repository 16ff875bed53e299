// The older interface to operators (aclop*): what describes a call is kept, every execution is refused by its name.
#include <map>
#include <string>
#include <vector>

#include "../exported.h"

using fake_cann::kOk;

namespace {

struct Description {
  int type;
  int format;
  std::vector<int64_t> sizes;
  std::string name;
};
struct Buffer {
  void* data;
  size_t size;
};
struct Attributes {};

int refuse_operator(const char* type) { return fake_cann::refuse(std::string("operator ") + type + " (aclop)"); }

}  // namespace

EXPORTED void* aclCreateTensorDesc(int type, int count, const int64_t* sizes, int format) {
  auto* made = new Description{type, format, {}, {}};
  if (count > 0) made->sizes.assign(sizes, sizes + count);
  return made;
}
EXPORTED void aclDestroyTensorDesc(const void* it) { delete static_cast<const Description*>(it); }
EXPORTED int aclSetTensorFormat(void* it, int format) {
  static_cast<Description*>(it)->format = format;
  return kOk;
}
EXPORTED int aclSetTensorShape(void* it, int count, const int64_t* sizes) {
  static_cast<Description*>(it)->sizes.assign(sizes, sizes + count);
  return kOk;
}
EXPORTED int aclSetTensorPlaceMent(void*, int) { return kOk; }
EXPORTED int aclSetTensorConst(void*, void*, size_t) { return kOk; }
EXPORTED void aclSetTensorDescName(void* it, const char* name) { static_cast<Description*>(it)->name = name; }
EXPORTED int aclGetTensorDescType(const void* it) { return static_cast<const Description*>(it)->type; }
EXPORTED int aclGetTensorDescFormat(const void* it) { return static_cast<const Description*>(it)->format; }
EXPORTED size_t aclGetTensorDescNumDims(const void* it) { return static_cast<const Description*>(it)->sizes.size(); }
EXPORTED int aclGetTensorDescDimV2(const void* it, size_t index, int64_t* size) {
  *size = static_cast<const Description*>(it)->sizes.at(index);
  return kOk;
}
EXPORTED void* aclCreateDataBuffer(void* data, size_t size) { return new Buffer{data, size}; }
EXPORTED int aclDestroyDataBuffer(const void* it) {
  delete static_cast<const Buffer*>(it);
  return kOk;
}
EXPORTED void* aclopCreateAttr() { return new Attributes; }
EXPORTED void aclopDestroyAttr(const void* it) { delete static_cast<const Attributes*>(it); }
EXPORTED int aclopSetAttrBool(void*, const char*, uint8_t) { return kOk; }
EXPORTED int aclopSetAttrInt(void*, const char*, int64_t) { return kOk; }
EXPORTED int aclopSetAttrFloat(void*, const char*, float) { return kOk; }
EXPORTED int aclopSetAttrString(void*, const char*, const char*) { return kOk; }
EXPORTED int aclopSetAttrDataType(void*, const char*, int) { return kOk; }
EXPORTED int aclopSetAttrListBool(void*, const char*, int, const uint8_t*) { return kOk; }
EXPORTED int aclopSetAttrListInt(void*, const char*, int, const int64_t*) { return kOk; }
EXPORTED int aclopSetAttrListFloat(void*, const char*, int, const float*) { return kOk; }
EXPORTED int aclopSetAttrListListInt(void*, const char*, int, const int*, const int64_t* const*) { return kOk; }
EXPORTED int aclopCompileAndExecute(const char* type, ...) { return refuse_operator(type); }
EXPORTED int aclopCompileAndExecuteV2(const char* type, ...) { return refuse_operator(type); }
EXPORTED int aclopSetModelDir(const char*) { return kOk; }
