// The device of a thread.
#pragma once

namespace fake_cann {

// How many devices this process sees.
int device_count();

// The device of this thread; 0 before it has one.
int current_device();

// Notes that torch_npu has created a stream on the device of this thread.
void note_stream();

}  // namespace fake_cann
