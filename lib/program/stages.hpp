// Which blocks a pipeline stage holds, and which blocks and units lie on each pipeline rank. Plain numbers.
// program/pipeline_schedule.hpp places stages on ranks.
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

/// The blocks of each stage. No stage is empty; together they are all blocks in forward order.
using Stages = std::vector<BlockRange>;

/// The first blocks of the stages, in the form of Buckets::stage_begins.
std::vector<int> begins_of(const Stages& stages);

/// FLOPs of each block, forward and backward. Embedding and head count like other blocks.
std::vector<std::int64_t> costs_of(const ModelPlan& plan);

/// Cuts the blocks into stages so that the cost of the most expensive stage is minimal. Among equal cuts it takes the
/// one whose cheapest stage costs most; among these, the one with the fewest blocks in the first stage, then in the
/// second, …: early stages keep the most micro-batches.
/// Throws Error(usage), with the arithmetic, if there are fewer blocks than stages.
Stages balanced_stages(const std::vector<std::int64_t>& costs, const Pipeline& pipeline);

/// Cuts the blocks so that each stage after the first begins at a named block. Throws Error(usage) if a name is not in
/// `blocks`, if the names are not in forward order, or if their number does not match the stages of the pipeline.
Stages stages_split_at(const std::vector<std::string>& split_points, const std::vector<std::string>& blocks,
                       const Pipeline& pipeline);

/// Cuts the blocks so that stages begin at the blocks with these numbers. Throws Error(usage), which
/// names `who` as their origin, unless they ascend from 0 and leave a block to each stage.
Stages stages_beginning_at(const std::vector<int>& first, int blocks, const std::string& who);

/// A pipeline and the blocks of its stages.
struct PipelinePlan {
  Pipeline pipeline;  // with the micro-batches of one pass through the schedule
  Stages stages{};    // empty: one stage of all blocks
  int passes = 1;     // through the schedule in a step, one after the other
};

BlockRange blocks_of(const PipelinePlan& pipeline, int stage, const ModelPlan& plan);

/// The blocks and units of a pipeline rank.
struct PipelinePart {
  std::vector<int> blocks;  // ascending
  std::vector<int> units;   // units that these blocks add to, ascending; a tied one lies on two ranks
  bool operator==(const PipelinePart&) const = default;
};

/// The part of each pipeline rank.
std::vector<PipelinePart> parts_of(const PipelinePlan& pipeline, const ModelPlan& plan);

}  // namespace lockstep
