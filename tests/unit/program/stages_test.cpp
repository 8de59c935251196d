#include "program/stages.hpp"

#include "base/error.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <optional>
#include <tuple>

BOOST_AUTO_TEST_SUITE(stages)

using namespace lockstep;

namespace {

using Costs = std::vector<std::int64_t>;

Pipeline looped(int ranks, int chunks = 1) {
  return {chunks == 1 ? PipelineSchedule::one_f_one_b : PipelineSchedule::interleaved_1f1b, ranks, chunks, ranks};
}

std::string text(const Stages& stages) {
  std::string text;
  for (const BlockRange& range : stages) text += fmt::format("{}{}", text.empty() ? "" : " ", range.end - range.begin);
  return text;
}

/// All cuts, one after the other; smaller is better: the largest stage, the smallest one, blocks of the stages in
/// order.
Stages best_of_all(const Costs& costs, int stages) {
  using Rating = std::tuple<std::int64_t, std::int64_t, std::vector<int>>;
  std::optional<std::pair<Rating, Stages>> best;
  const auto blocks = static_cast<int>(costs.size());
  for (unsigned cuts = 0; cuts < 1U << (blocks - 1); ++cuts) {  // bit i: a stage begins at block i + 1
    Stages found{{0, 1}};
    Costs sums{costs[0]};
    for (int block = 1; block < blocks; ++block) {
      if ((cuts >> (block - 1) & 1U) != 0U) {
        found.push_back({block, block});
        sums.push_back(0);
      }
      ++found.back().end;
      sums.back() += costs[static_cast<std::size_t>(block)];
    }
    if (static_cast<int>(found.size()) != stages) continue;
    std::vector<int> lengths;
    for (const BlockRange& range : found) lengths.push_back(range.end - range.begin);
    Rating rating{std::ranges::max(sums), -std::ranges::min(sums), lengths};
    if (!best || rating < best->first) best = {rating, found};
  }
  return best->second;
}

void refused(const auto& action, const std::string& message, const std::string& hint) {
  BOOST_CHECK_EXCEPTION(action(), Error, [&](const Error& error) {
    BOOST_TEST(error.what() == message);
    BOOST_TEST(error.hint() == hint);
    return error.code() == ExitCode::usage;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(balanced_stages_are_the_best_of_all_cuts) {
  std::mt19937 engine(7);
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  for (int round = 0; round < 300; ++round) {
    Costs costs(static_cast<std::size_t>(roll(1, 9)));
    const int most = roll(0, 2) == 0 ? 2 : 20;  // often equal ones
    for (std::int64_t& cost : costs) cost = roll(0, most);
    const int count = roll(1, static_cast<int>(costs.size()));
    const Stages found = balanced_stages(costs, looped(count));
    const Stages expected = best_of_all(costs, count);
    BOOST_TEST_INFO("round " << round);
    BOOST_TEST(text(found) == text(expected));
    BOOST_TEST((found == expected));
  }
}

BOOST_AUTO_TEST_CASE(a_heavy_head_leaves_the_last_stage_fewer_layers) {
  BOOST_TEST(text(balanced_stages({0, 10, 10, 10, 10, 10, 10, 25}, looped(4))) == "3 2 2 1");
  BOOST_TEST(text(balanced_stages({1, 10, 10, 10, 10, 2}, looped(2))) == "3 3");
}

BOOST_AUTO_TEST_CASE(layers_that_do_not_divide_leave_fewer_to_the_early_stages) {
  BOOST_TEST(text(balanced_stages(Costs(10, 1), looped(4))) == "2 2 3 3");
  BOOST_TEST(text(balanced_stages(Costs(7, 1), looped(1, 3))) == "2 2 3");
  BOOST_TEST(text(balanced_stages(Costs(3, 0), looped(2))) == "1 2");
}

BOOST_AUTO_TEST_CASE(a_large_model_is_cut_without_trying_all_cuts) {
  const Stages stages = balanced_stages(Costs(500, 1'000'000'000'000'000), looped(16, 4));
  BOOST_TEST(stages.size() == 64U);
  for (const BlockRange& range : stages) BOOST_TEST((range.end - range.begin == 7 || range.end - range.begin == 8));
}

BOOST_AUTO_TEST_CASE(fewer_blocks_than_stages_are_refused_with_the_arithmetic) {
  refused(
      [] { balanced_stages(Costs(5, 1), looped(3, 2)); },
      "cannot cut 5 blocks into 3 pipeline ranks × 2 stages per rank = 6 stages: each stage holds at least one block",
      "use at most 2 pipeline ranks with this number of stages each");
  refused(
      [] { stages_split_at({}, {"embedding", "head"}, looped(1, 3)); },
      "cannot cut 2 blocks into 1 pipeline rank × 3 stages per rank = 3 stages: each stage holds at least one block",
      "use fewer stages per rank");
}

BOOST_AUTO_TEST_CASE(split_points_say_where_stages_begin) {
  const std::vector<std::string> blocks{"embedding", "layer.0", "layer.1", "layer.2", "head"};
  BOOST_TEST(text(stages_split_at({"layer.0", "head"}, blocks, looped(3))) == "1 3 1");
  BOOST_TEST(text(stages_split_at({}, blocks, looped(1))) == "5");
  refused([&] { stages_split_at({"layer.1"}, blocks, looped(2, 2)); },
          "cannot cut the model into 2 pipeline ranks × 2 stages per rank = 4 stages at 1 split point: it needs 3",
          "name the first block of every stage except the first");
  refused([&] { stages_split_at({"layer.3"}, blocks, looped(2)); }, "split point layer.3 is not a block of the model",
          "the blocks are embedding to head");
  const std::string order = "list the split points in the order of the blocks";
  refused([&] { stages_split_at({"layer.1", "layer.1"}, blocks, looped(3)); },
          "split point layer.1 leaves no block to the stage before it, which begins at layer.1", order);
  refused([&] { stages_split_at({"embedding"}, blocks, looped(2)); },
          "split point embedding leaves no block to the stage before it, which begins at embedding", order);
}

BOOST_AUTO_TEST_CASE(a_rank_holds_the_units_of_its_blocks_and_a_tied_one_lies_on_both_ends) {
  const ModelPlan plan = models::tied();
  BOOST_TEST((costs_of(plan) == Costs{3, 30, 30, 15}));
  const auto parts = [&](const Pipeline& pipeline) {
    return parts_of({pipeline, balanced_stages(costs_of(plan), pipeline)}, plan);
  };
  BOOST_TEST((parts(looped(2)) == std::vector<PipelinePart>{{{0, 1}, {0, 1}}, {{2, 3}, {0, 2, 3}}}));
  BOOST_TEST((parts(looped(2, 2)) == std::vector<PipelinePart>{{{0, 2}, {0, 2}}, {{1, 3}, {0, 1, 3}}}));
  const Pipeline v{PipelineSchedule::zbv, 2, 2, 3};
  BOOST_TEST((parts(v) == std::vector<PipelinePart>{{{0, 3}, {0, 3}}, {{1, 2}, {1, 2}}}));
}

BOOST_AUTO_TEST_SUITE_END()
