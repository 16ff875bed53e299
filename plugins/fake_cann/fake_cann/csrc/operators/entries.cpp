// How torch_npu calls an operator, in two steps with C's convention:
//   aclnnXGetWorkspaceSize(arguments ..., &size, &executor) and aclnnX(workspace, size, executor, stream).
// A few generated instructions per operator load its index and jump to fake_cann_enter, which saves the registers that
// hold arguments. The letters of the operator say how to read them, so no operator needs an entry of its own.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ScalarOps.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include "../exported.h"
#include "../queue.h"
#include "live.h"
#include "recipes.h"

using namespace fake_cann;

namespace {

// The registers that C's convention has for arguments on Linux.
#if defined(__x86_64__)
constexpr int kIntegerRegisters = 6, kVectorRegisters = 8;
#elif defined(__aarch64__)
constexpr int kIntegerRegisters = 8, kVectorRegisters = 8;
#else
#error "the entry of operators is written for x86-64 and aarch64"
#endif

std::vector<std::atomic<long>>& call_counts() {
  static auto* counts = new std::vector<std::atomic<long>>(size_t(operator_count()));
  return *counts;
}

// Reads arguments in the order of C's convention: those without a register are in slots of 8 bytes on the stack.
class Reader {
 public:
  Reader(const uint64_t* integers, const double* vectors, const uint64_t* stack)
      : integers_(integers), vectors_(vectors), stack_(stack) {}

  uint64_t integer() { return used_integers_ < kIntegerRegisters ? integers_[used_integers_++] : *stack_++; }

  uint64_t vector() {
    if (used_vectors_ == kVectorRegisters) return *stack_++;
    uint64_t bits;
    std::memcpy(&bits, vectors_ + 2 * used_vectors_++, sizeof bits);
    return bits;
  }

