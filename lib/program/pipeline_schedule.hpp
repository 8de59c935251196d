// Pipeline schedules: which stages a pipeline rank holds, and in which order it runs their passes. Pure numbers.
// program/passes.hpp turns passes into actions; program/stages.hpp assigns blocks to stages.
//
// In the following, p is the number of ranks, m of micro-batches, v of chunks per rank. F, B (backward, or its input
// half) and W (its weight half) are times of a chunk. The bubble is makespan − busy time with free transfers. The
// memory counts micro-batches of a chunk that wait for their last backward pass.
//
// gpipe, arXiv 1811.06965: bubble (p − 1)(F + B); memory m
// 1f1b, arXiv 2006.09503, 2104.04473: bubble (p − 1)(F + B); memory min(m, p − r) of rank r
// interleaved_1f1b, arXiv 2104.04473: bubble (p − 1)(F + B) where m ≥ p; memory (v − 1)g + 2(p − r) − 1 of rank r
// interleaved_zero_bubble, arXiv 2401.10241: bubble p − 1 where F = B = W and m ≥ p; memory (v − 1)g + p
// zbv, arXiv 2401.10241: bubble p − 1 where F = B = W and m ≥ 2p − 1, none between a rank's first and last pass;
// memory 2p
//
// The interleaved ones run the micro-batches in max(1, m div p) rounds of g, one chunk after the other, so m is a
// multiple of the number of rounds. Their memory is at most m·v. No schedule deadlocks if two conditions hold: sends
// that differ in direction (activations or gradients) or in receiver do not wait for each other, and receives are
// posted in the order in which passes need them.
#pragma once

#include "program/action.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct Pipeline;
struct StagePass;

/// An order of passes that a user defines.
struct CustomSchedule {
  std::string name;
  std::string who;               // places every other p stages on the ranks in descending order
  bool placed_as_v = false;      // see splits_backward()
  bool splits_backward = false;  // see below
  int chunks = 1;                // default number of stages per rank
  /// The passes of a rank. Must return exactly as many as exist; each is checked.
  std::function<std::vector<StagePass>(const Pipeline&, int rank)> passes;
};

class PipelineSchedule {
 public:
  enum Name : std::uint8_t { gpipe, one_f_one_b, interleaved_1f1b, interleaved_zero_bubble, zbv, custom };
  constexpr PipelineSchedule(Name built_in) : name_(built_in) {}
  /// `schedule` must live as long as this object.
  constexpr explicit PipelineSchedule(const CustomSchedule& schedule) : name_(custom), custom_(&schedule) {}
  constexpr Name name() const { return name_; }
  const CustomSchedule& of_user() const { return *custom_; }
  constexpr bool operator==(const PipelineSchedule&) const = default;

 private:
  Name name_;
  const CustomSchedule* custom_ = nullptr;
};
constexpr std::array<PipelineSchedule, 5> pipeline_schedules{
    PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved_1f1b,
    PipelineSchedule::interleaved_zero_bubble, PipelineSchedule::zbv};
/// The name in options: "1f1b".
std::string_view name_of(PipelineSchedule schedule);
/// Whether backward runs as two passes, backward_input and later backward_weight.
bool splits_backward(PipelineSchedule schedule);
/// Whether every other p stages lie on the ranks from the last to the first, so that the last stage of one group of p
/// and the first stage of the next lie on one rank.
bool placed_as_v(PipelineSchedule schedule);
/// Default number of stages per rank.
int usual_chunks(PipelineSchedule schedule);

/// A schedule with its numbers.
struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int ranks = 1;
  int chunks = 1;  // stages per rank
  int micro_batches = 1;
  bool operator==(const Pipeline&) const = default;
};

/// Throws Error(usage), with the arithmetic and the nearest numbers that fit, if the schedule does not exist for these
/// numbers: gpipe and 1f1b have one chunk, zbv two, and the interleaved ones need m mod max(1, m div p) = 0.
void check(const Pipeline& pipeline);

constexpr int stage_count(const Pipeline& pipeline) { return pipeline.ranks * pipeline.chunks; }
/// The stage of a rank's chunk: looped (chunk · p + rank), or as a V, W, … (rank, 2p − 1 − rank, 2p + rank, …).
int stage_of(const Pipeline& pipeline, int rank, int chunk);
/// The rank that holds a stage.
int rank_of(const Pipeline& pipeline, int stage);
/// Whether a stage sends its output to the rank before, not to the rank after.
bool climbs(const Pipeline& pipeline, int stage);

/// One visit of a stage by a micro-batch.
struct StagePass {
  enum class Kind : std::uint8_t { forward, backward, backward_input, backward_weight } kind = Kind::forward;
  int stage = 0;
  MicroBatch micro_batch = 0;
  bool operator==(const StagePass&) const = default;
};
std::string_view name_of(StagePass::Kind kind);

/// The passes of a rank in order. Each of its stages runs each micro-batch once forward and once backward (or once for
/// each half, the input half first), micro-batches ascending. Throws as `check` does, and Error(usage) if a custom
/// schedule gives another list.
std::vector<StagePass> passes_of(const Pipeline& pipeline, int rank);
/// Only the forward passes, as an evaluation runs them, for any number of micro-batches.
std::vector<StagePass> forward_passes_of(Pipeline pipeline, int rank);

}  // namespace lockstep
