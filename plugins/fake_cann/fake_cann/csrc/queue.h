// With torch_npu's queue (TASK_QUEUE_ENABLE) a thread of its own carries operators out. After one that fails it drops
// all others, and whoever reads their results gets memory that nobody has written.
#pragma once

// Notes the failure of an operator if this is the thread of the queue.
extern "C" __attribute__((visibility("default"))) void fake_cann_note_failure(const char* text);

// Returns an error, and sets its text, if an operator has failed there; 0 if none has, and in the thread of the queue.
extern "C" __attribute__((visibility("default"))) int fake_cann_check_queue();
