// What every library of the fake CANN shares: how a function is exported, and the codes that it returns.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace fake_cann {

enum Status : int {
  kOk = 0,
  kInvalidArgument = 100000,
  kInvalidDevice = 107001,
  kNoContext = 107002,
  kOutOfMemory = 207001,
  kNotSupported = 500002,
  kOperatorFailed = 561103,
};

// Returns a whole number of the environment, or `otherwise` where it is not set.
inline long number_of_environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atol(text) : otherwise;
}

}  // namespace fake_cann

// The text that aclGetRecentErrMsg returns to this thread: torch_npu puts it into the exception that it raises.
EXPORTED void fake_cann_set_message(const char* text);
// Sets the text that refuses something by its name: it has the line of the program that calls it, and a remedy.
EXPORTED void fake_cann_refuse(const char* missing);

namespace fake_cann {

// Refuses something by its name, with the line of the program.
inline int refuse(const std::string& what) {
  fake_cann_refuse(what.c_str());
  return kNotSupported;
}

}  // namespace fake_cann
