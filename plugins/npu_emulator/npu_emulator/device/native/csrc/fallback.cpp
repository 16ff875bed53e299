#include "fallback.h"

#include "alias.h"
#include "device.h"
#include "generator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace npu_emulator {
namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

// Operators that take tensors of several devices together, on real devices too: indices may be on the CPU, fused
// optimizers take a learning rate and step counts from there, and copies are between any devices.
bool takesSeveralDevices(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::index",
      "aten::index_put",
      "aten::index_put_",
      "aten::_index_put_impl_",
      "aten::_unsafe_index",
      "aten::_unsafe_index_put",
      "aten::_foreach_copy_",
      "aten::_fused_sgd_",
      "aten::_fused_adam_",
      "aten::_fused_adamw_",
      "aten::_fused_adagrad_",
  };
  return names.count(name) > 0;
}

// What the schema of an operator says about a call of it.
struct Plan {
  explicit Plan(const c10::OperatorHandle& op);

  bool several_devices;
  bool seeded = false; // draws random numbers and takes no generator
  std::optional<size_t> generator; // position of that argument
  std::vector<size_t> written; // positions of arguments that the operator writes to
  std::vector<std::optional<size_t>> returned; // per result: position in `written` of the argument that it is
};

Plan::Plan(const c10::OperatorHandle& op) : several_devices(takesSeveralDevices(op.schema().name())) {
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias != nullptr && alias->isWrite()) {
      written.push_back(i);
    }
    if (arguments[i].name() == "generator") {
      generator = i;
    }
  }
  for (const auto& result : schema.returns()) {
    auto& which = returned.emplace_back();
    const auto* alias = result.alias_info();
    if (alias == nullptr || !alias->isWrite()) {
      continue;
    }
    for (size_t k = 0; k < written.size(); ++k) {
      if (*arguments[written[k]].alias_info() == *alias) {
        which = k;
        break;
      }
    }
  }
  if (!generator) {
    for (const auto tag : op.getTags()) {
      seeded = seeded || tag == at::Tag::nondeterministic_seeded;
    }
  }
}

// Only for operators of torch itself: others can be defined anew, with another schema at the same address.
const Plan& cachedPlan(const c10::OperatorHandle& op) {
  // Per thread, so that looking a plan up needs no lock.
  static thread_local std::unordered_map<const c10::FunctionSchema*, Plan> plans;
  const auto* schema = &op.schema();
  auto found = plans.find(schema);
  if (found == plans.end()) {
    found = plans.emplace(schema, Plan(op)).first;
  }
  return found->second;
}

