// Which blocks a stage of a pipeline holds, and what thereby lies on each pipeline rank. Plain numbers. Which stage
// lies on which rank: program/pipeline_schedule.hpp.
#pragma once

#include "program/model_plan.hpp"
#include "program/pipeline_schedule.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Blocks [begin, end).
struct BlockRange {
  int begin = 0;
  int end = 0;
  bool operator==(const BlockRange&) const = default;
};

/// The blocks of each stage: none empty, together all blocks in forward order.
using Stages = std::vector<BlockRange>;

/// The first blocks of stages, as Buckets has them.
std::vector<int> begins_of(const Stages& stages);

/// What each block of a model costs a stage: its FLOPs, forward and backward, embedding and head as any other block.
std::vector<std::int64_t> costs_of(const ModelPlan& plan);

/// The cut into stages whose largest stage costs least. Of equals, that whose smallest stage costs most; of these, that
/// with the fewest blocks in the first stage, then in the second, …: early stages keep the most micro-batches.
/// Throws Error(usage), with the arithmetic, if there are fewer blocks than stages.
Stages balanced_stages(const std::vector<std::int64_t>& costs, const Pipeline& pipeline);

/// The cut whose stages after the first begin at the blocks named. Throws Error(usage) if a name is no block of
/// `blocks`, the names do not follow each other in forward order, or they make another number of stages than the
/// pipeline has.
Stages stages_split_at(const std::vector<std::string>& split_points, const std::vector<std::string>& blocks,
                       const Pipeline& pipeline);

/// The cut whose stages begin at the blocks with these numbers. Throws Error(usage), which names who said so, unless
/// they ascend from 0 and leave each stage a block.
Stages stages_beginning_at(const std::vector<int>& first, int blocks, const std::string& who);

/// A pipeline and the blocks of its stages.
struct PipelinePlan {
  Pipeline pipeline;  // micro_batches: of one pass through the schedule
  Stages stages{};    // empty: one stage of all blocks
  int passes = 1;     // through the schedule in a step, one after the other
};

BlockRange blocks_of(const PipelinePlan& pipeline, int stage, const ModelPlan& plan);

/// What a pipeline rank holds.
struct PipelinePart {
  std::vector<int> blocks;  // ascending
  std::vector<int> units;   // those that some of the blocks add to, ascending: a tied one lies on two ranks
  bool operator==(const PipelinePart&) const = default;
};

/// The part of each pipeline rank.
std::vector<PipelinePart> parts_of(const PipelinePlan& pipeline, const ModelPlan& plan);

}  // namespace lockstep
