// Every operation of the transport by itself, against brute force.
#include "comm/transport.hpp"
#include "harness/mpi_test.hpp"
#include "transport_tasks.hpp"

#include <algorithm>
#include <vector>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(transport_)

namespace {

void check_all_operations(LargeTransfers large, const std::vector<std::int64_t>& lengths,
                          const std::vector<DType>& dtypes) {
  AllRanks job({"first"}, large);
  std::uint64_t seed = 1;
  for (const OperationRecord::Kind kind : kinds) {
    for (const DType dtype : dtypes) {
      for (const std::int64_t length : lengths) {
        Task task = make_task(kind, 0, 0, job.size, job.rank, length, dtype, ++seed);
        if (task.issue) job.transport.wait(task.start(job.transport));
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
    job.transport.wait(task.start(job.transport));
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
                                                  {.how = SumInto::Mode::add}));
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

BOOST_AUTO_TEST_SUITE_END()
