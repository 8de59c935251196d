// What tests of the transport share: operations on random arguments, each with what brute force says of it.
#pragma once

#include "comm/mpi_communicator.hpp"
#include "comm/transport.hpp"
#include "harness/mpi_test.hpp"
#include "quant/bfloat16.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

inline std::int64_t any(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// A transport over all ranks, along one axis.
struct AllRanks {
  explicit AllRanks(const std::vector<std::string>& lanes = {"first", "second"},
                    LargeTransfers large = LargeTransfers::read_directly)
      : session(large == LargeTransfers::read_directly ? world().split(0, "world") : mpi_world(large)),
        transport(session, make_mesh("world", {{"all", world().size()}}), lanes, {{"all"}, {}}) {}
  Session session;
  Transport transport;
  std::size_t size = static_cast<std::size_t>(world().size());
  std::size_t rank = static_cast<std::size_t>(world().rank());
};

inline std::span<std::byte> bytes_of(std::vector<double>& values) { return std::as_writable_bytes(std::span(values)); }

// Brute force: every rank computes what all ranks hold, and what must come of it, element by element.

/// What `rank` has in its buffer number `seed`: sums of these depend on the order.
inline Bytes values_of(std::uint64_t seed, int rank, std::int64_t count, DType dtype) {
  Bytes bytes(static_cast<std::size_t>(count * size_of(dtype)));
  std::uint64_t state = seed * 1009 + static_cast<std::uint64_t>(rank);
  const auto fill = [&](auto zero, auto make) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const T value = make(static_cast<std::int64_t>(state >> 44) - (1 << 19));
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  const float scale = rank % 2 == 0 ? 1e-3f : 1e3f;
  switch (dtype) {
    case DType::f64: fill(double{}, [&](std::int64_t x) { return static_cast<double>(x) * (1.0 / 3) * scale; }); break;
    case DType::f32: fill(float{}, [&](std::int64_t x) { return static_cast<float>(x) * scale; }); break;
    case DType::bf16:
      fill(std::uint16_t{}, [&](std::int64_t x) { return to_bf16(static_cast<float>(x) * scale); });
      break;
    case DType::i64: fill(std::int64_t{}, [](std::int64_t x) { return x; }); break;
    case DType::u64:
      fill(std::uint64_t{}, [](std::int64_t x) { return static_cast<std::uint64_t>(x + (1 << 19)); });
      break;
    case DType::i32: fill(std::int32_t{}, [](std::int64_t x) { return static_cast<std::int32_t>(x); }); break;
    default: fill(std::uint8_t{}, [](std::int64_t x) { return static_cast<std::uint8_t>(x & 255); });
  }
  return bytes;
}

/// The sum of the element at `at` of every operand, in their order.
inline void add_up(const std::vector<Bytes>& operands, std::size_t at, std::byte* into, DType dtype) {
  const auto sum = [&](auto zero) {
    decltype(zero) total{}, value{};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      std::memcpy(&value, operands[i].data() + at, sizeof value);
      total = i == 0 ? value : static_cast<decltype(zero)>(total + value);
    }
    std::memcpy(into, &total, sizeof total);
  };
  switch (dtype) {
    case DType::f64: return sum(double{});
    case DType::f32: return sum(float{});
    case DType::i64: return sum(std::int64_t{});
    case DType::u64: return sum(std::uint64_t{});
    case DType::i32: return sum(std::int32_t{});
    default: break;
  }
  float total = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::uint16_t value = 0;
    std::memcpy(&value, operands[i].data() + at, sizeof value);
    total = i == 0 ? from_bf16(value) : total + from_bf16(value);
  }
  const std::uint16_t rounded = to_bf16(total);
  std::memcpy(into, &rounded, sizeof rounded);
}

inline Bytes sum_of(const std::vector<Bytes>& operands, DType dtype) {
  Bytes result(operands.front().size());
  for (std::size_t at = 0; at < result.size(); at += static_cast<std::size_t>(size_of(dtype)))
    add_up(operands, at, result.data() + at, dtype);
  return result;
}

