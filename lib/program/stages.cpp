#include "program/stages.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

namespace lockstep {

namespace {

std::string arithmetic(const Pipeline& pipeline) {
  return fmt::format("{} × {} per rank = {}", counted(pipeline.ranks, "pipeline rank"),
                     counted(pipeline.chunks, "stage"), counted(stage_count(pipeline), "stage"));
}

void check_number_of_blocks(int blocks, const Pipeline& pipeline) {
  if (blocks >= stage_count(pipeline)) return;
  const int ranks = blocks / pipeline.chunks;
  throw Error(
      ExitCode::usage,
      fmt::format("cannot cut {} blocks into {}: each stage holds at least one block", blocks, arithmetic(pipeline)),
      ranks > 0 ? fmt::format("use at most {} with this number of stages each", counted(ranks, "pipeline rank"))
                : "use fewer stages per rank");
}

/// Cuts of the last blocks into stages, from the last stage to the first.
class Cuts {
 public:
  Cuts(const std::vector<std::int64_t>& costs, int stages) : blocks_(static_cast<int>(costs.size())), stages_(stages) {
    for (const std::int64_t cost : costs) before_.push_back(before_.back() + cost);
  }

  Stages best() const {
    const std::int64_t largest = largest_of_best_cut();
    const Table smallest = smallest_within(largest);
    const std::int64_t floor = at(smallest, stages_, 0);
    Stages result;
    for (int begin = 0, left = stages_; left > 0; --left) {
      int end = left == 1 ? blocks_ : begin + 1;
      while (std::min(cost(begin, end), at(smallest, left - 1, end)) < floor) ++end;
      result.push_back({begin, end});
      begin = end;
    }
    return result;
  }

 private:
  using Table = std::vector<std::int64_t>;  // by number of stages and the block at which they begin

  std::int64_t cost(int begin, int end) const {
    return before_[static_cast<std::size_t>(end)] - before_[static_cast<std::size_t>(begin)];
  }
  std::size_t index(int stages, int begin) const { return static_cast<std::size_t>(stages * (blocks_ + 1) + begin); }
  std::int64_t at(const Table& table, int stages, int begin) const { return table[index(stages, begin)]; }

  /// Fills a table: that of no stages begins at the end of the blocks with `nothing`, of `impossible` cuts are all
  /// others; what stands for more stages is `better` of all first stages.
  template <class Join, class Better>
  Table table(std::int64_t nothing, std::int64_t impossible, const Join& join, const Better& better) const {
    Table values(index(stages_, blocks_) + 1, impossible);
    values[index(0, blocks_)] = nothing;
    for (int stages = 1; stages <= stages_; ++stages)
      for (int begin = 0; begin + stages <= blocks_; ++begin) {
        std::int64_t& value = values[index(stages, begin)];
        for (int end = begin + 1; end + stages - 1 <= blocks_; ++end)
          value = better(value, join(cost(begin, end), at(values, stages - 1, end)));
      }
    return values;
  }

  std::int64_t largest_of_best_cut() const {
    const auto larger = [](std::int64_t first, std::int64_t rest) { return std::max(first, rest); };
    const auto lesser = [](std::int64_t a, std::int64_t b) { return std::min(a, b); };
    return at(table(0, std::numeric_limits<std::int64_t>::max(), larger, lesser), stages_, 0);
  }

  /// How much the smallest stage can cost if none costs more than `largest`; −1 where that cannot be.
  Table smallest_within(std::int64_t largest) const {
    const auto smaller = [largest](std::int64_t first, std::int64_t rest) {
      return first > largest ? -1 : std::min(first, rest);
    };
    const auto greater = [](std::int64_t a, std::int64_t b) { return std::max(a, b); };
    return table(std::numeric_limits<std::int64_t>::max(), -1, smaller, greater);
  }

