// Collectives between processes of one machine. Each is: show my part, wait for all, take what I need, wait for all.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../exported.h"
#include "board.h"
#include "messages.h"
#include "reductions.h"

using fake_cann::Board;
using fake_cann::kSlot;
using fake_cann::Message;

namespace {

enum HcclStatus { kOk = 0, kInternal = 4, kNotSupported = 5 };
constexpr size_t kNameBytes = 4108;
thread_local std::string message = "no error";

Board& board_of(void* handle) { return *static_cast<Board*>(handle); }
char* bytes(void* data) { return static_cast<char*>(data); }
const char* bytes(const void* data) { return static_cast<const char*>(data); }

template <class Work>
int guarded(Work work) {
  try {
    work();
    return kOk;
  } catch (const std::exception& error) {
    message = std::string("fake HCCL: ") + error.what();
    fake_cann_set_message(message.c_str());
    return message.find("NotEmulated") == std::string::npos ? kInternal : kNotSupported;
  }
}

// Runs show(done, part), waits, take(done, part), waits, over as many rounds as `count` elements need of which a slot
// holds `parts` times `part`.
template <class Show, class Take>
int exchange(void* handle, uint64_t count, int type, Show show, Take take, size_t parts = 1) {
  return guarded([&] {
    auto& board = board_of(handle);
    size_t most = kSlot / fake_cann::size_of(type) / parts;
    for (size_t done = 0; done < count; done += most) {
      size_t part = count - done < most ? count - done : most;
      show(board, done, part);
      board.meet();
      take(board, done, part);
      board.meet();
    }
  });
}

// Messages of a group are exchanged at its end.
thread_local int open_groups = 0;
thread_local std::vector<Message> of_group;

int pass(std::vector<Message> messages) {
  if (open_groups) {
    of_group.insert(of_group.end(), messages.begin(), messages.end());
    return kOk;
  }
  return guarded([&] { fake_cann::exchange_messages(std::move(messages)); });
}

int pass_one(bool is_sent, void* data, uint64_t count, int type, uint32_t other, void* handle) {
  return guarded([&] {
    auto& board = board_of(handle);
    if (int(other) >= board.ranks) throw std::runtime_error("there is no rank " + std::to_string(other));
    const int status = pass({{&board, is_sent, bytes(data), count * fake_cann::size_of(type), int(other)}});
    if (status != kOk) throw std::runtime_error(message);
  });
}

// One of several messages, as torch_npu fills it in.
struct Item {
  int deed;
  void* data;
  uint64_t count;
  int type;
  uint32_t other;
};
constexpr int kSends = 0;

uint64_t at(const void* numbers, int place) { return static_cast<const uint64_t*>(numbers)[place]; }
uint64_t largest(const void* numbers, int count) {
  uint64_t found = 0;
  for (int place = 0; place < count; ++place) found = std::max(found, at(numbers, place));
  return found;
}
// How many of `count` elements are in the round that begins with element `done`.
size_t rest(uint64_t count, size_t done, size_t part) { return count > done ? std::min<size_t>(count - done, part) : 0; }

int open(uint32_t ranks, const char* name, uint32_t rank, void** communicator) {
  return guarded([&] { *communicator = new Board(name, int(ranks), int(rank)); });
}

}  // namespace

