// The size of a device's memory.
#pragma once

#include <cstddef>

namespace fake_cann {

// Bytes that each device has: FAKE_CANN_MEMORY_MIB.
size_t memory_of_a_device();

}  // namespace fake_cann
