// With FAKE_CANN_CHECK=1 each call of an operator is checked: the objects that torch_npu has created are known.
#pragma once

namespace fake_cann {

bool are_calls_checked();

// The letter is that of operators.txt: T, S, L, Z, A, B or F.
void note_created(const void* object, char letter);
void note_destroyed(const void* object);
// Returns the letter of an object that lives, 0 for anything else.
char letter_of(const void* object);

}  // namespace fake_cann