// ---- communicators
EXPORTED int HcclGetRootInfo(char* name) {
  static std::atomic<int> number{0};
  std::memset(name, 0, kNameBytes);
  auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(name, kNameBytes, "/fake-cann-%d-%d-%lld", getpid(), number++, static_cast<long long>(now));
  return kOk;
}
EXPORTED int HcclCommInitRootInfo(uint32_t ranks, const char* name, uint32_t rank, void** communicator) {
  return open(ranks, name, rank, communicator);
}
EXPORTED int HcclCommInitRootInfoConfig(uint32_t ranks, const char* name, uint32_t rank, const void*, void** communicator) {
  return open(ranks, name, rank, communicator);
}
// The communicators of all devices of this process: each collective has a thread for each of them.
EXPORTED int HcclCommInitAll(uint32_t count, int32_t*, void** communicators) {
  return guarded([&] {
    char name[kNameBytes];
    HcclGetRootInfo(name);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] { open(count, name, rank, &communicators[rank]); });
    for (auto& thread : threads) thread.join();
  });
}
EXPORTED uint32_t HcclGetCommConfigCapability() { return 12; }
EXPORTED void HcclCommConfigInit(void*) {}
EXPORTED int HcclGetCommName(void* handle, char* name) {
  std::strcpy(name, board_of(handle).name.c_str() + 1);
  return kOk;
}
EXPORTED int HcclCommDestroy(void* handle) {
  delete static_cast<Board*>(handle);
  return kOk;
}
EXPORTED int HcclGetCommAsyncError(void*, int* error) {
  *error = kOk;
  return kOk;
}
EXPORTED const char* HcclGetErrorString(int) { return message.c_str(); }
EXPORTED int HcclGetRankId(void* handle, uint32_t* rank) {
  *rank = uint32_t(board_of(handle).rank);
  return kOk;
}
EXPORTED int HcclGetRankSize(void* handle, uint32_t* ranks) {
  *ranks = uint32_t(board_of(handle).ranks);
  return kOk;
}
EXPORTED int HcclSetConfig(int, int32_t) { return kOk; }
EXPORTED int HcclCommResume(void*) { return kOk; }
EXPORTED int HcclGroupStart() {
  ++open_groups;
  return kOk;
}
EXPORTED int HcclGroupEnd() {
  if (--open_groups > 0) return kOk;
  open_groups = 0;
  std::vector<Message> messages;
  messages.swap(of_group);
  return pass(std::move(messages));
}

// ---- collectives
EXPORTED int HcclAllReduce(void* from, void* to, uint64_t count, int type, int operation, void* handle, void*) {
  return exchange(
      handle, count, type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        std::memcpy(b.slot(b.rank), bytes(from) + done * item, part * item);
      },
      [&](Board& b, size_t done, size_t part) {
        fake_cann::reduce(b, bytes(to) + done * fake_cann::size_of(type), 0, part, type, operation);
      });
}

EXPORTED int HcclReduce(void* from, void* to, uint64_t count, int type, int operation, uint32_t root, void* handle, void*) {
  return exchange(
      handle, count, type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        std::memcpy(b.slot(b.rank), bytes(from) + done * item, part * item);
      },
      [&](Board& b, size_t done, size_t part) {
        if (uint32_t(b.rank) == root)
          fake_cann::reduce(b, bytes(to) + done * fake_cann::size_of(type), 0, part, type, operation);
      });
}

EXPORTED int HcclBroadcast(void* data, uint64_t count, int type, uint32_t root, void* handle, void*) {
  return exchange(
      handle, count, type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        if (uint32_t(b.rank) == root) std::memcpy(b.slot(b.rank), bytes(data) + done * item, part * item);
      },
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        if (uint32_t(b.rank) != root) std::memcpy(bytes(data) + done * item, b.slot(int(root)), part * item);
      });
}

EXPORTED int HcclAllGather(void* from, void* to, uint64_t count, int type, void* handle, void*) {
  return exchange(
      handle, count, type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        std::memcpy(b.slot(b.rank), bytes(from) + done * item, part * item);
      },
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        for (int rank = 0; rank < b.ranks; ++rank)
          std::memcpy(bytes(to) + (size_t(rank) * count + done) * item, b.slot(rank), part * item);
      });
}

EXPORTED int HcclReduceScatter(void* from, void* to, uint64_t count, int type, int operation, void* handle, void*) {
  return exchange(
      handle, count, type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        for (int rank = 0; rank < b.ranks; ++rank)
          std::memcpy(b.slot(b.rank) + size_t(rank) * part * item, bytes(from) + (size_t(rank) * count + done) * item,
                      part * item);
      },
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        fake_cann::reduce(b, bytes(to) + done * item, size_t(b.rank) * part * item, part, type, operation);
      },
      size_t(board_of(handle).ranks));
}

