#include "../queue.h"

#include <sys/prctl.h>

#include <atomic>
#include <cstring>
#include <string>

#include "../exported.h"

namespace {

std::atomic<const std::string*> failure{nullptr};

bool is_thread_of_queue() {
  char name[16];
  return prctl(PR_GET_NAME, name) == 0 && std::strcmp(name, "acl_thread") == 0;
}

}  // namespace

EXPORTED void fake_cann_note_failure(const char* text) {
  if (!is_thread_of_queue()) return;
  const std::string* none = nullptr;
  const auto* first = new std::string(
      std::string(text) + "; it failed in torch_npu's queue, which computes nothing after it. TASK_QUEUE_ENABLE=0 raises at its line");
  if (!failure.compare_exchange_strong(none, first)) delete first;
}

EXPORTED int fake_cann_check_queue() {
  const auto* found = failure.load();
  if (!found || is_thread_of_queue()) return fake_cann::kOk;
  fake_cann_set_message(found->c_str());
  return fake_cann::kOperatorFailed;
}
