// The older interface to operators (aclop*): what describes a call is kept here, and libopapi carries it out.
#include <dlfcn.h>

#include <atomic>
#include <string>

#include "../exported.h"
#include "../old_calls.h"
#include "../queue.h"

using namespace fake_cann;

namespace {

std::atomic<OldFunction> carry_out{nullptr};

Attributes* attributes(void* it) { return static_cast<Attributes*>(it); }

int execute(const char* type, int input_count, Description* const* inputs, Buffer* const* input_data, int output_count,
            Description* const* outputs, Buffer* const* output_data, const void* attribute) {
  // torch_npu loads the library with its first call of the newer interface, which may not have come yet.
  if (!carry_out) dlopen("libopapi.so", RTLD_NOW | RTLD_GLOBAL);
  static const Attributes none;  // torch_npu passes no object for an operator without attributes
  OldCall call{type, {inputs, inputs + input_count}, {outputs, outputs + output_count},
               {input_data, input_data + input_count}, {output_data, output_data + output_count},
               attribute ? static_cast<const Attributes*>(attribute) : &none};
  const OldFunction function = carry_out;
  try {
    if (function && function(call)) return kOk;
  } catch (const std::exception& error) {
    const std::string text = std::string(type) + ": " + error.what();
    fake_cann_set_message(text.c_str());
    fake_cann_note_failure(text.c_str());
    return kOperatorFailed;
  }
  const std::string missing = std::string("operator ") + type + " (aclop)";
  fake_cann_note_failure(("NotEmulated: the fake CANN has no " + missing).c_str());
  return refuse(missing);
}

}  // namespace

EXPORTED void fake_cann_set_old_operators(OldFunction function) { carry_out = function; }
EXPORTED void* aclCreateTensorDesc(int type, int count, const int64_t* sizes, int format) {
  auto* made = new Description{type, format, {}, {}, {}};
  if (count > 0) made->sizes.assign(sizes, sizes + count);
  return made;
}
EXPORTED void aclDestroyTensorDesc(const void* it) { delete static_cast<const Description*>(it); }
EXPORTED int aclSetTensorFormat(void* it, int format) {
  static_cast<Description*>(it)->format = format;
  return kOk;
}
EXPORTED int aclSetTensorShape(void*, int, const int64_t*) { return kOk; }  // that in memory, see Description
EXPORTED int aclSetTensorPlaceMent(void*, int) { return kOk; }
EXPORTED int aclSetTensorConst(void* it, void* data, size_t size) {
  static_cast<Description*>(it)->constant.assign(static_cast<char*>(data), static_cast<char*>(data) + size);
  return kOk;
}
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
EXPORTED int aclopSetAttrBool(void* it, const char* name, uint8_t value) {
  attributes(it)->integers[name] = value;
  return kOk;
}
EXPORTED int aclopSetAttrInt(void* it, const char* name, int64_t value) {
  attributes(it)->integers[name] = value;
  return kOk;
}
EXPORTED int aclopSetAttrFloat(void* it, const char* name, float value) {
  attributes(it)->reals[name] = value;
  return kOk;
}
EXPORTED int aclopSetAttrString(void* it, const char* name, const char* value) {
  attributes(it)->texts[name] = value;
  return kOk;
}
EXPORTED int aclopSetAttrDataType(void* it, const char* name, int value) {
  attributes(it)->integers[name] = value;
  return kOk;
}
EXPORTED int aclopSetAttrListInt(void* it, const char* name, int count, const int64_t* values) {
  attributes(it)->lists[name].assign(values, values + count);
  return kOk;
}
EXPORTED int aclopSetAttrListBool(void*, const char*, int, const uint8_t*) { return kOk; }
EXPORTED int aclopSetAttrListFloat(void* it, const char* name, int count, const float* values) {
  attributes(it)->real_lists[name].assign(values, values + count);
  return kOk;
}
EXPORTED int aclopSetAttrListListInt(void*, const char*, int, const int*, const int64_t* const*) { return kOk; }
EXPORTED int aclopCompileAndExecute(const char* type, int input_count, Description* const* inputs,
                                    Buffer* const* input_data, int output_count, Description* const* outputs,
                                    Buffer* const* output_data, const void* attribute, int, int, const char*, void*) {
  return execute(type, input_count, inputs, input_data, output_count, outputs, output_data, attribute);
}
EXPORTED int aclopCompileAndExecuteV2(const char* type, int input_count, Description* const* inputs,
                                      Buffer* const* input_data, int output_count, Description* const* outputs,
                                      Buffer* const* output_data, const void* attribute, int, int, const char*,
                                      void*) {
  return execute(type, input_count, inputs, input_data, output_count, outputs, output_data, attribute);
}
EXPORTED int aclopSetModelDir(const char*) { return kOk; }