EXPORTED int HcclScatter(void* from, void* to, uint64_t count, int type, uint32_t root, void* handle, void*) {
  return exchange(
      handle, count, type,
      [&](Board& b, size_t done, size_t part) {
        if (uint32_t(b.rank) != root) return;
        size_t item = fake_cann::size_of(type);
        for (int rank = 0; rank < b.ranks; ++rank)
          std::memcpy(b.slot(rank), bytes(from) + (size_t(rank) * count + done) * item, part * item);
      },
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        std::memcpy(bytes(to) + done * item, b.slot(b.rank), part * item);
      });
}

EXPORTED int HcclAlltoAll(const void* from, uint64_t count, int type, void* to, uint64_t, int, void* handle, void*) {
  return exchange(
      handle, count, type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        for (int rank = 0; rank < b.ranks; ++rank)
          std::memcpy(b.slot(b.rank) + size_t(rank) * part * item, bytes(from) + (size_t(rank) * count + done) * item,
                      part * item);
      },
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        for (int rank = 0; rank < b.ranks; ++rank)
          std::memcpy(bytes(to) + (size_t(rank) * count + done) * item, b.slot(rank) + size_t(b.rank) * part * item,
                      part * item);
      },
      size_t(board_of(handle).ranks));
}

// ---- a size for each rank
EXPORTED int HcclAllGatherV(const void* from, uint64_t count, void* to, const void* counts, const void* starts, int type,
                            void* handle, void*) {
  return exchange(
      handle, largest(counts, board_of(handle).ranks), type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        std::memcpy(b.slot(b.rank), bytes(from) + done * item, rest(count, done, part) * item);
      },
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        for (int rank = 0; rank < b.ranks; ++rank)
          std::memcpy(bytes(to) + (at(starts, rank) + done) * item, b.slot(rank), rest(at(counts, rank), done, part) * item);
      });
}

EXPORTED int HcclReduceScatterV(const void* from, const void* counts, const void* starts, void* to, uint64_t count,
                                int type, int operation, void* handle, void*) {
  return exchange(
      handle, largest(counts, board_of(handle).ranks), type,
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        for (int rank = 0; rank < b.ranks; ++rank)
          std::memcpy(b.slot(b.rank) + size_t(rank) * part * item, bytes(from) + (at(starts, rank) + done) * item,
                      rest(at(counts, rank), done, part) * item);
      },
      [&](Board& b, size_t done, size_t part) {
        size_t item = fake_cann::size_of(type);
        fake_cann::reduce(b, bytes(to) + done * item, size_t(b.rank) * part * item, rest(count, done, part), type,
                          operation);
      },
      size_t(board_of(handle).ranks));
}

EXPORTED int HcclAlltoAllV(void* from, const void* sent, const void* sent_from, int type, void* to, const void* received,
                           const void* received_to, int received_type, void* handle, void*) {
  return guarded([&] {
    auto& b = board_of(handle);
    const size_t item = fake_cann::size_of(type), other_item = fake_cann::size_of(received_type);
    std::vector<Message> messages;
    for (int rank = 0; rank < b.ranks; ++rank) {
      messages.push_back({&b, true, bytes(from) + at(sent_from, rank) * item, at(sent, rank) * item, rank});
      messages.push_back(
          {&b, false, bytes(to) + at(received_to, rank) * other_item, at(received, rank) * other_item, rank});
    }
    fake_cann::exchange_messages(std::move(messages));
  });
}

// ---- messages
EXPORTED int HcclSend(void* data, uint64_t count, int type, uint32_t to, void* handle, void*) {
  return pass_one(true, data, count, type, to, handle);
}
EXPORTED int HcclRecv(void* data, uint64_t count, int type, uint32_t from, void* handle, void*) {
  return pass_one(false, data, count, type, from, handle);
}
EXPORTED int HcclBatchSendRecv(const Item* items, uint32_t count, void* handle, void*) {
  return guarded([&] {
    std::vector<Message> messages;
    for (auto* it = items; it != items + count; ++it)
      messages.push_back({&board_of(handle), it->deed == kSends, bytes(it->data),
                          it->count * fake_cann::size_of(it->type), int(it->other)});
    fake_cann::exchange_messages(std::move(messages));
  });
}

EXPORTED int HcclBarrier(void* handle, void*) {
  return guarded([&] { board_of(handle).meet(); });
}
