// Where the ranks of a communicator meet: a file of shared memory, removed as soon as all have opened it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace fake_cann {

// Bytes that one rank can show at once; larger tensors take several rounds.
constexpr size_t kSlot = size_t(4) << 20;
constexpr int kMostRanks = 64;

class Board {
 public:
  // Throws std::runtime_error where the memory cannot be had or a rank does not come.
  Board(const std::string& name, int ranks, int rank);
  ~Board();

  // Waits until all ranks have come here. Throws std::runtime_error where one has ended or does not come in time.
  void meet();
  char* slot(int rank) const { return slots_ + size_t(rank) * kSlot; }

  const std::string name;
  const int ranks, rank;

 private:
  struct Head {
    std::atomic<uint32_t> arrived;
    std::atomic<uint32_t> round;
    std::atomic<int32_t> processes[kMostRanks];
  };

  void check_that_all_live() const;

  Head* head_ = nullptr;
  char* slots_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace fake_cann
