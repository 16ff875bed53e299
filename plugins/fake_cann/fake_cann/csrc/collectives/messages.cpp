#include "messages.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>

using namespace fake_cann;

namespace {

Pipe& pipe_of(const Message& it) {
  return it.is_sent ? it.board->pipe(it.board->rank, it.other) : it.board->pipe(it.other, it.board->rank);
}

// Moves as many bytes as there are, or have room; returns how many.
size_t move(Message& it) {
  auto& pipe = pipe_of(it);
  const uint64_t written = pipe.written.load(), taken = pipe.taken.load();
  const uint64_t place = it.is_sent ? written : taken;
  const uint64_t possible = it.is_sent ? kPipe - (written - taken) : written - taken;
  size_t part = std::min<uint64_t>({it.left, possible, kPipe - place % kPipe});
  char* shared = pipe.bytes + place % kPipe;
  if (it.is_sent) {
    std::memcpy(shared, it.data, part);
    pipe.written.store(written + part);
  } else {
    std::memcpy(it.data, shared, part);
    pipe.taken.store(taken + part);
  }
  it.data += part;
  it.left -= part;
  return part;
}

bool is_empty(const Pipe& pipe) { return pipe.written.load() == pipe.taken.load(); }
bool is_full(const Pipe& pipe) { return pipe.written.load() - pipe.taken.load() == kPipe; }

// While it lives, the other rank sees that this one does nothing but wait with a message.
class Waiting {
 public:
  explicit Waiting(const Message& it) : it_(it) { flag(pipe_of(it_)).store(1); }
  ~Waiting() { flag(pipe_of(it_)).store(0); }

  // Each of two ranks that only wait for the other would wait forever.
  void check() const {
    auto &mine = pipe_of(it_), &back = pipe_of({it_.board, !it_.is_sent, nullptr, 0, it_.other});
    auto& theirs = it_.is_sent ? it_.board->pipe(it_.other, it_.board->rank) : it_.board->pipe(it_.board->rank, it_.other);
    if (&mine == &theirs || !flag(theirs).load()) return;
    if (it_.is_sent && is_full(mine) && is_full(back))
      throw std::runtime_error("both ranks send more than 4 MiB, then receive: use batch_isend_irecv");
    if (!it_.is_sent && is_empty(mine) && is_empty(theirs))
      throw std::runtime_error("both ranks receive, and none sends");
  }

 private:
  std::atomic<uint32_t>& flag(Pipe& pipe) const { return it_.is_sent ? pipe.sender_waits : pipe.receiver_waits; }
  const Message it_;
};

}  // namespace

void fake_cann::exchange_messages(std::vector<Message> messages) {
  constexpr int kSpins = 200, kChecked = 1024;
  const auto until = end_of(kInGroup);
  std::unique_ptr<Waiting> waiting;
  for (int turn = 0;;) {
    bool is_moved = false, is_done = true;
    std::set<std::tuple<Board*, bool, int>> begun;
    for (auto& it : messages) {
      if (!it.left || !begun.emplace(it.board, it.is_sent, it.other).second) continue;
      while (it.left) {
        const size_t part = move(it);
        if (!part) break;
        is_moved = true;
      }
      is_done = is_done && !it.left;
      if (!it.left) begun.erase({it.board, it.is_sent, it.other});
    }
    if (is_done) return;
    if (is_moved) {
      turn = 0;
      waiting.reset();
      continue;
    }
    if (++turn <= kSpins) continue;
    if (messages.size() == 1 && !waiting) waiting = std::make_unique<Waiting>(messages[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (turn % kChecked != kChecked - 1) continue;
    if (waiting) waiting->check();
    for (auto& it : messages) it.board->check_that_all_live();
    if (std::chrono::steady_clock::now() > until) give_up(kInGroup);
  }
}