 private:
  const uint64_t* integers_;
  const double* vectors_;
  const uint64_t* stack_;
  int used_integers_ = 0, used_vectors_ = 0;
};

Argument read(char letter, Reader& reader, std::vector<std::string>& texts) {
  Argument argument{};
  argument.letter = letter;
  if (letter == 'd' || letter == 'f') {
    uint64_t bits = reader.vector();
    float small;
    std::memcpy(&small, &bits, sizeof small);
    if (letter == 'f') argument.real = small;
    else std::memcpy(&argument.real, &bits, sizeof bits);
    return argument;
  }
  uint64_t bits = reader.integer();
  switch (letter) {
    case 'b': argument.integer = (bits & 0xff) != 0; break;
    case 'c': argument.integer = int8_t(bits); break;
    case 'h': argument.integer = int16_t(bits); break;
    case 'w':
    case 'y': argument.integer = int32_t(bits); break;
    case 'u': argument.integer = uint32_t(bits); break;
    case 's':
      if (!bits) break;
      texts.emplace_back(reinterpret_cast<const char*>(bits));
      argument.integer = int64_t(texts.size());
      break;
    default: argument.integer = int64_t(bits);
  }
  return argument;
}

std::string named(char letter) {
  switch (letter) {
    case 'T': return "a tensor";
    case 'S': return "a scalar";
    case 'L': return "a list of tensors";
    case 'Z': return "a list of scalars";
    case 'A': return "an array of whole numbers";
    case 'B': return "an array of bools";
    case 'F': return "an array of floats";
    default: return "a number or a text";
  }
}

// Returns in which way a call does not fit the letters: no living object where one is due, one where none is, or
// something else than two addresses behind the last argument. Empty if it fits. Numbers cannot be told apart.
std::string fault_of(const std::string& letters, Reader reader) {
  const std::string objects = "TSLZABF";
  for (size_t place = 0; place < letters.size(); ++place) {
    const char letter = letters[place];
    if (letter == 'd' || letter == 'f') {
      reader.vector();
      continue;
    }
    const auto bits = reader.integer();
    const char found = letter_of(reinterpret_cast<const void*>(bits));
    const bool is_object = objects.find(letter) != std::string::npos;
    if (is_object ? bits == 0 || found == letter : !found) continue;
    return "argument " + std::to_string(place) + ": expected " + named(letter) + ", found " +
           (found ? named(found) : "no object that torch_npu has created and not destroyed");
  }
  constexpr uint64_t kMostApart = 4096;  // both are variables of the caller
  const uint64_t size = reader.integer(), executor = reader.integer();
  const uint64_t apart = size > executor ? size - executor : executor - size;
  if (size && executor && apart && apart <= kMostApart) return {};
  return "expected the addresses of the workspace's size and of the executor behind argument " +
         std::to_string(letters.size()) + ", found other numbers";
}

// Appends to the file FAKE_CANN_RECORD that an operator was called, and how the call does not fit, once each.
void record(int index, const std::string& fault) {
  static const char* file = std::getenv("FAKE_CANN_RECORD");
  if (!file) return;
  static std::mutex lock;
  static auto* written = new std::set<std::string>;
  const std::string line = std::string(name_of(index)) + "\t" + fault + "\n";
  std::lock_guard<std::mutex> guard(lock);
  if (!written->insert(line).second) return;
  if (auto* to = std::fopen(file, "a")) {
    std::fputs(line.c_str(), to);
    std::fclose(to);
  }
}

// Checks a call against one of several forms of the arguments, which "|" separates.
void check(int index, const std::string& forms, const Reader& reader) {
  std::string fault;
  std::istringstream all(forms);
  for (std::string letters; std::getline(all, letters, '|');) {
    const auto found = fault_of(letters, reader);
    if (found.empty()) {
      record(index, "");
      return;
    }
    if (fault.empty()) fault = found;
  }
  record(index, fault);
  throw std::invalid_argument("FAKE_CANN_CHECK: " + fault);
}

std::atomic<bool> computes{true};

int fail(int index, const std::exception& error) {
  constexpr size_t kMost = 800;
  auto* of_torch = dynamic_cast<const c10::Error*>(&error);  // its what() has the stack
  std::string text = "fake CANN: " + symbol_of(index) + ": " +
                     (of_torch ? of_torch->what_without_backtrace() : error.what());
  text = text.substr(0, kMost);
  fake_cann_set_message(text.c_str());
  fake_cann_note_failure(text.c_str());
  return kOperatorFailed;
}

// Returns a number as the tensor that ATen makes of one. Beside float32 it is float32 at once, as ATen would convert it; for
// smaller types the kernels of ATen read the number in more digits than the type has, so it stays a double.
at::Tensor tensor_of_number(const at::Scalar& number, at::ScalarType beside) {
  if (beside != at::kFloat || number.isComplex() || number.isBoolean()) return at::native::wrapped_scalar_tensor(number);
  // Nobody keeps a number, so a thread needs one. It is not destroyed: threads of torch_npu call until the process ends.
  thread_local at::Tensor* last = nullptr;
  const bool is_free = last && last->use_count() == 1 && last->storage().use_count() == 1;
  at::Tensor made = is_free ? *last : at::detail::empty_cpu({}, at::kFloat);
  if (!last) last = new at::Tensor(made);
  *static_cast<float*>(made.mutable_data_ptr()) =
      number.isIntegral(false) ? float(number.toLong()) : float(number.toDouble());
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

at::ScalarType type_beside(const Source& source, const Call& call, size_t item) {
  const auto& argument = call.arguments[size_t(source.beside)];
  return (argument.letter == 'L' ? call.item(source.beside, item) : call.tensor(source.beside)).scalar_type();
}

c10::IValue source_value(const Source& source, const Call& call) {
  switch (source.kind) {
    case Source::Place: return call.value(source.place, source.wanted);
    case Source::PlaceOrNone: {
      const auto& argument = call.arguments[size_t(source.place)];
      bool none = argument.letter == 'A' ? call.ints(source.place).empty() : argument.integer == 0;
      return none ? c10::IValue() : call.value(source.place, source.wanted);
    }
    case Source::TypeOf: return int64_t(call.tensor(source.place).scalar_type());
    case Source::Number: return tensor_of_number(call.scalar(source.place), type_beside(source, call, 0));
    default: return source.constant;
  }
}

// The same for one tensor of the lists: a list is its tensor, a list of numbers its number.
c10::IValue source_value_of_item(const Source& source, const Call& call, size_t item) {
  if (source.kind != Source::Place && source.kind != Source::Number) return source_value(source, call);
  const char letter = call.arguments[size_t(source.place)].letter;
  if (letter == 'L') return call.item(source.place, item);
  if (letter != 'S' && letter != 'Z') return source_value(source, call);
  const auto& number = letter == 'Z' ? call.scalar_item(source.place, item) : call.scalar(source.place);
  if (source.kind == Source::Number) return tensor_of_number(number, type_beside(source, call, item));
  return number;
}

void put_results(const Call& call, const torch::jit::Stack& stack) {
  for (size_t i = 0; i < call.recipe->results.size(); ++i) {
    int place = call.recipe->results[i];
    if (stack[i].isTensor()) {
      if (stack[i].toTensor().defined()) call.put(place, stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      auto targets = call.tensors(place);
      auto results = stack[i].toTensorVector();
      TORCH_CHECK(targets.size() == results.size(), "another number of results was expected");
      for (size_t k = 0; k < targets.size(); ++k) targets[k].copy_(results[k]);
    }
  }
}

void compute(const Call& call) {
  const auto& recipe = *call.recipe;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard without_modes(
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  if (recipe.function) return recipe.function(call);
  torch::jit::Stack stack;
  stack.reserve(recipe.sources.size());
  if (recipe.list >= 0) {
    for (size_t item = 0; item < call.count(recipe.list); ++item) {
      stack.clear();  // also frees the number of the tensor before
      for (const auto& source : recipe.sources) stack.push_back(source_value_of_item(source, call, item));
      recipe.aten->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    }
    return;
  }
  for (const auto& source : recipe.sources) stack.push_back(source_value(source, call));
  recipe.aten->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  put_results(call, stack);
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) int fake_cann_prepare(int index, const uint64_t* integers,
                                                                       const double* vectors, const uint64_t* stack) {
  if (const int status = fake_cann_check_queue()) return status;
  auto* call = new Call;
  try {
    call->index = index;
    call->recipe = &recipe_of(index);
    Reader reader(integers, vectors, stack);
    if (are_calls_checked()) check(index, call->recipe->letters, reader);
    if (!call->recipe->is_computed()) {
      delete call;
      return refuse("operator " + symbol_of(index));
    }
    call->arguments.reserve(call->recipe->letters.size());
    for (char letter : call->recipe->letters) call->arguments.push_back(read(letter, reader, call->texts));
    *reinterpret_cast<uint64_t*>(reader.integer()) = 0;
    *reinterpret_cast<Call**>(reader.integer()) = call;
    return kOk;
  } catch (const std::exception& error) {
    delete call;
    return fail(index, error);
  }
}

extern "C" __attribute__((visibility("hidden"))) int fake_cann_execute(void*, uint64_t, Call* call, void*) {
  std::unique_ptr<Call> owned(call);
  call_counts()[size_t(call->index)]++;
  if (!computes.load(std::memory_order_relaxed)) return kOk;
  try {
    compute(*call);
    return kOk;
  } catch (const std::exception& error) {
    return fail(call->index, error);
  }
}

// For tests: writes how often each operator was executed, in the order of operators.txt. `counts` has room for `room`.
EXPORTED void fake_cann_calls(long* counts, int room) {
  for (int i = 0; i < std::min(room, operator_count()); ++i) counts[i] = call_counts()[size_t(i)];
}

// For benchmarks: with 0, operators return at once and leave their results as they are. The time that is left is torch_npu's.
EXPORTED void fake_cann_compute(int on) { computes = on != 0; }

EXPORTED int aclDestroyAclOpExecutor(void*) { return kOk; }
EXPORTED int aclSetAclOpExecutorRepeatable(void*) {
  return refuse("executors that are used again (aclSetAclOpExecutorRepeatable)");
}

// With the registers of arguments saved in two arrays, those of vectors 16 bytes apart: fake_cann_prepare(index of the
// operator, integers, vectors, arguments on the stack).
#if defined(__x86_64__)
asm(R"(
.text
.hidden fake_cann_enter
.globl fake_cann_enter
.type fake_cann_enter, @function
fake_cann_enter:
  pushq %rbp
  movq %rsp, %rbp
  subq $192, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  movl %r11d, %edi
  movq %rsp, %rsi
  leaq 64(%rsp), %rdx
  leaq 16(%rbp), %rcx
  call fake_cann_prepare
  leave
  ret
)");
#else
asm(R"(
.text
.hidden fake_cann_enter
.globl fake_cann_enter
.type fake_cann_enter, %function
fake_cann_enter:
  stp x29, x30, [sp, #-208]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  stp q0, q1, [sp, #80]
  stp q2, q3, [sp, #112]
  stp q4, q5, [sp, #144]
  stp q6, q7, [sp, #176]
  mov w0, w9
  add x1, sp, #16
  add x2, sp, #80
  add x3, sp, #208
  bl fake_cann_prepare
  ldp x29, x30, [sp], #208
  ret
)");
#endif
