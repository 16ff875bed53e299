// Messages between two ranks: a sender writes into the pipe of the pair and goes on, as far as there is room.
#pragma once

#include <vector>

#include "board.h"

namespace fake_cann {

struct Message {
  Board* board;
  bool is_sent;  // else received
  char* data;
  size_t left;  // bytes
  int other;    // the rank
};

// Sends and receives, side by side. Messages of one pair and direction keep their order. Throws std::runtime_error
// where a rank has ended or does not come in time, and where each of two ranks waits for the other.
void exchange_messages(std::vector<Message> messages);

}  // namespace fake_cann
