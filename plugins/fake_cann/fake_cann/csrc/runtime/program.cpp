// Where the program is: the line of Python that called an operator. The library is not linked with Python.
#include "program.h"

#include <dlfcn.h>

#include <cstring>

#include "../exported.h"

namespace {

template <typename F>
F* of_python(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

// The code of torch and torch_npu, and modules inside the interpreter ("<frozen ...>").
bool is_of_library(const char* file) {
  return file[0] == '<' || std::strstr(file, "-packages/torch/") || std::strstr(file, "-packages/torch_npu/");
}

}  // namespace

std::string fake_cann::place_of_program() {
  using Object = void;
  static auto* is_initialized = of_python<int()>("Py_IsInitialized");
  static auto* thread_state = of_python<void*()>("PyGILState_GetThisThreadState");
  static auto* ensure = of_python<int()>("PyGILState_Ensure");
  static auto* release = of_python<void(int)>("PyGILState_Release");
  static auto* frame_now = of_python<Object*()>("PyEval_GetFrame");
  static auto* back_of = of_python<Object*(Object*)>("PyFrame_GetBack");
  static auto* code_of = of_python<Object*(Object*)>("PyFrame_GetCode");
  static auto* line_of = of_python<int(Object*)>("PyFrame_GetLineNumber");
  static auto* attribute = of_python<Object*(Object*, const char*)>("PyObject_GetAttrString");
  static auto* text_of = of_python<const char*(Object*)>("PyUnicode_AsUTF8");
  static auto* retain = of_python<void(Object*)>("Py_IncRef");
  static auto* drop = of_python<void(Object*)>("Py_DecRef");
  for (const void* found : {(void*)is_initialized, (void*)thread_state, (void*)ensure, (void*)release, (void*)frame_now,
                            (void*)back_of, (void*)code_of, (void*)line_of, (void*)attribute, (void*)text_of,
                            (void*)retain, (void*)drop})
    if (!found) return {};
  // A thread of torch_npu or autograd has no line. One that does not know Python must not wait for its lock.
  if (!is_initialized() || !thread_state()) return {};
  const int state = ensure();
  std::string place;
  Object* frame = frame_now();
  if (frame) retain(frame);
  while (frame && place.empty()) {
    if (Object* code = code_of(frame)) {
      if (Object* name = attribute(code, "co_filename")) {
        const char* file = text_of(name);
        if (file && !is_of_library(file)) place = std::string(file) + ":" + std::to_string(line_of(frame));
        drop(name);
      }
      drop(code);
    }
    Object* caller = back_of(frame);
    drop(frame);
    frame = caller;
  }
  if (frame) drop(frame);
  release(state);
  return place;
}

EXPORTED void fake_cann_refuse(const char* missing) {
  const auto place = fake_cann::place_of_program();
  const auto text = "NotEmulated: the fake CANN has no " + std::string(missing) +
                    (place.empty() ? "" : ", which is called at " + place) +
                    ". Compute this part on the CPU (tensor.cpu()); `python -m fake_cann operators` lists those that are computed";
  fake_cann_set_message(text.c_str());
}