  int blocks_;
  int stages_;
  std::vector<std::int64_t> before_{0};  // costs of all blocks before one
};

}  // namespace

std::vector<int> begins_of(const Stages& stages) {
  std::vector<int> begins;
  for (const BlockRange& stage : stages) begins.push_back(stage.begin);
  return begins;
}

std::vector<std::int64_t> costs_of(const ModelPlan& plan) {
  std::vector<std::int64_t> costs;
  for (const BlockPlan& block : plan.blocks) costs.push_back(std::llround(block.forward_flops + block.backward_flops));
  return costs;
}

Stages balanced_stages(const std::vector<std::int64_t>& costs, const Pipeline& pipeline) {
  check_number_of_blocks(static_cast<int>(costs.size()), pipeline);
  invariant(std::ranges::all_of(costs, [](std::int64_t cost) { return cost >= 0; }),
            "the cost of a block is not negative");
  return Cuts(costs, stage_count(pipeline)).best();
}

Stages stages_beginning_at(const std::vector<int>& first, int blocks, const std::string& who) {
  Stages stages;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const int end = i + 1 < first.size() ? first[i + 1] : blocks;
    if ((i == 0 && first[i] != 0) || first[i] >= end || end > blocks)
      fail(ExitCode::usage, "{} cuts {} blocks at {}: stages must begin at ascending blocks, the first one at 0", who,
           blocks, fmt::join(first, ", "));
    stages.push_back({first[i], end});
  }
  return stages;
}

Stages stages_split_at(const std::vector<std::string>& split_points, const std::vector<std::string>& blocks,
                       const Pipeline& pipeline) {
  check_number_of_blocks(static_cast<int>(blocks.size()), pipeline);
  const auto given = static_cast<int>(split_points.size());
  if (given + 1 != stage_count(pipeline))
    throw Error(ExitCode::usage,
                fmt::format("cannot cut the model into {} at {}: it needs {}", arithmetic(pipeline),
                            counted(given, "split point"), stage_count(pipeline) - 1),
                "name the first block of every stage except the first");
  Stages stages;
  int begin = 0;
  for (const std::string& name : split_points) {
    const auto found = std::ranges::find(blocks, name);
    if (found == blocks.end())
      throw Error(ExitCode::usage, fmt::format("split point {} is not a block of the model", name),
                  fmt::format("the blocks are {} to {}", blocks.front(), blocks.back()));
    const auto block = static_cast<int>(found - blocks.begin());
    if (block <= begin)
      throw Error(ExitCode::usage,
                  fmt::format("split point {} leaves no block to the stage before it, which begins at {}", name,
                              blocks[static_cast<std::size_t>(begin)]),
                  "list the split points in the order of the blocks");
    stages.push_back({begin, block});
    begin = block;
  }
  stages.push_back({begin, static_cast<int>(blocks.size())});
  return stages;
}

BlockRange blocks_of(const PipelinePlan& pipeline, int stage, const ModelPlan& plan) {
  if (pipeline.stages.empty() && stage_count(pipeline.pipeline) == 1) return {0, static_cast<int>(plan.blocks.size())};
  invariant(static_cast<int>(pipeline.stages.size()) == stage_count(pipeline.pipeline),
            "every stage of the pipeline has blocks");
  return pipeline.stages[static_cast<std::size_t>(stage)];
}

std::vector<PipelinePart> parts_of(const PipelinePlan& pipeline, const ModelPlan& plan) {
  std::vector<PipelinePart> parts(static_cast<std::size_t>(pipeline.pipeline.ranks));
  for (int stage = 0; stage < stage_count(pipeline.pipeline); ++stage) {
    std::vector<int>& blocks = parts[static_cast<std::size_t>(rank_of(pipeline.pipeline, stage))].blocks;
    const BlockRange range = blocks_of(pipeline, stage, plan);
    for (int block = range.begin; block < range.end; ++block) blocks.push_back(block);
  }
  for (PipelinePart& part : parts)
    for (std::size_t unit = 0; unit < plan.units.size(); ++unit)
      if (std::ranges::find_first_of(part.blocks, plan.units[unit].blocks) != part.blocks.end())
        part.units.push_back(static_cast<int>(unit));
  return parts;
}

}  // namespace lockstep
