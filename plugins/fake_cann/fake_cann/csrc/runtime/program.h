// The line of the program that is running.
#pragma once

#include <string>

namespace fake_cann {

// Returns "file:line" of the innermost Python code that is not torch's; empty in a thread without Python code.
std::string place_of_program();

}  // namespace fake_cann
