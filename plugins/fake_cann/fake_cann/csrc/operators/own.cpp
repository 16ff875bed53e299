#include "own.h"

fake_cann::Function fake_cann::function_of(const std::string& name) {
  static const auto* all = [] {
    auto* functions = new Functions;
    for (auto room : {random_functions(), indexing_functions(), arithmetic_functions(), network_functions(),
                      fused_functions(), layer_functions(), attention_functions(), quantised_functions()})
      functions->insert(room.begin(), room.end());
    return functions;
  }();
  auto found = all->find(name);
  return found == all->end() ? nullptr : found->second;
}
