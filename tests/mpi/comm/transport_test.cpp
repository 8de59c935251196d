#include "comm/transport.hpp"

#include "base/error.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/rank_board.hpp"
#include "harness/mpi_test.hpp"
#include "quant/bfloat16.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace lockstep;
using test::world;

BOOST_AUTO_TEST_SUITE(transport_)

namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::int64_t any(Random& random, std::int64_t low, std::int64_t high) {
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

std::span<std::byte> bytes_of(std::vector<double>& values) { return std::as_writable_bytes(std::span(values)); }

// Brute force: every rank computes what all ranks hold, and what must come of it, element by element.

/// What `rank` has in its buffer number `seed`: sums of these depend on the order.
Bytes values_of(std::uint64_t seed, int rank, std::int64_t count, DType dtype) {
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
void add_up(const std::vector<Bytes>& operands, std::size_t at, std::byte* into, DType dtype) {
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

Bytes sum_of(const std::vector<Bytes>& operands, DType dtype) {
  Bytes result(operands.front().size());
  for (std::size_t at = 0; at < result.size(); at += static_cast<std::size_t>(size_of(dtype)))
    add_up(operands, at, result.data() + at, dtype);
  return result;
}

/// Pieces of any length in any order with gaps, some ranks perhaps without; about `length` elements in all.
ShardMap any_map(Random& random, std::size_t ranks, std::int64_t length) {
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

std::span<std::byte> at(Bytes& bytes, std::int64_t begin, std::int64_t length, DType dtype) {
  const auto width = static_cast<std::size_t>(size_of(dtype));
  return std::span(bytes).subspan(static_cast<std::size_t>(begin) * width, static_cast<std::size_t>(length) * width);
}

void copy(std::span<const std::byte> from, std::span<std::byte> to) { std::ranges::copy(from, to.begin()); }

double read_number(std::span<const std::byte> bytes, DType dtype) {
  const auto as = [&](auto value) {
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  };
  if (dtype == DType::f64) return as(double{});
  return dtype == DType::f32 ? as(float{}) : from_bf16(as(std::uint16_t{}));
}

/// What a `sum` becomes in a place that holds `before`.
Bytes put(std::span<const std::byte> sum, DType dtype, std::span<const std::byte> before, const SumInto& into) {
  const DType there = into.dtype.value_or(dtype);
  if (there == dtype && into.how == SumInto::How::replace) return {sum.begin(), sum.end()};
  if (there == dtype) return sum_of({Bytes(before.begin(), before.end()), Bytes(sum.begin(), sum.end())}, dtype);
  Bytes result(before.size());
  const auto from = static_cast<std::size_t>(size_of(dtype)), to = static_cast<std::size_t>(size_of(there));
  for (std::size_t i = 0; i < sum.size() / from; ++i) {
    double value = read_number(sum.subspan(i * from), dtype);
    if (into.how == SumInto::How::add) value += read_number(before.subspan(i * to), there);
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
SumInto any_place(Random& random, DType dtype) {
  SumInto into{.how = any(random, 0, 1) == 0 ? SumInto::How::replace : SumInto::How::add};
  constexpr std::array floats{DType::f64, DType::f32, DType::bf16};
  const auto choice = static_cast<std::size_t>(any(random, 0, 3));
  if (choice < floats.size() && std::ranges::find(floats, dtype) != floats.end()) into.dtype = floats[choice];
  return into;
}

/// An operation on a group: what this rank passes in, and what it must find when it is done.
struct Task {
  std::function<Ticket(Transport&)> issue;
  std::unique_ptr<Bytes> in, out;
  Bytes expected;
  std::unique_ptr<ShardMap> map = {};
  std::unique_ptr<std::vector<std::int64_t>> sent = {}, received = {};
  std::int64_t bytes = 0;
  bool right() const { return *out == expected; }
};

constexpr std::array sums{DType::f64, DType::f32, DType::bf16, DType::i64, DType::u64, DType::i32};

Task make_task(OperationRecord::Kind kind, int lane, int group, std::size_t ranks, std::size_t rank,
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
        task.issue = [=, &in, &out](Transport& t) { return t.all_reduce_into(lane, group, in, dtype, out, into); };
        return task;
      }
      task.issue = [=, &out](Transport& t) { return t.all_reduce(lane, group, out, dtype, Reduce::sum); };
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
      task.issue = [=, &in, &out, &map](Transport& t) { return t.all_gather(lane, group, in, out, map, dtype); };
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
      task.issue = [=, &in, &out, &map](Transport& t) {
        return t.reduce_scatter(lane, group, in, out, map, dtype, into);
      };
      return task;
    }
    case Kind::broadcast: {
      const auto root = static_cast<int>(any(random, 0, static_cast<std::int64_t>(ranks) - 1));
      out = values_of(seed, mine, length, dtype);
      task.expected = values_of(seed, root, length, dtype);
      task.bytes = root == mine ? std::ssize(out) : 0;
      task.issue = [=, &out](Transport& t) { return t.broadcast(lane, group, root, out); };
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
      if (mine == from) task.issue = [=, &out](Transport& t) { return t.send(lane, group, to, out); };
      if (mine == to) task.issue = [=, &out](Transport& t) { return t.receive(lane, group, from, out, lane); };
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
      task.issue = [=, &in, &out, &sent = *task.sent, &received = *task.received](Transport& t) {
        return t.all_to_all_v(lane, group, in, sent, out, received, dtype);
      };
      return task;
    }
  }
  return task;
}

constexpr std::array kinds{OperationRecord::Kind::all_reduce,     OperationRecord::Kind::all_gather,
                           OperationRecord::Kind::reduce_scatter, OperationRecord::Kind::broadcast,
                           OperationRecord::Kind::send,           OperationRecord::Kind::all_to_all_v};

void check_all_operations(LargeTransfers large, const std::vector<std::int64_t>& lengths,
                          const std::vector<DType>& dtypes) {
  AllRanks job({"first"}, large);
  std::uint64_t seed = 1;
  for (const OperationRecord::Kind kind : kinds) {
    for (const DType dtype : dtypes) {
      for (const std::int64_t length : lengths) {
        Task task = make_task(kind, 0, 0, job.size, job.rank, length, dtype, ++seed);
        if (task.issue) job.transport.wait(task.issue(job.transport));
        BOOST_TEST(task.right(), name_of(kind) << " of " << length << " " << name_of(dtype));
      }
    }
  }
}

}  // namespace

LOCKSTEP_MPI_TEST(every_operation_does_what_brute_force_says_for_every_type, test::at_least(1)) {
  check_all_operations(LargeTransfers::read_directly, {0, 1, 3, 64, 1000, 5003, 100003}, {sums.begin(), sums.end()});
}

LOCKSTEP_MPI_TEST(every_operation_reads_large_buffers_where_they_lie, test::at_least(1)) {
  check_all_operations(LargeTransfers::read_directly, {1500007}, {DType::f32});
}

LOCKSTEP_MPI_TEST(every_operation_gives_the_same_bits_by_messages_alone, test::at_least(1)) {
  check_all_operations(LargeTransfers::by_messages, {1500007}, {DType::f32});
}

LOCKSTEP_MPI_TEST(bytes_of_any_type_are_gathered, test::at_least(2)) {
  AllRanks job;
  for (const DType dtype : {DType::i8, DType::f16, DType::boolean}) {
    Task task = make_task(OperationRecord::Kind::all_gather, 0, 0, job.size, job.rank, 4001, dtype, 77);
    job.transport.wait(task.issue(job.transport));
    BOOST_TEST(task.right(), name_of(dtype));
  }
}

LOCKSTEP_MPI_TEST(a_shard_that_lies_in_the_whole_is_gathered_and_reduced_in_place, test::at_least(1)) {
  AllRanks job;
  for (const std::int64_t length : {std::int64_t{10}, std::int64_t{1000003}}) {  // by messages, directly
    ShardMap map{.whole_length = 0, .shard_length = length, .pieces = {}};
    for (std::size_t r = 0; r < job.size; ++r) {
      map.pieces.push_back({{map.whole_length, 0, length}});
      map.whole_length += length;
    }
    std::vector<double> whole(static_cast<std::size_t>(map.whole_length), 1.0 + static_cast<double>(job.rank));
    const std::span<double> shard =
        std::span(whole).subspan(job.rank * static_cast<std::size_t>(length), static_cast<std::size_t>(length));
    job.transport.wait(
        job.transport.reduce_scatter(0, 0, bytes_of(whole), std::as_writable_bytes(shard), map, DType::f64));
    const double sum = static_cast<double>(job.size * (job.size + 1)) / 2;
    BOOST_TEST((std::ranges::count(shard, sum) == length));
    std::ranges::fill(shard, static_cast<double>(job.rank));
    job.transport.wait(job.transport.all_gather(0, 0, std::as_bytes(shard), bytes_of(whole), map, DType::f64));
    bool right = true;
    for (std::size_t i = 0; i < whole.size(); ++i)
      right = right && whole[i] == static_cast<double>(i / static_cast<std::size_t>(length));
    BOOST_TEST(right);
  }
}

LOCKSTEP_MPI_TEST(a_rank_alone_in_its_group_copies_only_what_is_elsewhere, test::at_least(1)) {
  AllRanks job;
  const ShardMap map{.whole_length = 5, .shard_length = 3, .pieces = {{{1, 0, 3}}}};
  std::vector<double> whole{9, 9, 9, 9, 9}, shard{1, 2, 3};
  const std::span<double> inside = std::span(whole).subspan(1, 3);
  job.transport.wait(job.transport.all_gather(0, 1, bytes_of(shard), bytes_of(whole), map, DType::f64));
  BOOST_TEST((whole == std::vector<double>{9, 1, 2, 3, 9}));
  job.transport.wait(
      job.transport.reduce_scatter(0, 1, bytes_of(whole), std::as_writable_bytes(inside), map, DType::f64));
  job.transport.wait(job.transport.reduce_scatter(0, 1, bytes_of(whole), bytes_of(shard), map, DType::f64,
                                                  {.how = SumInto::How::add}));
  BOOST_TEST((whole == std::vector<double>{9, 1, 2, 3, 9}));
  BOOST_TEST((shard == std::vector<double>{2, 4, 6}));
  job.transport.wait(job.transport.all_reduce(0, 1, bytes_of(shard), DType::f64, Reduce::sum));
  job.transport.wait(job.transport.broadcast(0, 1, 0, bytes_of(shard)));
  BOOST_TEST((shard == std::vector<double>{2, 4, 6}));
  // Behind an operation of several ranks it waits for its turn.
  std::vector<double> sum(1 << 20, 1.0), copied(sum.size());
  const ShardMap all{
      .whole_length = std::ssize(sum), .shard_length = std::ssize(sum), .pieces = {{{0, 0, std::ssize(sum)}}}};
  job.transport.all_reduce(1, 0, bytes_of(sum), DType::f64, Reduce::sum);
  job.transport.wait(job.transport.all_gather(1, 1, bytes_of(sum), bytes_of(copied), all, DType::f64));
  BOOST_TEST(copied.back() == world().size());
}

LOCKSTEP_MPI_TEST(what_is_issued_on_a_lane_is_done_in_order_and_each_ticket_brings_its_result, test::at_least(1)) {
  AllRanks job;
  std::vector<std::vector<double>> values;
  for (int i = 0; i < 20; ++i)
    values.emplace_back(static_cast<std::size_t>(1000 * i + 1), static_cast<double>(i + world().rank()));
  std::vector<Ticket> tickets;
  for (std::vector<double>& buffer : values)
    tickets.push_back(job.transport.all_reduce(0, 0, bytes_of(buffer), DType::f64, Reduce::sum));
  const double ranks_summed = world().size() * (world().size() - 1) / 2.0;
  for (const int i : {19, 0, 7}) {  // waiting in another order than issuing
    job.transport.wait(tickets[static_cast<std::size_t>(i)]);
    const std::vector<double>& buffer = values[static_cast<std::size_t>(i)];
    BOOST_TEST(buffer.front() == i * world().size() + ranks_summed);
    BOOST_TEST(buffer.back() == buffer.front());
  }
  job.transport.drain();
}

LOCKSTEP_MPI_TEST(communication_goes_on_while_the_caller_computes, test::at_least(2)) {
  AllRanks job;
  std::vector<double> values(1000, 1.0);
  std::vector<OperationRecord> records;
  job.transport.take_records(records);
  if (world().rank() == 0) sleep_ms(20);
  const Ticket ticket = job.transport.all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
  while (records.empty()) {  // nobody waits for the ticket meanwhile
    sleep_ms(1);
    job.transport.take_records(records);
  }
  job.transport.wait(ticket);
  BOOST_TEST(values.back() == world().size());
  BOOST_TEST(job.transport.busy_s(0) == records.front().end_s - records.front().begin_s);
  BOOST_TEST(job.transport.busy_s(0) > 0);
  BOOST_TEST(job.transport.busy_s(1) == 0);
}

LOCKSTEP_MPI_TEST(the_session_may_speak_while_a_lane_does, test::at_least(2)) {
  AllRanks job;
  std::vector<double> large(1 << 20, 1.0);
  const Ticket ticket = job.transport.all_reduce(0, 0, bytes_of(large), DType::f64, Reduce::sum);
  for (int i = 0; i < 50; ++i) BOOST_TEST(world().all_reduce(1.0, Reduce::sum) == world().size());
  job.transport.wait(ticket);
  BOOST_TEST(large.back() == world().size());
}

LOCKSTEP_MPI_TEST(a_lane_that_waits_for_another_rank_blocks_no_other_lane, test::at_least(2)) {
  AllRanks job;
  std::vector<double> late(1 << 20), values(1 << 20, 1.0);
  const int rank = world().rank();
  Ticket waits;
  if (rank == 0) waits = job.transport.receive(0, 0, 1, bytes_of(late), 0);
  for (int i = 0; i < 20; ++i) {  // rank 1 sends only when all of these are done
    std::ranges::fill(values, 1.0);
    job.transport.wait(job.transport.all_reduce(1, 0, bytes_of(values), DType::f64, Reduce::sum));
    BOOST_TEST(values.back() == world().size());
  }
  std::ranges::fill(values, 7.0);
  if (rank == 1) waits = job.transport.send(0, 0, 0, bytes_of(values));
  job.transport.wait(waits);
  if (rank == 0) BOOST_TEST(late.back() == 7.0);
}

LOCKSTEP_MPI_TEST(every_operation_is_recorded_as_its_communicator_knows_it, test::at_least(1)) {
  AllRanks job;
  const std::vector<Rank> everyone = [&] {
    std::vector<Rank> ranks(job.size);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }();
  std::vector<OperationRecord> records;
  job.transport.take_records(records);
  for (const OperationRecord::Kind kind : kinds) {
    Task task = make_task(kind, 1, 0, job.size, job.rank, 100, DType::f32, 5);
    if (!task.issue) continue;
    const Ticket ticket = task.issue(job.transport);
    job.transport.wait(ticket);
    job.transport.take_records(records);
    BOOST_TEST(records.size() == 1u);
    if (records.size() != 1) continue;
    const OperationRecord& record = records.front();
    const bool pair = kind == OperationRecord::Kind::send;
    BOOST_TEST((record.kind == kind || (pair && record.kind == OperationRecord::Kind::receive)));
    BOOST_TEST((record.lane == 1 && record.group == 0 && record.ticket == ticket));
    BOOST_TEST(*record.members == everyone, boost::test_tools::per_element());
    BOOST_TEST(record.bytes == task.bytes, name_of(kind));
    BOOST_TEST((record.dtype == (pair || kind == OperationRecord::Kind::broadcast ? DType::u8 : DType::f32)));
    BOOST_TEST(record.begin_s <= record.end_s);
  }
  std::vector<double> values{1.0};
  job.transport.wait(job.transport.all_reduce(0, 1, bytes_of(values), DType::f64, Reduce::sum));
  job.transport.take_records(records);
  BOOST_TEST((records.size() == 1 && *records.front().members == std::vector<Rank>{world().rank()}));
}

LOCKSTEP_MPI_TEST(groups_are_the_ranks_along_their_axes, test::ranks({4})) {
  Session session(world().split(0, "world"));
  Transport transport(session, make_mesh("world", {{"pp", 2}, {"dp", 2}}), {"lane"}, {{"dp"}, {"pp"}, {"pp", "dp"}});
  const int rank = world().rank();
  BOOST_TEST(transport.members(transport.group_along({"dp"})) == (std::vector<Rank>{rank / 2 * 2, rank / 2 * 2 + 1}),
             boost::test_tools::per_element());
  BOOST_TEST(transport.members(transport.group_along({"pp"})) == (std::vector<Rank>{rank % 2, rank % 2 + 2}),
             boost::test_tools::per_element());
  BOOST_TEST(transport.members(transport.group_along({"pp", "dp"})).size() == 4u);
  BOOST_CHECK_THROW(transport.group_along({"tp"}), Error);
  std::vector<double> value{std::exp2(rank)};
  transport.wait(transport.all_reduce(0, transport.group_along({"pp"}), bytes_of(value), DType::f64, Reduce::sum));
  BOOST_TEST(value.front() == (rank % 2 == 0 ? 5 : 10));
}

LOCKSTEP_MPI_TEST(arguments_that_do_not_fit_are_refused_before_anything_is_sent, test::at_least(1)) {
  AllRanks job;
  std::vector<double> values(4);
  const std::span<std::byte> bytes = bytes_of(values);
  ShardMap map{.whole_length = 4, .shard_length = 4, .pieces = std::vector<std::vector<ShardPiece>>(job.size)};
  BOOST_CHECK_THROW(job.transport.all_reduce(2, 0, bytes, DType::f64, Reduce::sum), Error);
  BOOST_CHECK_THROW(job.transport.all_reduce(0, 2, bytes, DType::f64, Reduce::sum), Error);
  BOOST_CHECK_THROW(job.transport.all_reduce(0, 0, bytes.first(9), DType::f64, Reduce::sum), Error);
  BOOST_CHECK_THROW(job.transport.send(0, 0, world().rank(), bytes), Error);
  BOOST_CHECK_THROW(job.transport.all_gather(0, 0, bytes, bytes.first(8), map, DType::f64), Error);
  map.pieces.assign(job.size, {{0, 0, 4}});
  BOOST_CHECK_THROW(job.transport.all_gather(0, 0, bytes.first(8), bytes, map, DType::f64), Error);
}

LOCKSTEP_MPI_TEST(who_waits_for_a_lane_waits_for_other_ranks_only_while_the_lane_does, test::ranks({2})) {
  AllRanks job;
  RankBoard board(world());  // counts this thread's waiting
  std::atomic<bool> seen = false;
  std::vector<double> values(10, 1.0);
  std::thread observer;
  if (world().rank() == 0) {
    observer = std::thread([&] {
      while (!board.mine().waits) sleep_ms(1);
      seen = true;
      world().barrier();
    });
  } else {
    world().barrier();  // until rank 0 is seen to wait
  }
  job.transport.wait(job.transport.all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum));
  if (observer.joinable()) observer.join();
  BOOST_TEST(seen == (world().rank() == 0));
  BOOST_TEST(!board.mine().waits);
}

LOCKSTEP_MPI_TEST(a_transport_that_ends_finishes_what_was_issued, test::at_least(2)) {
  std::vector<double> values(1000, 1.0);
  {
    AllRanks job;
    job.transport.all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
  }
  BOOST_TEST(values.back() == world().size());
}

LOCKSTEP_MPI_TEST(a_failing_rank_is_not_held_up_by_a_lane_whose_partners_do_not_come, test::ranks({2})) {
  // Rank 0 issues what rank 1 joins only when rank 0 has thrown and its transport has given up.
  static std::vector<double> values;  // outlives the thread that is left to itself
  values.assign(10, 1.0);
  Session session(world().split(0, "world"));
  const auto make = [&] {
    return std::make_unique<Transport>(session, make_mesh("world", {{"all", 2}}), std::vector<std::string>{"lane"},
                                       std::vector<std::vector<AxisName>>{{"all"}});
  };
  std::unique_ptr<Transport> made = make();
  if (world().rank() == 0) {
    try {
      const std::unique_ptr<Transport> mine = std::move(made);
      mine->all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
      throw std::runtime_error("failed");
    } catch (const std::runtime_error&) {
    }
    world().barrier();
  } else {
    world().barrier();
    made->all_reduce(0, 0, bytes_of(values), DType::f64, Reduce::sum);
    made->drain();
  }
  world().barrier();
}

// 8 ranks, 4 lanes, all groups of a (2, 2, 2) mesh: every rank issues the lanes' operations in an interleaving of its
// own.
LOCKSTEP_MPI_TEST(lanes_and_groups_go_on_beside_each_other_whatever_the_delays, test::ranks({8})) {
  constexpr int lanes = 4, rounds = 50, per_lane = 50;
  Session session(world().split(0, "world"));
  const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp", 2}, {"tp", 2}});
  const std::vector<std::vector<AxisName>> groups{
      {"pp"}, {"dp"}, {"tp"}, {"pp", "dp"}, {"dp", "tp"}, {"pp", "tp"}, {"pp", "dp", "tp"}};
  Transport transport(session, mesh, {"a", "b", "c", "d"}, groups);
  Random own(1000 + static_cast<std::uint64_t>(world().rank()));
  std::size_t done = 0, wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<Task>> tasks(lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      Random common(static_cast<std::uint64_t>(round * lanes + lane));
      for (int i = 0; i < per_lane; ++i) {
        const auto kind = kinds[static_cast<std::size_t>(any(common, 0, kinds.size() - 1))];
        const DType dtype = sums[static_cast<std::size_t>(any(common, 0, sums.size() - 1))];
        const auto group = static_cast<int>(any(common, 0, std::ssize(groups) - 1));
        const std::int64_t length = any(common, 0, 19) == 0 ? any(common, 1000, 20000) : any(common, 0, 200);
        const std::uint64_t seed = common();
        const std::vector<Rank>& members = transport.members(group);
        const auto rank = static_cast<std::size_t>(std::ranges::find(members, world().rank()) - members.begin());
        tasks[static_cast<std::size_t>(lane)].push_back(
            make_task(kind, lane, group, members.size(), rank, length, dtype, seed));
      }
    }
    std::vector<std::size_t> next(lanes);
    std::vector<Ticket> tickets;
    for (int left = lanes * per_lane; left > 0;) {
      const auto lane = static_cast<std::size_t>(any(own, 0, lanes - 1));
      for (std::int64_t burst = any(own, 1, 9); burst > 0 && next[lane] < per_lane; --burst, --left) {
        const Task& task = tasks[lane][next[lane]++];
        if (task.issue) tickets.push_back(task.issue(transport));
      }
      if (any(own, 0, 19) == 0) std::this_thread::sleep_for(std::chrono::microseconds(any(own, 0, 500)));
    }
    std::ranges::shuffle(tickets, own);
    for (const Ticket ticket : tickets) transport.wait(ticket);
    for (const std::vector<Task>& of_lane : tasks) {
      for (const Task& task : of_lane) {
        ++done;
        if (!task.right()) ++wrong;
      }
    }
  }
  BOOST_TEST(done == 10000u);
  BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
