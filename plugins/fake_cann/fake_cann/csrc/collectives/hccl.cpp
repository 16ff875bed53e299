// Collectives between processes of one machine. Each is: show my part, wait for all, take what I need, wait for all.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "../exported.h"
#include "board.h"
#include "reductions.h"

using fake_cann::Board;
using fake_cann::kSlot;

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

int refuse(const char* name) {
  message = std::string("NotEmulated: the fake CANN has no ") + name;
  fake_cann_set_message(message.c_str());
  return kNotSupported;
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

// The end of a slot, which messages leave free: what its rank does, and whether both have sent and none has received.
enum Deed : uint32_t { kSends = 1, kReceives = 2 };
struct Note {
  uint32_t deed, both_have_sent;
};
Note& note_of(Board& board, int rank) { return *reinterpret_cast<Note*>(board.slot(rank) + kSlot - sizeof(Note)); }

// One rank sends while the other receives. Two ranks that first send to each other and then receive find the messages
// where these were shown, unless a message needs several rounds.
int message_between_two(void* handle, void* data, uint64_t count, int type, Deed deed) {
  return guarded([&] {
    auto& board = board_of(handle);
    if (board.ranks != 2) throw std::runtime_error("NotEmulated: send and recv in a communicator of more than two ranks");
    int other = 1 - board.rank;
    auto &mine = note_of(board, board.rank), &theirs = note_of(board, other);
    size_t item = fake_cann::size_of(type), most = (kSlot - sizeof(Note)) / item;
    for (size_t done = 0; done < count; done += most) {
      size_t part = count - done < most ? count - done : most;
      if (deed == kSends) std::memcpy(board.slot(board.rank), bytes(data) + done * item, part * item);
      mine.deed = deed;
      board.meet();
      if (theirs.deed == deed) {
        if (count > most) throw std::runtime_error("NotEmulated: both ranks send more than 4 MiB, then receive");
        if (bool(mine.both_have_sent) == (deed == kSends))
          throw std::runtime_error(deed == kSends ? "NotEmulated: both ranks send twice, then receive"
                                                  : "both ranks receive, and none sends");
        mine.both_have_sent = deed == kSends;
      }
      if (deed == kReceives) std::memcpy(bytes(data) + done * item, board.slot(other), part * item);
      board.meet();
    }
  });
}

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
EXPORTED int HcclGroupStart() { return kOk; }
EXPORTED int HcclGroupEnd() { return kOk; }

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

// ---- messages: torch_npu makes a communicator of their own for each pair of ranks
EXPORTED int HcclSend(void* data, uint64_t count, int type, uint32_t, void* handle, void*) {
  return message_between_two(handle, data, count, type, kSends);
}
EXPORTED int HcclRecv(void* data, uint64_t count, int type, uint32_t, void* handle, void*) {
  return message_between_two(handle, data, count, type, kReceives);
}

// ---- not computed
EXPORTED int HcclBatchSendRecv(...) { return refuse("HcclBatchSendRecv"); }
EXPORTED int HcclAlltoAllV(...) { return refuse("HcclAlltoAllV"); }
EXPORTED int HcclAllGatherV(...) { return refuse("HcclAllGatherV"); }
EXPORTED int HcclReduceScatterV(...) { return refuse("HcclReduceScatterV"); }
EXPORTED int HcclBarrier(void* handle, void*) {
  return guarded([&] { board_of(handle).meet(); });
}
