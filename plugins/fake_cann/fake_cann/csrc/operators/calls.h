// One call of an operator: its arguments as they were read from registers and stack.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "values.h"

namespace fake_cann {

struct Recipe;

// Letters of a signature: T tensor, S scalar, L tensors, Z scalars, A ints, B bools, F floats, y type, b bool, d double,
// f float, i int64, w int32, u uint32, h int16, c int8, s text.
struct Argument {
  char letter;
  union {
    int64_t integer;
    double real;
    const void* object;
  };
};

class Call {
 public:
  int index = 0;
  const Recipe* recipe = nullptr;
  c10::SmallVector<Argument, 16> arguments;
  std::vector<std::string> texts;  // those of the caller are gone when the call is executed

  // The arguments by their place.
  bool given(int place) const { return arguments[size_t(place)].object != nullptr; }
  at::Tensor tensor(int place) const;  // undefined where none was given
  std::vector<at::Tensor> tensors(int place) const;
  const at::Scalar& scalar(int place) const;
  // Of a list: how many tensors it has, one of them, and one number of a list of numbers.
  size_t count(int place) const;
  const at::Tensor& item(int place, size_t index) const;
  const at::Scalar& scalar_item(int place, size_t index) const;
  const std::vector<int64_t>& ints(int place) const;
  std::vector<bool> bools(int place) const;
  int64_t integer(int place) const { return arguments[size_t(place)].integer; }
  bool boolean(int place) const { return arguments[size_t(place)].integer != 0; }
  double real(int place) const { return arguments[size_t(place)].real; }
  std::string text(int place) const;

  // Writes a result into the tensor of a place; nothing where none was given.
  void put(int place, const at::Tensor& result) const;
  // Writes a result whose size is known only now: the memory has room for the largest.
  void put_sized(int place, const at::Tensor& result) const;

  // An argument as a kind of type of a schema wants it.
  c10::IValue value(int place, c10::TypeKind wanted) const;
};

}  // namespace fake_cann
