#include "recipes.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <sstream>

using namespace fake_cann;

// Generated from operators.txt, in the order of the entries.
extern "C" const char* fake_cann_names[];
extern "C" const char* fake_cann_recipes[];
extern "C" const int fake_cann_count;

namespace {

bool is_number(const std::string& word) { return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos; }

// Returns the first place with one of some letters, -1 if there is none.
int first_of(const std::string& letters, const char* wanted) {
  const auto found = letters.find_first_of(wanted);
  return found == std::string::npos ? -1 : int(found);
}

Source read_source(const std::string& word, const c10::Argument& argument, const std::string& letters) {
  Source source;
  auto type = argument.type();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  source.wanted = type->kind();
  bool of_tensors_or_none = type->str() == "Tensor?[]";
  if (of_tensors_or_none) source.wanted = c10::TypeKind::OptionalType;
  if (is_number(word)) {
    source.kind = Source::Place;
    source.place = std::stoi(word);
    const char letter = letters.at(size_t(source.place));
    if (source.wanted == c10::TypeKind::TensorType && (letter == 'S' || letter == 'Z')) {
      source.kind = Source::Number;
      source.beside = first_of(letters, "TL");
    }
  } else if (word.back() == '?') {
    source.kind = Source::PlaceOrNone;
    source.place = std::stoi(word);
  } else if (word.rfind("type", 0) == 0) {
    source.kind = Source::TypeOf;
    source.place = std::stoi(word.substr(4));
  } else if (word == "-") {
    source.constant = argument.default_value().value_or(c10::IValue());
  } else if (word == "true" || word == "false") {
    source.constant = word == "true";
  } else if (word[0] == '=') {
    auto text = word.substr(1);
    if (source.wanted == c10::TypeKind::StringType) source.constant = text;
    else if (text.find('.') == std::string::npos) source.constant = int64_t(std::stoll(text));
    else source.constant = std::stod(text);
  } else {
    TORCH_CHECK(word == "none", "unknown word ", word);
  }
  return source;
}

// letters [each] operator sources... [-> places...]
std::unique_ptr<Recipe> read(const std::string& name, const char* text) {
  auto recipe = std::make_unique<Recipe>();
  std::istringstream words(text);
  std::string computed_by;
  words >> recipe->letters >> computed_by;
  if (computed_by == "own") {
    recipe->function = function_of(name);
    TORCH_CHECK(recipe->function, "there is no function of this name");
    return recipe;
  }
  if (computed_by == "refused") return recipe;
  if (computed_by == "each") {
    recipe->list = first_of(recipe->letters, "L");
    TORCH_CHECK(recipe->list >= 0, "there is no list of tensors");
    words >> computed_by;
  }
  auto dot = computed_by.find('.');
  auto overload = dot == std::string::npos ? std::string() : computed_by.substr(dot + 1);
  recipe->aten = c10::Dispatcher::singleton().findSchema({"aten::" + computed_by.substr(0, dot), overload});
  TORCH_CHECK(recipe->aten, "ATen has no ", computed_by);
  const auto& wanted = recipe->aten->schema().arguments();
  std::string word;
  while (words >> word && word != "->") {
    TORCH_CHECK(recipe->sources.size() < wanted.size(), "more arguments than ", computed_by, " has");
    recipe->sources.push_back(read_source(word, wanted[recipe->sources.size()], recipe->letters));
  }
  TORCH_CHECK(recipe->sources.size() == wanted.size(), "fewer arguments than ", computed_by, " has");
  while (words >> word) recipe->results.push_back(std::stoi(word));
  return recipe;
}

}  // namespace

const char* fake_cann::name_of(int index) { return fake_cann_names[index]; }
std::string fake_cann::symbol_of(int index) {
  const std::string name = name_of(index);
  return name.rfind("acl", 0) == 0 ? name : "aclnn" + name;
}
int fake_cann::operator_count() { return fake_cann_count; }

const Recipe& fake_cann::recipe_of(int index) {
  static auto* recipes = new std::vector<std::atomic<Recipe*>>(size_t(fake_cann_count));
  static std::mutex mutex;
  auto& place = (*recipes)[size_t(index)];
  if (auto* there = place.load(std::memory_order_acquire)) return *there;
  std::lock_guard<std::mutex> lock(mutex);
  if (!place.load()) place.store(read(name_of(index), fake_cann_recipes[index]).release(), std::memory_order_release);
  return *place.load();
}
