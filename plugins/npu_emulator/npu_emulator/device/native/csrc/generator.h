#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>

namespace npu_emulator {

// A device's source of random numbers: an engine of the CPU's kind. A device's own is shared with no other device and
// not with the CPU, unless shareEngineOfCpu() was called.
struct NpuGenerator final : public c10::GeneratorImpl {
  NpuGenerator(c10::DeviceIndex index, at::Generator engine);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The generator that CPU kernels draw from on the device's behalf.
  const at::Generator& engine() const {
    return engine_;
  }

 private:
  NpuGenerator* clone_impl() const override;

  at::Generator engine_;
};

// Lets all devices draw from the CPU's default generator. To be called before the first of their generators is made.
void shareEngineOfCpu();
const at::Generator& defaultGenerator(c10::DeviceIndex index);
at::Generator newGenerator(c10::DeviceIndex index);

// Returns the engine of a generator; of the device's own when there is none. Throws for another device's generator.
at::Generator engineOf(const std::optional<at::Generator>& generator, c10::DeviceIndex index);

// Lends a device's engine to the CPU's default generator until the end of the scope, for seeded operators that take no
// generator. Devices take turns. A thread that draws from the CPU's default generator meanwhile gets the device's
// numbers.
class DefaultEngineScope {
 public:
  explicit DefaultEngineScope(c10::DeviceIndex index);
  ~DefaultEngineScope();
  DefaultEngineScope(const DefaultEngineScope&) = delete;
  DefaultEngineScope& operator=(const DefaultEngineScope&) = delete;

 private:
  void exchange();

  std::unique_lock<std::mutex> turn_;
  at::CPUGeneratorImpl* cpu_;
  at::CPUGeneratorImpl* device_;
};

} // namespace npu_emulator
