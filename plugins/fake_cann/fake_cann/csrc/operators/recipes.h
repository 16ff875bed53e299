// What computes an operator: a line of operators.txt, read once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "calls.h"

namespace fake_cann {

// Where an argument of ATen comes from.
struct Source {
  enum Kind { Place, PlaceOrNone, Constant, TypeOf, Number } kind = Constant;
  int place = 0;
  int beside = 0;  // of a number that ATen takes as a tensor: the place of the tensor that it is combined with
  c10::IValue constant;
  c10::TypeKind wanted = c10::TypeKind::AnyType;
};

using Function = void (*)(const Call&);

struct Recipe {
  std::string letters;
  // Either a function of this library ...
  Function function = nullptr;
  // ... or an operator of ATen, and where its results go if it returns them.
  std::optional<c10::OperatorHandle> aten;
  std::vector<Source> sources;
  std::vector<int> results;
  // Where the operator of ATen is called once for each tensor of the lists: the place of the first list, else -1.
  int list = -1;

  // False where the library only checks calls.
  bool is_computed() const { return function || aten; }
};

// The recipe of the operator with an index, read at its first use.
const Recipe& recipe_of(int index);
const char* name_of(int index);
// The name with which torch_npu looks it up.
std::string symbol_of(int index);
int operator_count();

// A function of this library by the operator's name; null if it has none.
Function function_of(const std::string& name);

}  // namespace fake_cann