// One call: finds the device, exchanges arguments for their aliases, and results for tensors of the device.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const Plan& plan, Stack* stack)
      : op_(op),
        plan_(plan),
        stack_(stack),
        arguments_(op.schema().arguments().size()),
        first_(stack->size() - arguments_) {}

  void run() {
    checkIndexed();
    for (const auto position : plan_.written) {
      originals_.push_back(argument(position));
    }
    for (size_t i = 0; i < arguments_; ++i) {
      exchangeArgument(argument(i));
    }
    if (cpu_tensor_ && !plan_.several_devices) {
      throwCpuTensor();
    }
    if (!index_) {
      index_ = currentDevice();
    }
    if (plan_.generator) {
      auto& generator = argument(*plan_.generator);
      generator = engineOf(generator.toOptional<at::Generator>(), *index_);
    }
    for (const auto position : plan_.written) {
      aliases_.push_back(argument(position));
    }
    callKernel();
    for (size_t k = 0; k < originals_.size(); ++k) {
      adoptAliases(originals_[k], aliases_[k]);
    }
    exchangeResults();
  }

 private:
  IValue& argument(size_t position) {
    return (*stack_)[first_ + position];
  }

  void checkIndexed() {
    if (plan_.several_devices && argument(0).isTensor()) {
      TORCH_CHECK(
          isOnNpu(argument(0).toTensor()),
          "indices should be either on cpu or on the same device as the indexed tensor (",
          argument(0).toTensor().device(),
          ")");
    }
  }

  void exchangeArgument(IValue& value) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) {
        value = exchangeTensor(value.toTensor(), &storages_);
      }
    } else if (value.isTensorList()) {
      const auto tensors = value.toListRef(); // without copies: optimizers pass all their tensors
      c10::List<Tensor> list;
      list.reserve(tensors.size());
      for (const IValue& element : tensors) {
        const Tensor& tensor = element.toTensor();
        list.push_back(tensor.defined() ? exchangeTensor(tensor) : tensor);
      }
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor && tensor->defined() ? std::optional<Tensor>(exchangeTensor(*tensor)) : tensor);
      }
      value = std::move(list);
    } else if (value.isDevice()) {
      exchangeDevice(value);
    }
  }

  Tensor exchangeTensor(const Tensor& tensor, SharedStorages* storages = nullptr) {
    sparse_ = sparse_ || tensor.is_sparse();
    const Device device = tensor.device();
    if (device.type() != kNpu) {
      // A number in a tensor may come from the CPU.
      cpu_tensor_ = cpu_tensor_ || (device.is_cpu() && tensor.dim() > 0);
      return tensor;
    }
    if (!index_) {
      index_ = device.index();
    } else if (*index_ != device.index() && !plan_.several_devices) {
      throwSeveralDevices(device);
    }
    return aliasOnCpu(tensor, storages);
  }

  void exchangeDevice(IValue& value) {
    const Device device = value.toDevice();
    if (device.type() != kNpu) {
      results_stay_ = true;
      return;
    }
    if (!index_) {
      index_ = resolveIndex(device);
    }
    value = Device(c10::kCPU);
  }

  [[noreturn]] void throwSeveralDevices(Device other) const {
    C10_THROW_ERROR(
        Error,
        c10::str(
            "Expected all tensors to be on the same device, but found at least two devices, ",
            Device(kNpu, *index_),
            " and ",
            other,
            "! (when checking arguments of ",
            op_.operator_name(),
            ")"));
  }

  [[noreturn]] void throwCpuTensor() const {
    // Only a generator of the device can have brought an operator on tensors of the CPU here.
    TORCH_CHECK(index_.has_value(), "Expected a 'cpu' device type for generator but found 'npu'");
    throwSeveralDevices(Device(c10::kCPU));
  }

  void callKernel() {
    std::optional<DefaultEngineScope> engine;
    if (plan_.seeded) {
      engine.emplace(*index_);
    }
    if (sparse_) {
      // Which of the CPU's kernels takes this mix of sparse and dense tensors is for the dispatcher to find out.
      const at::AutoDispatchBelowADInplaceOrView guard;
      op_.callBoxed(stack_);
      return;
    }
    if (!op_.hasComputedKernelForDispatchKey(DispatchKey::CPU)) {
      notEmulated(c10::str(
          "npu_emulator: ",
          op_.operator_name(),
          " has no CPU kernel, which is what an emulated device computes with; register one for the CPU, or one for "
          "PrivateUse1"));
    }
    op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack_);
  }

  static void adoptAliases(const IValue& original, const IValue& alias) {
    if (original.isTensor()) {
      adoptIfOnNpu(original.toTensor(), alias.toTensor());
    } else if (original.isTensorList()) {
      const auto tensors = original.toListRef();
      const auto aliases = alias.toListRef();
      for (size_t i = 0; i < tensors.size(); ++i) {
        adoptIfOnNpu(tensors[i].toTensor(), aliases[i].toTensor());
      }
    }
  }

  static void adoptIfOnNpu(const Tensor& tensor, const Tensor& alias) {
    if (tensor.defined() && isOnNpu(tensor)) {
      adoptAlias(tensor, alias);
    }
  }

  void exchangeResults() {
    const auto results = plan_.returned.size();
    for (size_t i = 0; i < results; ++i) {
      auto& value = (*stack_)[stack_->size() - results + i];
      if (plan_.returned[i]) {
        value = originals_[*plan_.returned[i]];
      } else if (!results_stay_) {
        exchangeResult(value);
      }
    }
  }

  void exchangeResult(IValue& value) const {
    if (value.isTensor()) {
      if (value.toTensor().defined()) {
        value = aliasOnNpu(value.toTensor(), *index_);
      }
    } else if (value.isTensorList()) {
      const auto tensors = value.toListRef();
      c10::List<Tensor> list;
      list.reserve(tensors.size());
      for (const IValue& element : tensors) {
        const Tensor& tensor = element.toTensor();
        list.push_back(tensor.defined() ? aliasOnNpu(tensor, *index_) : tensor);
      }
      value = std::move(list);
    }
  }

  const c10::OperatorHandle& op_;
  const Plan& plan_;
  Stack* stack_;
  size_t arguments_;
  size_t first_;
  std::optional<DeviceIndex> index_;
  bool sparse_ = false;
  bool cpu_tensor_ = false;
  bool results_stay_ = false; // the caller asked for another device
  // Of single tensors: kernels refuse to read and write the same memory, which they know by its storage. A list may be
  // too long to look each of its tensors up.
  SharedStorages storages_;
  c10::SmallVector<IValue, 4> originals_; // of the arguments that are written to
  c10::SmallVector<IValue, 4> aliases_; // of the same
};

bool isOutranked(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

bool isForeach(const c10::OperatorName& name) {
  return name.name.rfind("aten::_foreach_", 0) == 0;
}

} // namespace

void cpuFallback(const c10::OperatorHandle& op, Stack* stack) {
  if (op.schema().getNamespace() == "aten") {
    Call(op, cachedPlan(op), stack).run();
    return;
  }
  const Plan plan(op);
  Call(op, plan, stack).run();
}

void registerOutrankedOperators() {
  // Never destroyed: torch cannot forget a backend.
  static auto* dense = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto* sparse =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::SparsePrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() != "aten" || !op || !op->hasSchema() || !isOutranked(*op)) {
      continue;
    }
    const auto registerWith = [&](torch::Library* library, DispatchKey key) {
      if (!op->hasKernelForDispatchKey(key)) {
        library->impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
      }
    };
    if (op->hasKernelForDispatchKey(DispatchKey::CPU) || isForeach(name)) {
      registerWith(dense, DispatchKey::PrivateUse1);
    }
    if (op->hasKernelForDispatchKey(DispatchKey::SparseCPU)) {
      registerWith(sparse, DispatchKey::SparsePrivateUse1);
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
}

} // namespace npu_emulator
