#include "reductions.h"

#include <cstring>
#include <stdexcept>

using fake_cann::Board;

namespace {

#if defined(__aarch64__)
using Float16 = __fp16;  // g++ has _Float16 for C++ from 13 on there
#else
using Float16 = _Float16;
#endif

enum Operation { kSum, kProduct, kMaximum, kMinimum };

// Half precision is reduced in float, as a loss that is summed over ranks is not to overflow earlier than on one device.
struct Half {
  using Stored = uint16_t;
  static float read(Stored bits) {
    Float16 value;
    std::memcpy(&value, &bits, sizeof value);
    return float(value);
  }
  static Stored write(float value) {
    auto small = static_cast<Float16>(value);
    Stored bits;
    std::memcpy(&bits, &small, sizeof bits);
    return bits;
  }
};
struct BFloat {
  using Stored = uint16_t;
  static float read(Stored bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  static Stored write(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    return Stored((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
};
template <class T>
struct Plain {
  using Stored = T;
  static T read(T value) { return value; }
  static T write(T value) { return value; }
};

template <class T>
T combine(T a, T b, int operation) {
  switch (operation) {
    case kSum: return T(a + b);
    case kProduct: return T(a * b);
    case kMaximum: return a > b ? a : b;
    case kMinimum: return a < b ? a : b;
    default: throw std::runtime_error("NotEmulated: reduction " + std::to_string(operation));
  }
}

template <class Format>
void reduce_as(const Board& board, void* to, size_t offset, size_t count, int operation) {
  using Stored = typename Format::Stored;
  auto shown = [&](int rank) { return reinterpret_cast<const Stored*>(board.slot(rank) + offset); };
  auto* result = static_cast<Stored*>(to);
  for (size_t i = 0; i < count; ++i) {
    auto value = Format::read(shown(0)[i]);
    for (int rank = 1; rank < board.ranks; ++rank) value = combine(value, Format::read(shown(rank)[i]), operation);
    result[i] = Format::write(value);
  }
}

}  // namespace

size_t fake_cann::size_of(int type) {
  switch (type) {
    case 0: case 7: case 14: case 15: case 16: case 17: return 1;
    case 1: case 3: case 8: case 11: return 2;
    case 2: case 4: case 9: return 4;
    case 5: case 6: case 10: return 8;
    default: throw std::runtime_error("NotEmulated: collectives of type " + std::to_string(type));
  }
}

void fake_cann::reduce(const Board& board, void* to, size_t offset, size_t count, int type, int operation) {
  switch (type) {
    case 0: return reduce_as<Plain<int8_t>>(board, to, offset, count, operation);
    case 1: return reduce_as<Plain<int16_t>>(board, to, offset, count, operation);
    case 2: return reduce_as<Plain<int32_t>>(board, to, offset, count, operation);
    case 3: return reduce_as<Half>(board, to, offset, count, operation);
    case 4: return reduce_as<Plain<float>>(board, to, offset, count, operation);
    case 5: return reduce_as<Plain<int64_t>>(board, to, offset, count, operation);
    case 6: return reduce_as<Plain<uint64_t>>(board, to, offset, count, operation);
    case 7: return reduce_as<Plain<uint8_t>>(board, to, offset, count, operation);
    case 10: return reduce_as<Plain<double>>(board, to, offset, count, operation);
    case 11: return reduce_as<BFloat>(board, to, offset, count, operation);
    default: throw std::runtime_error("NotEmulated: reductions of type " + std::to_string(type));
  }
}
