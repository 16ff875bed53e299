// Where the ranks of a communicator meet: a file of shared memory, removed as soon as all have opened it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace fake_cann {

// Bytes that one rank can show at once; larger tensors take several rounds.
constexpr size_t kSlot = size_t(4) << 20;
constexpr int kMostRanks = 64;
// Bytes that a rank can send to another before that receives them.
constexpr size_t kPipe = size_t(4) << 20;

// What one rank sends to another. The first counters have all bytes since the beginning.
struct Pipe {
  std::atomic<uint64_t> written, taken;
  std::atomic<uint32_t> sender_waits, receiver_waits;
  char bytes[kPipe];
};

// How long a rank waits for another: as a variable of CANN has it in seconds.
struct Patience {
  const char* variable;
  long seconds;
};
constexpr Patience kInGroup{"HCCL_EXEC_TIMEOUT", 600};
// Until all are there: the process of one that has not come is unknown, so nobody sees that it has ended.
constexpr Patience kForGroup{"HCCL_CONNECT_TIMEOUT", 120};
// Until then a rank waits; the exception that it raises behind it.
std::chrono::steady_clock::time_point end_of(const Patience& patience);
[[noreturn]] void give_up(const Patience& patience);

class Board {
 public:
  // Throws std::runtime_error where the memory cannot be had or a rank does not come.
  Board(const std::string& name, int ranks, int rank);
  ~Board();

  // Waits until all ranks have come here. Throws std::runtime_error where one has ended or does not come in time.
  void meet(const Patience& patience = kInGroup);
  // Throws std::runtime_error where the process of a rank has ended.
  void check_that_all_live() const;
  char* slot(int rank) const { return slots_ + size_t(rank) * kSlot; }
  Pipe& pipe(int from, int to) const { return pipes_[size_t(from) * size_t(ranks) + size_t(to)]; }

  const std::string name;
  const int ranks, rank;

 private:
  struct Head {
    std::atomic<uint32_t> arrived;
    std::atomic<uint32_t> round;
    std::atomic<int32_t> processes[kMostRanks];
  };

  Head* head_ = nullptr;
  char* slots_ = nullptr;
  Pipe* pipes_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace fake_cann