/// Pieces of any length in any order with gaps, some ranks perhaps without; about `length` elements in all.
inline ShardMap any_map(Random& random, std::size_t ranks, std::int64_t length) {
  ShardMap map{.whole_length = 0, .shard_length = 0, .pieces = std::vector<std::vector<ShardPiece>>(ranks)};
  std::vector<std::int64_t> ends(ranks);
  const std::size_t idle =
      static_cast<std::size_t>(any(random, 0, static_cast<std::int64_t>(2 * ranks)));  // may be none
  while (map.whole_length < length) {
    const auto owner = static_cast<std::size_t>(any(random, 0, static_cast<std::int64_t>(ranks) - 1));
    const std::int64_t part =
        std::min(any(random, 1, std::max(length / 3, std::int64_t{2})), length - map.whole_length);
    const std::int64_t gap = any(random, 0, 1) * any(random, 0, 5);
    if (owner != idle || ranks == 1) {
      map.pieces[owner].push_back({map.whole_length + gap, ends[owner] + gap % 2, part});
      ends[owner] += gap % 2 + part;
    }
    map.whole_length += gap + part;
  }
  map.whole_length += any(random, 0, 3);
  map.shard_length = *std::ranges::max_element(ends) + any(random, 0, 3);
  return map;
}

inline std::span<std::byte> at(Bytes& bytes, std::int64_t begin, std::int64_t length, DType dtype) {
  const auto width = static_cast<std::size_t>(size_of(dtype));
  return std::span(bytes).subspan(static_cast<std::size_t>(begin) * width, static_cast<std::size_t>(length) * width);
}

inline void copy(std::span<const std::byte> from, std::span<std::byte> to) { std::ranges::copy(from, to.begin()); }

inline double read_number(std::span<const std::byte> bytes, DType dtype) {
  const auto as = [&](auto value) {
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  };
  if (dtype == DType::f64) return as(double{});
  return dtype == DType::f32 ? as(float{}) : from_bf16(as(std::uint16_t{}));
}

/// What a `sum` becomes in a place that holds `before`.
inline Bytes put(std::span<const std::byte> sum, DType dtype, std::span<const std::byte> before, const SumInto& into) {
  const DType there = into.dtype.value_or(dtype);
  if (there == dtype && into.how == SumInto::Mode::replace) return {sum.begin(), sum.end()};
  if (there == dtype) return sum_of({Bytes(before.begin(), before.end()), Bytes(sum.begin(), sum.end())}, dtype);
  Bytes result(before.size());
  const auto from = static_cast<std::size_t>(size_of(dtype)), to = static_cast<std::size_t>(size_of(there));
  for (std::size_t i = 0; i < sum.size() / from; ++i) {
    double value = read_number(sum.subspan(i * from), dtype);
    if (into.how == SumInto::Mode::add) value += read_number(before.subspan(i * to), there);
    const auto single = static_cast<float>(value);
    const std::uint16_t half = to_bf16(single);
    const void* stored = there == DType::f64   ? static_cast<const void*>(&value)
                         : there == DType::f32 ? static_cast<const void*>(&single)
                                               : static_cast<const void*>(&half);
    std::memcpy(result.data() + i * to, stored, to);
  }
  return result;
}

/// Adds or replaces; where the sum is of a floating type, perhaps in another one.
inline SumInto any_place(Random& random, DType dtype) {
  SumInto into{.how = any(random, 0, 1) == 0 ? SumInto::Mode::replace : SumInto::Mode::add};
  constexpr std::array floats{DType::f64, DType::f32, DType::bf16};
  const auto choice = static_cast<std::size_t>(any(random, 0, 3));
  if (choice < floats.size() && std::ranges::find(floats, dtype) != floats.end()) into.dtype = floats[choice];
  return into;
}

