// Reductions over what the ranks show.
#pragma once

#include "board.h"

namespace fake_cann {

// Bytes of an element of a number of HcclDataType.
size_t size_of(int type);

// Reduces `count` elements that each rank shows at `offset` into `to`. Throws std::runtime_error for other types and operations.
void reduce(const Board& board, void* to, size_t offset, size_t count, int type, int operation);

}  // namespace fake_cann
