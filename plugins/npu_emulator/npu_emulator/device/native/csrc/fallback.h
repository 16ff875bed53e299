#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace npu_emulator {

// Runs the CPU kernel of any operator on aliases of the arguments and presents the results as the device's.
void cpuFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Registers the fallback by name for operators that have a kernel for every backend, which outranks a fallback, and a
// better one for the CPU. Structured operators would find the result's shape on the meta device and then call their
// out= form; foreach operators would run tensor by tensor.
void registerOutrankedOperators();

} // namespace npu_emulator
