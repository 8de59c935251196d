#include "program/memory_fit.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

namespace {

constexpr std::int64_t gibi = std::int64_t{1} << 30;

MemoryLimit machine(const std::string& name, std::int64_t total, std::int64_t available) {
  return {.identity = name, .group = {}, .total_bytes = total * gibi, .available_bytes = available * gibi};
}

MemoryLimit group(const std::string& identity, std::int64_t total) {
  return {
      .identity = identity, .group = "/job/" + identity, .total_bytes = total * gibi, .available_bytes = total * gibi};
}

RankMemory rank(const std::string& host, std::int64_t gib, std::vector<MemoryLimit> limits) {
  return {.host = host, .bytes = gib * gibi, .limits = std::move(limits)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_fit)

BOOST_AUTO_TEST_CASE(the_ranks_of_a_machine_are_added_up) {
  const MemoryLimit a = machine("a", 200, 190);
  const MemoryLimit b = machine("b", 400, 390);
  std::vector<RankMemory> ranks{rank("a", 59, {a}), rank("a", 59, {a}), rank("a", 59, {a}), rank("b", 59, {b})};
  BOOST_TEST(!memory_shortage(ranks, MemoryCompared::available));
  ranks.push_back(rank("a", 59, {a}));
  BOOST_TEST(memory_shortage(ranks, MemoryCompared::available).value() ==
             "a: its 4 ranks need 4 × 59.0 GiB = 236 GiB of memory, and 190 GiB of 200 GiB are available");
  ranks.push_back(rank("a", 60, {a}));
  BOOST_TEST(memory_shortage(ranks, MemoryCompared::total).value() ==
             "a: its 5 ranks need 60.0 GiB + 4 × 59.0 GiB = 296 GiB of memory, and there are 200 GiB");
}

BOOST_AUTO_TEST_CASE(a_plan_is_compared_with_all_memory_and_a_start_with_what_is_free) {
  const std::vector<RankMemory> one{rank("a", 50, {machine("a", 64, 40)})};
  BOOST_TEST(memory_shortage(one, MemoryCompared::available).value() ==
             "a: its rank needs 50.0 GiB of memory, and 40.0 GiB of 64.0 GiB are available");
  BOOST_TEST(!memory_shortage(one, MemoryCompared::total));
}

BOOST_AUTO_TEST_CASE(groups_of_single_ranks_are_limits_of_single_ranks) {
  const MemoryLimit a = machine("a", 64, 60);
  BOOST_TEST(!memory_shortage({rank("a", 10, {a, group("0", 12)}), rank("a", 10, {a, group("1", 12)})},
                              MemoryCompared::available));
  const auto shortage = memory_shortage({rank("a", 10, {a, group("0", 12)}), rank("a", 14, {a, group("1", 12)})},
                                        MemoryCompared::available);
  BOOST_TEST(
      shortage.value() ==
      "a: its rank needs 14.0 GiB of memory, and 12.0 GiB of 12.0 GiB are available in its control group /job/1");
}

BOOST_AUTO_TEST_CASE(where_the_system_tells_nothing_nothing_is_refused) {
  BOOST_TEST(!memory_shortage({rank("a", 1000, {})}, MemoryCompared::available));
}

BOOST_AUTO_TEST_CASE(hints_name_options_of_the_program_that_needs_the_most) {
  BOOST_TEST(less_machine_memory(ProgramPhase::training) ==
             "a smaller train.micro_batch, --train.recompute block or fewer ranks on a machine");
  BOOST_TEST(less_machine_memory(ProgramPhase::evaluation) == "a smaller eval.micro_batch or fewer ranks on a machine");
  BOOST_TEST(less_device_memory(ProgramPhase::token) ==
             "a smaller sample.batch or sample.max_tokens, shorter prompts, train.offload, or more ranks that share "
             "the weights");
  BOOST_TEST(less_device_memory({}) == "train.offload or more ranks that share the weights");
}

BOOST_AUTO_TEST_CASE(what_a_rank_tells_reads_back_to_the_same) {
  const RankMemory told = rank("node \"1\"", 3, {machine("a", 4, 2), group("g", 3)});
  const RankMemory read = RankMemory::decode(told.encode());
  BOOST_TEST(read.host == told.host);
  BOOST_TEST(read.bytes == told.bytes);
  BOOST_TEST_REQUIRE(read.limits.size() == 2u);
  BOOST_TEST(read.limits[1].group == "/job/g");
  BOOST_TEST(read.limits[1].identity == "g");
  BOOST_TEST(read.limits[0].available_bytes == 2 * gibi);
}

BOOST_AUTO_TEST_SUITE_END()
