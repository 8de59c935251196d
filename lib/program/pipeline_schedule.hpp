// Pipeline schedules: which stages a rank of the pipeline holds, and in which order it runs their passes. Pure numbers:
// what a pass becomes is the matter of program/passes.hpp, which blocks a stage holds that of program/stages.hpp.
//
// With p ranks, m micro-batches, v chunks a rank and times F, B (backward, or its input half) and W (its weight half)
// of a chunk; the bubble is makespan − busy time with free transfers; the memory counts micro-batches of a chunk that
// wait for their last backward pass:
//
// gpipe, arXiv 1811.06965: bubble (p − 1)(F + B); memory m
// 1f1b, arXiv 2006.09503, 2104.04473: bubble (p − 1)(F + B); memory min(m, p − r) of rank r
// interleaved_1f1b, arXiv 2104.04473: bubble (p − 1)(F + B) where m ≥ p; memory (v − 1)g + 2(p − r) − 1 of rank r
// interleaved_zero_bubble, arXiv 2401.10241: bubble p − 1 where F = B = W and m ≥ p; memory (v − 1)g + p
// zbv, arXiv 2401.10241: bubble p − 1 where F = B = W and m ≥ 2p − 1, none between a rank's first and last pass;
// memory 2p
//
// The interleaved ones go through the micro-batches in max(1, m div p) rounds of g, one chunk after the other, so that
// m is a multiple of the rounds; their memory is at most m·v. No schedule deadlocks if sends do not wait in front of
// each other that differ in direction (activations or gradients) or in receiver, and receives are posted as passes need
// them.
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

/// An order of passes that is no built-in one.
struct CustomSchedule {
  std::string name;
  std::string who;               // in messages: "the schedule waves of ./waves.so"
  bool placed_as_v = false;      // every other p stages lie on the ranks in descending order
  bool splits_backward = false;  // see below
  int chunks = 1;                // stages a rank, where nobody says so
  /// As many as there are, each of which is looked at.
  std::function<std::vector<StagePass>(const Pipeline&, int rank)> passes;
};

class PipelineSchedule {
 public:
  enum Name : std::uint8_t { gpipe, one_f_one_b, interleaved_1f1b, interleaved_zero_bubble, zbv, custom };
  constexpr PipelineSchedule(Name built_in) : name_(built_in) {}
  /// It stays for the life of the schedule.
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
/// As options call it: "1f1b".
std::string_view name_of(PipelineSchedule schedule);
/// Whether backward runs as two passes, backward_input and later backward_weight.
bool splits_backward(PipelineSchedule schedule);
/// Whether every other p stages lie on the ranks from the last to the first, so that the last and the first of two lots
/// of stages lie on one rank.
bool placed_as_v(PipelineSchedule schedule);
/// Stages a rank has where nobody says how many.
int usual_chunks(PipelineSchedule schedule);

/// A schedule with its numbers.
struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int ranks = 1;
  int chunks = 1;  // stages a rank
  int micro_batches = 1;
  bool operator==(const Pipeline&) const = default;
};

/// Throws Error(usage), with the arithmetic and the nearest numbers that fit, if the schedule does not exist with
/// these: gpipe and 1f1b have one chunk, zbv two, and the interleaved ones need m mod max(1, m div p) = 0.
void check(const Pipeline& pipeline);

constexpr int stage_count(const Pipeline& pipeline) { return pipeline.ranks * pipeline.chunks; }
/// The stage that is the rank's chunk: looped (chunk · p + rank), or as a V, W, … (rank, 2p − 1 − rank, 2p + rank, …).
int stage_of(const Pipeline& pipeline, int rank, int chunk);
/// The rank that holds a stage.
int rank_of(const Pipeline& pipeline, int stage);
/// Whether a stage hands over to the rank before, not to the one behind.
bool climbs(const Pipeline& pipeline, int stage);

/// One visit of a stage by a micro-batch.
struct StagePass {
  enum class Kind : std::uint8_t { forward, backward, backward_input, backward_weight } kind = Kind::forward;
  int stage = 0;
  MicroBatch micro_batch = 0;
  bool operator==(const StagePass&) const = default;
};
std::string_view name_of(StagePass::Kind kind);

/// The passes of a rank in order: of each of its stages, each micro-batch once forward and once backward (or once by
/// each half, the input first), micro-batches ascending. Throws as `check` does, and Error(usage) for a custom schedule
/// that gives another list.
std::vector<StagePass> passes_of(const Pipeline& pipeline, int rank);
/// The forward passes alone, as an evaluation runs them, of any number of micro-batches.
std::vector<StagePass> forward_passes_of(Pipeline pipeline, int rank);

}  // namespace lockstep
