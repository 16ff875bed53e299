#include "live.h"

#include <mutex>
#include <unordered_map>

#include "../exported.h"

namespace {

std::mutex lock;

// Never destroyed: threads of torch_npu call until the process ends.
std::unordered_map<const void*, char>& objects() {
  static auto* all = new std::unordered_map<const void*, char>;
  return *all;
}

}  // namespace

bool fake_cann::are_calls_checked() {
  static const bool are = number_of_environment("FAKE_CANN_CHECK", 0) != 0;
  return are;
}

void fake_cann::note_created(const void* object, char letter) {
  if (!are_calls_checked()) return;
  std::lock_guard<std::mutex> guard(lock);
  objects()[object] = letter;
}

void fake_cann::note_destroyed(const void* object) {
  if (!are_calls_checked()) return;
  std::lock_guard<std::mutex> guard(lock);
  objects().erase(object);
}

char fake_cann::letter_of(const void* object) {
  std::lock_guard<std::mutex> guard(lock);
  auto found = objects().find(object);
  return found == objects().end() ? 0 : found->second;
}
