// The device of a thread.
#pragma once

namespace fake_cann {

// How many devices this process sees.
int device_count();

// The device of this thread; 0 before it has one.
int current_device();

}  // namespace fake_cann