/// An operation on a group: what this rank passes in, and what it must find when it is done.
struct Task {
  std::function<Ticket(Transport&, const Region& in, const Region& out)> issue;  // empty: nothing to do
  std::unique_ptr<Bytes> in, out;
  Bytes expected;
  std::unique_ptr<ShardMap> map = {};
  std::unique_ptr<std::vector<std::int64_t>> sent = {}, received = {};
  std::int64_t bytes = 0;
  Ticket start(Transport& transport) const { return issue(transport, *in, *out); }
  bool right() const { return *out == expected; }
};

inline constexpr std::array sums{DType::f64, DType::f32, DType::bf16, DType::i64, DType::u64, DType::i32};

inline Task make_task(OperationRecord::Kind kind, int lane, int group, std::size_t ranks, std::size_t rank,
                      std::int64_t length, DType dtype, std::uint64_t seed) {
  using Kind = OperationRecord::Kind;
  Random random(seed);  // equal on all ranks
  Task task{.issue = {}, .in = std::make_unique<Bytes>(), .out = std::make_unique<Bytes>(), .expected = {}};
  Bytes &in = *task.in, &out = *task.out;
  const auto mine = static_cast<int>(rank);
  const auto all = [&](std::int64_t count) {
    std::vector<Bytes> values;
    for (std::size_t r = 0; r < ranks; ++r) values.push_back(values_of(seed, static_cast<int>(r), count, dtype));
    return values;
  };
  switch (kind) {
    case Kind::all_reduce: {
      out = values_of(seed, mine, length, dtype);
      task.expected = sum_of(all(length), dtype);
      task.bytes = std::ssize(out);
      if (any(random, 0, 1) == 0) {
        const SumInto into = any_place(random, dtype);
        in = std::exchange(out, values_of(seed + 1, mine, length, into.dtype.value_or(dtype)));
        task.expected = put(task.expected, dtype, out, into);
        task.issue = [=](Transport& t, const Region& given, const Region& got) {
          return t.all_reduce_into(lane, group, given, dtype, got, into);
        };
        return task;
      }
      task.issue = [=](Transport& t, const Region&, const Region& got) {
        return t.all_reduce(lane, group, got, dtype, Reduce::sum);
      };
      return task;
    }
    case Kind::all_gather: {
      task.map = std::make_unique<ShardMap>(any_map(random, ranks, length));
      const ShardMap& map = *task.map;
      check(map);
      in = values_of(seed, mine, map.shard_length, dtype);
      out = values_of(seed + 1, mine, map.whole_length, dtype);  // what lies in gaps stays
      task.expected = out;
      const std::vector<Bytes> shards = all(map.shard_length);
      for (std::size_t r = 0; r < ranks; ++r) {
        Bytes shard = shards[r];
        for (const ShardPiece& piece : map.pieces[r]) {
          copy(at(shard, piece.shard, piece.length, dtype), at(task.expected, piece.whole, piece.length, dtype));
        }
      }
      task.bytes = std::ssize(in);
      task.issue = [=, &map](Transport& t, const Region& given, const Region& got) {
        return t.all_gather(lane, group, given, got, map, dtype);
      };
      return task;
    }
    case Kind::reduce_scatter: {
      task.map = std::make_unique<ShardMap>(any_map(random, ranks, length));
      const ShardMap& map = *task.map;
      const SumInto into = any_place(random, dtype);
      const DType there = into.dtype.value_or(dtype);
      in = values_of(seed, mine, map.whole_length, dtype);
      out = values_of(seed + 1, mine, map.shard_length, there);
      task.expected = out;
      Bytes sum = sum_of(all(map.whole_length), dtype), held = out;
      for (const ShardPiece& piece : map.pieces[rank]) {
        const std::span<std::byte> here = at(sum, piece.whole, piece.length, dtype);
        const std::span<std::byte> before = at(held, piece.shard, piece.length, there);
        copy(put(here, dtype, before, into), at(task.expected, piece.shard, piece.length, there));
      }
      task.bytes = std::ssize(in);
      task.issue = [=, &map](Transport& t, const Region& given, const Region& got) {
        return t.reduce_scatter(lane, group, given, got, map, dtype, into);
      };
      return task;
    }
    case Kind::broadcast: {
      const auto root = static_cast<int>(any(random, 0, static_cast<std::int64_t>(ranks) - 1));
      out = values_of(seed, mine, length, dtype);
      task.expected = values_of(seed, root, length, dtype);
      task.bytes = root == mine ? std::ssize(out) : 0;
      task.issue = [=](Transport& t, const Region&, const Region& got) { return t.broadcast(lane, group, root, got); };
      return task;
    }
    case Kind::send:
    case Kind::receive: {  // between two ranks; the others have nothing to do
      const auto from = static_cast<int>(any(random, 0, static_cast<std::int64_t>(ranks) - 1));
      const auto to = static_cast<int>((static_cast<std::size_t>(from) + 1) % ranks);
      out = values_of(seed, mine, length, dtype);
      task.expected = mine == to ? values_of(seed, from, length, dtype) : out;
      if (from == to) return task;
      task.bytes = mine == from ? std::ssize(out) : 0;
      if (mine == from)
        task.issue = [=](Transport& t, const Region&, const Region& got) { return t.send(lane, group, to, got); };
      if (mine == to)
        task.issue = [=](Transport& t, const Region&, const Region& got) {
          return t.receive(lane, group, from, got, lane);
        };
      return task;
    }
    case Kind::all_to_all_v: {
      std::vector<std::vector<std::int64_t>> counts(ranks, std::vector<std::int64_t>(ranks));
      for (auto& row : counts)
        for (std::int64_t& count : row) count = any(random, 0, 2) == 0 ? 0 : any(random, 0, length);
      task.sent = std::make_unique<std::vector<std::int64_t>>(counts[rank]);
      task.received = std::make_unique<std::vector<std::int64_t>>();
      for (std::size_t r = 0; r < ranks; ++r) {
        task.received->push_back(counts[r][rank]);
        Bytes theirs = values_of(seed, static_cast<int>(r), std::reduce(counts[r].begin(), counts[r].end()), dtype);
        const auto before = std::reduce(counts[r].begin(), counts[r].begin() + static_cast<std::ptrdiff_t>(rank));
        const std::span<std::byte> part = at(theirs, before, counts[r][rank], dtype);
        task.expected.insert(task.expected.end(), part.begin(), part.end());
      }
      in = values_of(seed, mine, std::reduce(task.sent->begin(), task.sent->end()), dtype);
      out.resize(task.expected.size());
      task.bytes = std::ssize(in);
      task.issue = [=, &sent = *task.sent, &received = *task.received](Transport& t, const Region& given,
                                                                       const Region& got) {
        return t.all_to_all_v(lane, group, given, sent, got, received, dtype);
      };
      return task;
    }
    case Kind::shift: {
      in = values_of(seed, mine, length, dtype);
      task.expected = values_of(seed, static_cast<int>((rank + ranks - 1) % ranks), length, dtype);
      out.resize(in.size());
      task.bytes = std::ssize(in);
      task.issue = [=](Transport& t, const Region& given, const Region& got) {
        return t.shift(lane, group, given, got, dtype);
      };
      return task;
    }
    case Kind::copy: break;  // of this rank alone
  }
  return task;
}

inline constexpr std::array kinds{OperationRecord::Kind::all_reduce,     OperationRecord::Kind::all_gather,
                                  OperationRecord::Kind::reduce_scatter, OperationRecord::Kind::broadcast,
                                  OperationRecord::Kind::send,           OperationRecord::Kind::all_to_all_v,
                                  OperationRecord::Kind::shift};

}  // namespace lockstep::test
