#include "comm/communicator.hpp"

#include "base/error.hpp"
#include "comm/mpi_communicator.hpp"
#include "harness/mpi_test.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

using namespace lockstep;
using test::world;

namespace {

/// The values of `rank`, the same on whoever asks: every rank can compute what the others hold.
std::vector<double> values_of(int rank, std::size_t count, int low, int high) {
  std::mt19937_64 generator(1000003u * static_cast<unsigned>(rank) + count);
  std::uniform_int_distribution<int> number(low, high);
  std::vector<double> values(count);
  for (double& value : values) value = number(generator);
  return values;
}

template <class T>
std::vector<T> reduced(std::vector<T> values, DType dtype, Reduce reduce) {
  world().all_reduce(std::as_writable_bytes(std::span<T>(values)), dtype, reduce);
  return values;
}

// Around every border of the implementation: nothing, fewer elements than ranks, one exchange or two, one piece or
// several, read directly.
const std::vector<std::size_t> lengths = {0,    1,    2,    3,      5,      63,     64,     65,     1000,
                                          1024, 2048, 2049, 100000, 262144, 262147, 700001, 1300003};

}  // namespace

BOOST_AUTO_TEST_SUITE(communicator)

LOCKSTEP_MPI_TEST(sums_of_integers_in_fp64_are_exact_at_every_length, test::at_least(1)) {
  for (const std::size_t count : lengths) {
    std::vector<double> expected(count, 0.0);
    for (int rank = 0; rank < world().size(); ++rank) {
      const std::vector<double> theirs = values_of(rank, count, -1000000, 1000000);
      for (std::size_t i = 0; i < count; ++i) expected[i] += theirs[i];
    }
    BOOST_TEST((reduced(values_of(world().rank(), count, -1000000, 1000000), DType::f64, Reduce::sum) == expected),
               "length " << count);
  }
}

LOCKSTEP_MPI_TEST(fp32_is_summed_in_rank_order_whatever_the_length, test::at_least(1)) {
  for (const std::size_t count : lengths) {
    const auto theirs = [&](int rank) {
      const std::vector<double> integers = values_of(rank, count, -1000000, 1000000);
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(integers[i]) * (rank % 2 == 0 ? 1e-3f : 1e3f);
      return values;
    };
    std::vector<float> expected = theirs(0);
    for (int rank = 1; rank < world().size(); ++rank) {
      const std::vector<float> values = theirs(rank);
      for (std::size_t i = 0; i < count; ++i) expected[i] += values[i];
    }
    BOOST_TEST((reduced(theirs(world().rank()), DType::f32, Reduce::sum) == expected), "length " << count);
  }
}

LOCKSTEP_MPI_TEST(large_reductions_give_the_same_bits_by_messages_and_by_reading_memory, test::at_least(2)) {
  const std::unique_ptr<Communicator> by_messages = mpi_world(LargeTransfers::by_messages);
  for (int round = 0; round < 5;
       ++round) {  // a buffer that is reused at once: who still reads it would see another round's values
    std::vector<float> mine(1500007 + static_cast<std::size_t>(round));
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] =
          static_cast<float>(world().rank() + 1) / static_cast<float>(i % 1013 + static_cast<std::size_t>(round) + 1);
    std::vector<float> other = mine;
    world().all_reduce(std::as_writable_bytes(std::span(mine)), DType::f32, Reduce::sum);
    by_messages->all_reduce(std::as_writable_bytes(std::span(other)), DType::f32, Reduce::sum);
    BOOST_TEST((mine == other), "round " << round);
  }
}

LOCKSTEP_MPI_TEST(bf16_is_summed_in_fp32_and_rounded_once, test::at_least(1)) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{4099}, std::size_t{600001}, std::size_t{2500003}}) {
    const auto theirs = [&](int rank) {
      const std::vector<double> integers = values_of(rank, count, -255, 255);  // exact in bf16
      std::vector<std::uint16_t> values(count);
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(integers[i])) >> 16);
      return values;
    };
    const std::vector<std::uint16_t> result = reduced(theirs(world().rank()), DType::bf16, Reduce::sum);
    std::vector<double> exact(count, 0.0);
    for (int rank = 0; rank < world().size(); ++rank) {
      const std::vector<double> values = values_of(rank, count, -255, 255);
      for (std::size_t i = 0; i < count; ++i) exact[i] += values[i];
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double got = std::bit_cast<float>(static_cast<std::uint32_t>(result[i]) << 16);
      // One rounding to 8 significant bits: off by at most half a unit in the last place.
      const double half_unit = exact[i] == 0 ? 0 : std::exp2(std::floor(std::log2(std::abs(exact[i]))) - 8);
      if (std::abs(got - exact[i]) > half_unit) ++wrong;
    }
    BOOST_TEST(wrong == 0u, "length " << count);
  }
}

