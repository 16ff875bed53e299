// Messages of errors, and the log that torch_npu writes to CANN.
#include <cstdarg>
#include <cstdio>

#include "../exported.h"

namespace {

thread_local std::string message;
constexpr int kWarning = 2;

bool shows_log() {
  static const bool shown = fake_cann::number_of_environment("FAKE_CANN_LOG", 0) != 0;
  return shown;
}

}  // namespace

EXPORTED void fake_cann_set_message(const char* text) { message = text; }

EXPORTED const char* aclGetRecentErrMsg() { return message.c_str(); }

EXPORTED int aclrtGetLastError(int) { return fake_cann::kOk; }

EXPORTED int aclrtPeekAtLastError(int) { return fake_cann::kOk; }

EXPORTED void aclAppLog(int level, const char* function, const char*, uint32_t line, const char* format, ...) {
  if (!shows_log() || level < kWarning) return;
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "[fake CANN] %s:%u ", function, line);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
}
