// Streams, events and callbacks of the host. Work runs in the thread that submits it, so a stream is in order by nature.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "../exported.h"
#include "../queue.h"
#include "devices.h"

using fake_cann::kOk;

namespace {

struct Stream {
  int number;
};

struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  bool recorded = false;
  std::chrono::steady_clock::time_point at{};
};

std::atomic<int> next_stream{1};

Event* event_of(void* handle) { return static_cast<Event*>(handle); }

// With torch_npu's queue another thread may still have to record the event. After a failure it drops what is queued,
// records too: whoever waits without end waits for ever.
int wait_for(void* handle, std::chrono::milliseconds most) {
  auto* event = event_of(handle);
  std::unique_lock<std::mutex> lock(event->mutex);
  event->changed.wait_for(lock, most, [event] { return event->recorded; });
  return kOk;
}

}  // namespace

EXPORTED int aclrtCreateStream(void** stream) {
  fake_cann::note_stream();
  *stream = new Stream{next_stream++};
  return kOk;
}
EXPORTED int aclrtCreateStreamWithConfig(void** stream, uint32_t, uint32_t) { return aclrtCreateStream(stream); }
EXPORTED int aclrtDestroyStream(void* stream) {
  delete static_cast<Stream*>(stream);
  return kOk;
}
EXPORTED int aclrtDestroyStreamForce(void* stream) { return aclrtDestroyStream(stream); }
EXPORTED int aclrtSetStreamFailureMode(void*, uint64_t) { return kOk; }
// torch_npu sets an attribute of the stream before it records a graph. When it has tried to, it reads in every copy of pinned
// memory whether one is recorded.
EXPORTED int aclrtSetStreamAttribute(void*, int, void*) { return kOk; }
EXPORTED int aclmdlRICaptureBegin(void*, int) {
  return fake_cann::refuse("graphs of an NPU (torch.npu.graph, aclmdlRICaptureBegin)");
}
EXPORTED int aclmdlRICaptureGetInfo(void*, int* status, void** graph) {
  constexpr int kNone = 0;
  *status = kNone;
  *graph = nullptr;
  return kOk;
}
EXPORTED int aclrtSetStreamOverflowSwitch(void*, uint32_t) { return kOk; }
EXPORTED int aclrtGetStreamOverflowSwitch(void*, uint32_t* on) {
  *on = 0;
  return kOk;
}
EXPORTED int aclrtSynchronizeStream(void*) { return fake_cann_check_queue(); }
EXPORTED int aclrtSynchronizeStreamWithTimeout(void*, int32_t) { return fake_cann_check_queue(); }
EXPORTED int aclrtStreamQuery(void*, int* status) {
  *status = 0;
  return kOk;
}
EXPORTED int aclrtStreamGetId(void* stream, int32_t* number) {
  *number = stream ? static_cast<Stream*>(stream)->number : 0;
  return kOk;
}

// Threads that wait for callbacks find none: a callback runs at once.
EXPORTED int aclrtProcessReport(int32_t) {
  usleep(1000);
  return kOk;
}
EXPORTED int aclrtSubscribeReport(uint64_t, void*) { return kOk; }
EXPORTED int aclrtUnSubscribeReport(uint64_t, void*) { return kOk; }
EXPORTED int aclrtLaunchCallback(void (*function)(void*), void* data, int, void*) {
  function(data);
  return kOk;
}
EXPORTED int aclrtLaunchHostFunc(void*, void (*function)(void*), void* data) {
  function(data);
  return kOk;
}

EXPORTED int aclrtCreateEventWithFlag(void** event, uint32_t) {
  *event = new Event;
  return kOk;
}
EXPORTED int aclrtCreateEventExWithFlag(void** event, uint32_t flag) { return aclrtCreateEventWithFlag(event, flag); }
EXPORTED int aclrtDestroyEvent(void* event) {
  delete event_of(event);
  return kOk;
}
EXPORTED int aclrtRecordEvent(void* handle, void*) {
  auto* event = event_of(handle);
  std::lock_guard<std::mutex> lock(event->mutex);
  event->recorded = true;
  event->at = std::chrono::steady_clock::now();
  event->changed.notify_all();
  return kOk;
}
EXPORTED int aclrtResetEvent(void* handle, void*) {
  auto* event = event_of(handle);
  std::lock_guard<std::mutex> lock(event->mutex);
  event->recorded = false;
  return kOk;
}
EXPORTED int aclrtStreamWaitEvent(void*, void* event) { return wait_for(event, std::chrono::seconds(10)); }
EXPORTED int aclrtSynchronizeEvent(void* event) { return wait_for(event, std::chrono::milliseconds(50)); }
EXPORTED int aclrtQueryEventStatus(void* handle, int* status) {
  *status = event_of(handle)->recorded ? 1 : 0;
  return kOk;
}
EXPORTED int aclrtQueryEventWaitStatus(void* handle, int* status) {
  *status = event_of(handle)->recorded ? 0 : 1;
  return kOk;
}
EXPORTED int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
  *milliseconds = std::chrono::duration<float, std::milli>(event_of(end)->at - event_of(start)->at).count();
  return kOk;
}
EXPORTED int aclrtEventGetTimestamp(void* event, uint64_t* stamp) {
  auto since = event_of(event)->at.time_since_epoch();
  *stamp = uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
  return kOk;
}
