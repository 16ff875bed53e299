#include "generator.h"

#include "device.h"

#include <c10/util/Exception.h>

#include <utility>
#include <vector>

namespace npu_emulator {
namespace {

using c10::DeviceIndex;

std::mutex& turns() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

bool shares_engine_of_cpu = false;

[[noreturn]] void refuseOffset() {
  notEmulated(
      "npu_emulator: a generator of an emulated device has no offset; get_state() and set_state() are about all of it");
}

} // namespace

NpuGenerator::NpuGenerator(DeviceIndex index, at::Generator engine)
    : GeneratorImpl(c10::Device(kNpu, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      engine_(std::move(engine)) {}

// torch locks this generator for its Python API, CPU kernels lock the engine: hence the second lock here.

void NpuGenerator::set_current_seed(uint64_t seed) {
  const std::lock_guard<std::mutex> lock(engine_.mutex());
  engine_.set_current_seed(seed);
}

uint64_t NpuGenerator::current_seed() const {
  return engine_.current_seed();
}

uint64_t NpuGenerator::seed() {
  const uint64_t seed = c10::detail::getNonDeterministicRandom();
  set_current_seed(seed);
  return seed;
}

void NpuGenerator::set_offset(uint64_t) {
  refuseOffset();
}

uint64_t NpuGenerator::get_offset() const {
  refuseOffset();
}

void NpuGenerator::set_state(const c10::TensorImpl& state) {
  auto* engine = engine_.unsafeGetGeneratorImpl();
  const std::lock_guard<std::mutex> lock(engine->mutex_);
  engine->set_state(state);
}

c10::intrusive_ptr<c10::TensorImpl> NpuGenerator::get_state() const {
  auto* engine = engine_.unsafeGetGeneratorImpl();
  const std::lock_guard<std::mutex> lock(engine->mutex_);
  return engine->get_state();
}

NpuGenerator* NpuGenerator::clone_impl() const {
  return new NpuGenerator(device().index(), engine_.clone());
}

void shareEngineOfCpu() {
  shares_engine_of_cpu = true;
}

const at::Generator& defaultGenerator(DeviceIndex index) {
  // Never destroyed: Python may still hold them when static objects are.
  static const auto* generators = [] {
    auto* all = new std::vector<at::Generator>();
    for (DeviceIndex i = 0; i < kMaxDevices; ++i) {
      all->push_back(
          shares_engine_of_cpu ? at::make_generator<NpuGenerator>(i, at::detail::getDefaultCPUGenerator())
                               : newGenerator(i));
    }
    return all;
  }();
  return (*generators)[index];
}

at::Generator newGenerator(DeviceIndex index) {
  return at::make_generator<NpuGenerator>(index, at::detail::createCPUGenerator());
}

at::Generator engineOf(const std::optional<at::Generator>& generator, DeviceIndex index) {
  const bool given = generator.has_value() && generator->defined();
  const at::Generator& source = given ? *generator : defaultGenerator(index);
  TORCH_CHECK(
      source.device().type() == kNpu,
      "Expected a 'npu' device type for generator but found '",
      source.device().type(),
      "'");
  return static_cast<NpuGenerator*>(source.unsafeGetGeneratorImpl())->engine();
}

DefaultEngineScope::DefaultEngineScope(DeviceIndex index)
    : turn_(turns()),
      cpu_(at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator())),
      device_(at::check_generator<at::CPUGeneratorImpl>(engineOf(std::nullopt, index))) {
  exchange();
}

DefaultEngineScope::~DefaultEngineScope() {
  exchange();
}

void DefaultEngineScope::exchange() {
  if (cpu_ == device_) {
    return;
  }
  const std::scoped_lock lock(cpu_->mutex_, device_->mutex_);
  const at::mt19937 engine = cpu_->engine();
  cpu_->set_engine(device_->engine());
  device_->set_engine(engine);
  // Normal numbers are made in pairs; the second of a pair waits here.
  const auto next_float = cpu_->next_float_normal_sample();
  cpu_->set_next_float_normal_sample(device_->next_float_normal_sample());
  device_->set_next_float_normal_sample(next_float);
}

} // namespace npu_emulator