LOCKSTEP_MPI_TEST(minimum_and_maximum_hold_for_every_type, test::at_least(1)) {
  const int rank = world().rank();
  const int last = world().size() - 1;
  BOOST_TEST((reduced<std::int64_t>({rank, -rank}, DType::i64, Reduce::max) == std::vector<std::int64_t>{last, 0}));
  BOOST_TEST((reduced<std::int32_t>({rank, -rank}, DType::i32, Reduce::min) == std::vector<std::int32_t>{0, -last}));
  const std::uint64_t huge = ~std::uint64_t{0} - 7;
  BOOST_TEST((reduced<std::uint64_t>({huge + static_cast<std::uint64_t>(rank)}, DType::u64, Reduce::max) ==
              std::vector<std::uint64_t>{huge + static_cast<std::uint64_t>(last)}));
  BOOST_TEST((reduced<float>({1.5f * static_cast<float>(rank)}, DType::f32, Reduce::max) ==
              std::vector<float>{1.5f * static_cast<float>(last)}));
}

LOCKSTEP_MPI_TEST(one_nan_makes_sum_minimum_and_maximum_nan_on_all_ranks, test::at_least(1)) {
  const double mine = world().rank() == world().size() - 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
  for (const Reduce reduce : {Reduce::sum, Reduce::min, Reduce::max})
    BOOST_TEST(std::isnan(world().all_reduce(mine, reduce)));
}

LOCKSTEP_MPI_TEST(a_broadcast_brings_the_roots_bytes_to_all, test::at_least(1)) {
  for (int root = 0; root < world().size(); ++root) {
    const std::string text(static_cast<std::size_t>(root) * 1000, static_cast<char>('a' + root));
    BOOST_TEST(world().broadcast(world().rank() == root ? text : "mine", root) == text);
  }
}

LOCKSTEP_MPI_TEST(gathered_strings_of_different_lengths_arrive_by_rank, test::at_least(1)) {
  const auto text = [](int rank) {
    return rank == 1 ? std::string()
                     : std::string(static_cast<std::size_t>(rank) * 100 + 1, static_cast<char>('a' + rank));
  };
  const std::vector<std::string> all = world().all_gather(text(world().rank()));
  MPI_REQUIRE(all.size() == static_cast<std::size_t>(world().size()));
  for (int rank = 0; rank < world().size(); ++rank) BOOST_TEST(all[static_cast<std::size_t>(rank)] == text(rank));
}

LOCKSTEP_MPI_TEST(strings_too_large_for_one_message_are_gathered_as_well, test::ranks({3})) {
  const std::string mine(std::size_t{30} << 20, static_cast<char>('a' + world().rank()));
  const std::vector<std::string> all = world().all_gather(mine);
  for (std::size_t rank = 0; rank < 3; ++rank)
    BOOST_TEST((all[rank] == std::string(std::size_t{30} << 20, static_cast<char>('a' + rank))));
}

LOCKSTEP_MPI_TEST(one_rank_gets_what_each_brings_whatever_its_length, test::at_least(1)) {
  const auto text = [](int rank, int root) {  // of the ranks without text one is the root
    return rank % 2 == root % 2
               ? std::string()
               : std::string((std::size_t{65} << 20) + static_cast<std::size_t>(rank), static_cast<char>('a' + rank));
  };
  for (int root = 0; root < world().size(); ++root) {
    const std::vector<std::string> all = world().gather(text(world().rank(), root), root);
    BOOST_TEST(all.size() == static_cast<std::size_t>(world().rank() == root ? world().size() : 0));
    for (std::size_t rank = 0; rank < all.size(); ++rank) BOOST_TEST((all[rank] == text(static_cast<int>(rank), root)));
  }
}

LOCKSTEP_MPI_TEST(a_split_joins_the_ranks_of_a_colour_in_rank_order, test::at_least(2)) {
  const int colour = world().rank() % 2;
  const std::unique_ptr<Communicator> part = world().split(colour, "part");
  BOOST_TEST(part->name() == "part");
  BOOST_TEST(part->rank() == world().rank() / 2);
  BOOST_TEST(part->world_rank() == world().rank());
  std::int64_t expected = 0;
  for (int rank = colour; rank < world().size(); rank += 2) expected += rank;
  BOOST_TEST(part->all_reduce(std::int64_t{world().rank()}, Reduce::sum) == expected);
}

LOCKSTEP_MPI_TEST(a_type_that_has_no_sum_is_refused_on_all_ranks, test::at_least(2)) {
  std::vector<std::byte> bytes(4);
  BOOST_CHECK_THROW(world().all_reduce(bytes, DType::f8_e4m3, Reduce::sum), Error);
}

BOOST_AUTO_TEST_SUITE_END()
