#pragma once

namespace npu_emulator {

// Lets torch ask the backend for devices, generators and pinned memory. Once per process.
void registerHooks();

} // namespace npu_emulator
