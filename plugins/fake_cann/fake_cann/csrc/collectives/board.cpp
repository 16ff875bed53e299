#include "board.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "../exported.h"

using fake_cann::Board;

namespace {

constexpr size_t kHeadBytes = 4096;

}  // namespace

std::chrono::seconds fake_cann::most_waiting() {
  return std::chrono::seconds(number_of_environment("HCCL_EXEC_TIMEOUT", 600));
}

Board::Board(const std::string& name_, int ranks_, int rank_) : name(name_), ranks(ranks_), rank(rank_) {
  static_assert(sizeof(Head) <= kHeadBytes);
  if (ranks > kMostRanks) throw std::runtime_error("NotEmulated: more than 64 ranks in a group");
  // Memory that nobody touches is none: only pairs that exchange messages need their pipes.
  bytes_ = kHeadBytes + size_t(ranks) * kSlot + size_t(ranks) * size_t(ranks) * sizeof(Pipe);
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0) throw std::runtime_error("cannot create shared memory");
  void* memory = ftruncate(file, off_t(bytes_)) == 0
                     ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot get shared memory");
  head_ = static_cast<Head*>(memory);
  slots_ = static_cast<char*>(memory) + kHeadBytes;
  pipes_ = reinterpret_cast<Pipe*>(slots_ + size_t(ranks) * kSlot);
  head_->processes[rank].store(getpid());
  meet();
  if (rank == 0) shm_unlink(name.c_str());
}

Board::~Board() { munmap(head_, bytes_); }

void Board::meet() {
  uint32_t round = head_->round.load();
  if (head_->arrived.fetch_add(1) + 1 == uint32_t(ranks)) {
    head_->arrived.store(0);
    head_->round.fetch_add(1);
    return;
  }
  auto until = std::chrono::steady_clock::now() + most_waiting();
  for (int turn = 0; head_->round.load() == round; ++turn) {
    constexpr int kSpins = 200, kChecked = 1024;
    if (turn > kSpins) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (turn % kChecked != kChecked - 1) continue;
    check_that_all_live();
    if (std::chrono::steady_clock::now() > until) throw std::runtime_error("a rank did not come in time (HCCL_EXEC_TIMEOUT)");
  }
}

void Board::check_that_all_live() const {
  for (int other = 0; other < ranks; ++other) {
    int process = head_->processes[other].load();
    if (process && kill(process, 0) != 0 && errno == ESRCH)
      throw std::runtime_error("the process of rank " + std::to_string(other) + " has ended");
  }
}
