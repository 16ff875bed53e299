#include "board.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "../exported.h"

using fake_cann::Board;

namespace {

constexpr size_t kHeadBytes = 4096;

// A process that has ended stays in the table of processes until its parent has asked for it: it is no longer alive.
bool lives(int process) {
  if (kill(process, 0) != 0 && errno == ESRCH) return false;
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  const auto state = line.rfind(')') + 2;  // behind the name, which may have anything in it
  return state >= line.size() || (line[state] != 'Z' && line[state] != 'X');
}

}  // namespace

std::chrono::steady_clock::time_point fake_cann::end_of(const Patience& patience) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(number_of_environment(patience.variable, patience.seconds));
}

void fake_cann::give_up(const Patience& patience) {
  throw std::runtime_error(std::string("a rank did not come in time (") + patience.variable + ")");
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
  try {
    meet(kForGroup);
  } catch (...) {
    shm_unlink(name.c_str());
    munmap(head_, bytes_);
    throw;
  }
  if (rank == 0) shm_unlink(name.c_str());
}

Board::~Board() { munmap(head_, bytes_); }

void Board::meet(const Patience& patience) {
  uint32_t round = head_->round.load();
  if (head_->arrived.fetch_add(1) + 1 == uint32_t(ranks)) {
    head_->arrived.store(0);
    head_->round.fetch_add(1);
    return;
  }
  const auto until = end_of(patience);
  for (int turn = 0; head_->round.load() == round; ++turn) {
    constexpr int kSpins = 200, kChecked = 1024;
    if (turn > kSpins) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (turn % kChecked != kChecked - 1) continue;
    check_that_all_live();
    if (std::chrono::steady_clock::now() > until) give_up(patience);
  }
}

void Board::check_that_all_live() const {
  for (int other = 0; other < ranks; ++other) {
    int process = head_->processes[other].load();
    if (process && !lives(process))
      throw std::runtime_error("the process of rank " + std::to_string(other) + " has ended");
  }
}
