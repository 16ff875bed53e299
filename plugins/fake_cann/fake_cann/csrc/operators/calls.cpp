#include "calls.h"

#include <ATen/ATen.h>

using namespace fake_cann;

at::Tensor Call::tensor(int place) const {
  auto* value = static_cast<const TensorValue*>(arguments[size_t(place)].object);
  return value ? value->tensor : at::Tensor();
}

std::vector<at::Tensor> Call::tensors(int place) const {
  std::vector<at::Tensor> result;
  if (auto* list = static_cast<const Tensors*>(arguments[size_t(place)].object))
    for (auto* item : list->items) result.push_back(item ? item->tensor : at::Tensor());
  return result;
}

const at::Scalar& Call::scalar(int place) const {
  return static_cast<const ScalarValue*>(arguments[size_t(place)].object)->scalar;
}

size_t Call::count(int place) const { return static_cast<const Tensors*>(arguments[size_t(place)].object)->items.size(); }

const at::Tensor& Call::item(int place, size_t index) const {
  return static_cast<const Tensors*>(arguments[size_t(place)].object)->items.at(index)->tensor;
}

const at::Scalar& Call::scalar_item(int place, size_t index) const {
  return static_cast<const Scalars*>(arguments[size_t(place)].object)->items.at(index)->scalar;
}

const std::vector<int64_t>& Call::ints(int place) const {
  static const std::vector<int64_t> none;
  auto* list = static_cast<const Ints*>(arguments[size_t(place)].object);
  return list ? list->items : none;
}

std::vector<bool> Call::bools(int place) const { return static_cast<const Bools*>(arguments[size_t(place)].object)->items; }

std::string Call::text(int place) const {
  auto number = size_t(arguments[size_t(place)].integer);
  return number ? texts[number - 1] : std::string();
}

void Call::put(int place, const at::Tensor& result) const {
  auto target = tensor(place);
  if (!target.defined() || !result.defined()) return;
  bool same = target.sizes() == result.sizes();
  TORCH_CHECK(same || target.numel() == result.numel(), "a result of ", result.sizes(), " for memory of ", target.sizes());
  target.copy_(same ? result : result.reshape(target.sizes()));
}

void Call::put_sized(int place, const at::Tensor& result) const {
  auto* value = const_cast<TensorValue*>(static_cast<const TensorValue*>(arguments[size_t(place)].object));
  TORCH_CHECK(result.numel() <= value->tensor.numel(), "a result of ", result.sizes(), " for ", value->tensor.sizes());
  value->tensor.unsafeGetTensorImpl()->set_sizes_contiguous(result.sizes());
  value->tensor.copy_(result);
}

c10::IValue Call::value(int place, c10::TypeKind wanted) const {
  const Argument& argument = arguments[size_t(place)];
  switch (argument.letter) {
    case 'T': return argument.object ? c10::IValue(tensor(place)) : c10::IValue();
    case 'L': {
      if (wanted == c10::TypeKind::OptionalType) {  // a list of tensors that may be missing
        c10::List<std::optional<at::Tensor>> list;
        for (auto& item : tensors(place)) list.push_back(item.defined() ? std::make_optional(item) : std::nullopt);
        return list;
      }
      return c10::List<at::Tensor>(tensors(place));
    }
    case 'S': {
      if (!argument.object) return {};
      const auto& number = scalar(place);
      if (wanted == c10::TypeKind::FloatType) return number.toDouble();
      if (wanted == c10::TypeKind::IntType) return number.toLong();
      return number;
    }
    case 'A': {
      if (!argument.object) return {};
      if (wanted == c10::TypeKind::ListType) return ints(place);
      TORCH_CHECK(ints(place).size() == 1, "one number was expected, there are ", ints(place).size());
      return ints(place)[0];
    }
    case 'B': {
      c10::List<bool> list;
      for (bool item : bools(place)) list.push_back(item);
      return list;
    }
    case 'F': {
      c10::List<double> list;
      for (float item : static_cast<const Floats*>(argument.object)->items) list.push_back(item);
      return list;
    }
    case 'Z': {
      c10::List<at::Scalar> list;
      for (auto* item : static_cast<const Scalars*>(argument.object)->items) list.push_back(item->scalar);
      return list;
    }
    case 'd':
    case 'f': return argument.real;
    case 'b': return boolean(place);
    case 'y': {
      auto type = type_of(int(argument.integer));
      return type == at::ScalarType::Undefined ? c10::IValue() : c10::IValue(int64_t(type));
    }
    case 's': return argument.integer ? c10::IValue(text(place)) : c10::IValue();
    default:
      if (wanted == c10::TypeKind::BoolType) return boolean(place);
      if (wanted == c10::TypeKind::ListType) return std::vector<int64_t>{argument.integer};
      return argument.integer;
  }
}
