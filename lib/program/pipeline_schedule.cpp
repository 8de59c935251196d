#include "program/pipeline_schedule.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {

namespace {

using Kind = StagePass::Kind;

/// Micro-batches that go through a chunk before the next chunk has its turn.
int round_length(const Pipeline& pipeline) {
  return pipeline.micro_batches / std::max(1, pipeline.micro_batches / pipeline.ranks);
}

bool rounds_are_whole(int ranks, int micro_batches) { return micro_batches % std::max(1, micro_batches / ranks) == 0; }

/// So many micro-batches, or the next number of them that makes whole rounds: a multiple of the ranks at the latest.
int whole_rounds(int ranks, int micro_batches) {
  while (!rounds_are_whole(ranks, micro_batches)) ++micro_batches;
  return micro_batches;
}

std::vector<StagePass> gpipe_passes(const Pipeline& pipeline, int rank) {
  std::vector<StagePass> passes;
  for (const Kind kind : {Kind::forward, Kind::backward})
    for (MicroBatch mb = 0; mb < pipeline.micro_batches; ++mb) passes.push_back({kind, rank, mb});
  return passes;
}

std::vector<StagePass> one_f_one_b_passes(const Pipeline& pipeline, int rank) {
  const int warm_up = std::min(pipeline.micro_batches, pipeline.ranks - 1 - rank);
  std::vector<StagePass> passes;
  for (MicroBatch mb = 0; mb < warm_up; ++mb) passes.push_back({Kind::forward, rank, mb});
  for (MicroBatch mb = 0; mb < pipeline.micro_batches; ++mb) {
    if (mb + warm_up < pipeline.micro_batches) passes.push_back({Kind::forward, rank, mb + warm_up});
    passes.push_back({Kind::backward, rank, mb});
  }
  return passes;
}

/// Forward and backward in turn after a warm-up, both in rounds. A split backward needs a warm-up of one forward, not
/// two, for each rank that comes behind; weight passes follow their input passes `rank` visits later, and fill what
/// would be idle.
std::vector<StagePass> interleaved_passes(const Pipeline& pipeline, int rank) {
  const bool split = splits_backward(pipeline.schedule);
  const int round = round_length(pipeline);
  const int visits = pipeline.micro_batches * pipeline.chunks;
  const int warm_up = std::min(visits, (pipeline.chunks - 1) * round + (split ? 1 : 2) * (pipeline.ranks - 1 - rank));
  const auto visit = [&](Kind kind, int index) {
    const int turn = index / round % pipeline.chunks;
    const int chunk = kind == Kind::forward ? turn : pipeline.chunks - 1 - turn;
    return StagePass{kind, stage_of(pipeline, rank, chunk), index / (round * pipeline.chunks) * round + index % round};
  };
  std::vector<StagePass> passes;
  for (int i = 0; i < warm_up; ++i) passes.push_back(visit(Kind::forward, i));
  for (int i = 0; i < visits; ++i) {
    if (i + warm_up < visits) passes.push_back(visit(Kind::forward, i + warm_up));
    passes.push_back(visit(split ? Kind::backward_input : Kind::backward, i));
    if (split && i >= rank) passes.push_back(visit(Kind::backward_weight, i - rank));
  }
  for (int i = std::max(0, visits - rank); split && i < visits; ++i) passes.push_back(visit(Kind::backward_weight, i));
  return passes;
}

/// The fixed pattern of the paper for at least 2p − 1 micro-batches; of fewer, it is the pattern without the others.
std::vector<StagePass> zbv_passes(const Pipeline& pipeline, int rank) {
  const int ranks = pipeline.ranks;
  const int pattern = std::max(pipeline.micro_batches, 2 * ranks - 1);
  std::array<std::array<int, 2>, 4> done{};  // by kind and chunk
  std::vector<StagePass> passes;
  const auto visit = [&](Kind kind, std::size_t chunk) {
    const MicroBatch mb = done[static_cast<std::size_t>(kind)][chunk]++;
    if (mb < pipeline.micro_batches) passes.push_back({kind, stage_of(pipeline, rank, static_cast<int>(chunk)), mb});
  };
  const auto backward = [&](std::size_t chunk) {
    visit(Kind::backward_input, chunk);
    visit(Kind::backward_weight, chunk);
  };
  const auto turn = [&] {  // the second chunk: what comes down the V goes up again at once
    visit(Kind::forward, 1);
    backward(1);
  };
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) visit(Kind::forward, 0);
  for (int i = 0; i < rank; ++i) {
    visit(Kind::forward, 1);
    visit(Kind::forward, 0);
  }
  for (int i = 0; i < ranks - rank; ++i) turn();
  for (int i = ranks; i < pattern; ++i) {
    if (done[0][0] < pattern) visit(Kind::forward, 0);
    backward(0);
    turn();
  }
  for (int i = 0; i < rank; ++i) {
    visit(Kind::backward_input, 0);
    visit(Kind::backward_input, 1);
  }
  for (int i = 0; i < ranks - rank; ++i) backward(0);
  for (int i = 0; i < rank; ++i) visit(Kind::backward_weight, 1);
  for (int i = 0; i < rank; ++i) visit(Kind::backward_weight, 0);
  return passes;
}

/// What a custom schedule says, if it is a list of passes.
std::vector<StagePass> custom_passes(const Pipeline& pipeline, int rank) {
  const CustomSchedule& custom = pipeline.schedule.of_user();
  std::vector<StagePass> passes = custom.passes(pipeline, rank);
  const auto refuse = [&](std::size_t at, const std::string& why) {
    fail(ExitCode::usage, "{}: pass {} of rank {}, with {} and {}, is {} of micro-batch {} in stage {}: {}", custom.who,
         at, rank, counted(pipeline.chunks, "stage"), counted(pipeline.micro_batches, "micro-batch"),
         name_of(passes[at].kind), passes[at].micro_batch, passes[at].stage, why);
  };
  std::map<std::pair<Kind, int>, MicroBatch> next;  // by kind and stage
  for (std::size_t at = 0; at < passes.size(); ++at) {
    const auto& [kind, stage, micro_batch] = passes[at];
    if (stage < 0 || stage >= stage_count(pipeline) || rank_of(pipeline, stage) != rank)
      refuse(at, "this rank does not hold the stage");
    const bool half = kind == Kind::backward_input || kind == Kind::backward_weight;
    if (kind != Kind::forward && half != custom.splits_backward)
      refuse(at,
             half ? "the schedule is declared not to split backward" : "the schedule is declared to split backward");
    MicroBatch& due = next[{kind, stage}];
    if (micro_batch != due || due == pipeline.micro_batches)
      refuse(at, due == pipeline.micro_batches ? "all its micro-batches have run already"
                                               : fmt::format("micro-batch {} comes next", due));
    const Kind before = kind == Kind::backward_weight ? Kind::backward_input : Kind::forward;
    if (kind != Kind::forward && next[{before, stage}] <= micro_batch)
      refuse(at, fmt::format("its {} must run first", name_of(before)));
    if (const int source = kind == Kind::forward ? stage - 1 : stage + 1;
        kind != Kind::backward_weight && source >= 0 && source < stage_count(pipeline) &&
        rank_of(pipeline, source) == rank && next[{kind, source}] <= micro_batch)
      refuse(at, fmt::format("its input comes from stage {}, which must run first", source));
    ++due;
  }
  invariant(passes.size() == static_cast<std::size_t>(pipeline.chunks) *
                                 static_cast<std::size_t>(pipeline.micro_batches) * (custom.splits_backward ? 3 : 2),
            "a custom schedule has each pass of each stage and micro-batch once");
  return passes;
}

void check_chunks(const Pipeline& pipeline, int chunks) {
  if (pipeline.chunks != chunks)
    throw Error(ExitCode::usage,
                fmt::format("schedule {} has {} per rank, not {}", name_of(pipeline.schedule), counted(chunks, "stage"),
                            pipeline.chunks),
                "interleaved_1f1b and interleaved_zero_bubble take any number of stages per rank");
}

void check_rounds(const Pipeline& pipeline) {
  const int given = pipeline.micro_batches;
  if (rounds_are_whole(pipeline.ranks, given)) return;
  const int rounds = given / pipeline.ranks;
  throw Error(ExitCode::usage,
              fmt::format("schedule {} cannot run {} micro-batches on {} pipeline ranks: {} div {} = {} rounds, and {} "
                          "mod {} = {}, not 0",
                          name_of(pipeline.schedule), given, pipeline.ranks, given, pipeline.ranks, rounds, given,
                          rounds, given % rounds),
              fmt::format("the next number of micro-batches that fits is {}", whole_rounds(pipeline.ranks, given)));
}

}  // namespace

std::string_view name_of(PipelineSchedule schedule) {
  switch (schedule.name()) {
    case PipelineSchedule::gpipe: return "gpipe";
    case PipelineSchedule::one_f_one_b: return "1f1b";
    case PipelineSchedule::interleaved_1f1b: return "interleaved_1f1b";
    case PipelineSchedule::interleaved_zero_bubble: return "interleaved_zero_bubble";
    case PipelineSchedule::zbv: return "zbv";
    case PipelineSchedule::custom: return schedule.of_user().name;
  }
  fail(ExitCode::bug, "unknown PipelineSchedule {}", static_cast<int>(schedule.name()));
}

std::string_view name_of(StagePass::Kind kind) {
  switch (kind) {
    case Kind::forward: return "forward";
    case Kind::backward: return "backward";
    case Kind::backward_input: return "backward_input";
    case Kind::backward_weight: return "backward_weight";
  }
  fail(ExitCode::bug, "unknown StagePass::Kind {}", static_cast<int>(kind));
}

bool splits_backward(PipelineSchedule schedule) {
  switch (schedule.name()) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::interleaved_1f1b: return false;
    case PipelineSchedule::interleaved_zero_bubble:
    case PipelineSchedule::zbv: return true;
    case PipelineSchedule::custom: return schedule.of_user().splits_backward;
  }
  fail(ExitCode::bug, "unknown PipelineSchedule {}", static_cast<int>(schedule.name()));
}

bool placed_as_v(PipelineSchedule schedule) {
  return schedule.name() == PipelineSchedule::custom ? schedule.of_user().placed_as_v
                                                     : schedule == PipelineSchedule::zbv;
}

int usual_chunks(PipelineSchedule schedule) {
  switch (schedule.name()) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::one_f_one_b: return 1;
    case PipelineSchedule::interleaved_1f1b:
    case PipelineSchedule::interleaved_zero_bubble:
    case PipelineSchedule::zbv: return 2;
    case PipelineSchedule::custom: return schedule.of_user().chunks;
  }
  fail(ExitCode::bug, "unknown PipelineSchedule {}", static_cast<int>(schedule.name()));
}

void check(const Pipeline& pipeline) {
  if (pipeline.ranks < 1 || pipeline.chunks < 1 || pipeline.micro_batches < 1)
    fail(ExitCode::usage,
         "a pipeline needs at least one rank, one stage per rank and one micro-batch, not {}, {} and {}",
         pipeline.ranks, pipeline.chunks, pipeline.micro_batches);
  switch (pipeline.schedule.name()) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::one_f_one_b: return check_chunks(pipeline, 1);
    case PipelineSchedule::interleaved_1f1b:
    case PipelineSchedule::interleaved_zero_bubble: return check_rounds(pipeline);
    case PipelineSchedule::zbv: return check_chunks(pipeline, 2);
    case PipelineSchedule::custom: return;  // its passes are looked at
  }
}

int stage_of(const Pipeline& pipeline, int rank, int chunk) {
  invariant(rank >= 0 && rank < pipeline.ranks && chunk >= 0 && chunk < pipeline.chunks,
            "the pipeline has this rank and chunk");
  const bool back = placed_as_v(pipeline.schedule) && chunk % 2 == 1;
  return chunk * pipeline.ranks + (back ? pipeline.ranks - 1 - rank : rank);
}

int rank_of(const Pipeline& pipeline, int stage) {
  invariant(stage >= 0 && stage < stage_count(pipeline), "the pipeline has this stage");
  const int place = stage % pipeline.ranks;
  return climbs(pipeline, stage) ? pipeline.ranks - 1 - place : place;
}

bool climbs(const Pipeline& pipeline, int stage) {
  return placed_as_v(pipeline.schedule) && stage / pipeline.ranks % 2 == 1;
}

std::vector<StagePass> passes_of(const Pipeline& pipeline, int rank) {
  check(pipeline);
  invariant(rank >= 0 && rank < pipeline.ranks, "the pipeline has this rank");
  switch (pipeline.schedule.name()) {
    case PipelineSchedule::gpipe: return gpipe_passes(pipeline, rank);
    case PipelineSchedule::one_f_one_b: return one_f_one_b_passes(pipeline, rank);
    case PipelineSchedule::interleaved_1f1b:
    case PipelineSchedule::interleaved_zero_bubble: return interleaved_passes(pipeline, rank);
    case PipelineSchedule::zbv: return zbv_passes(pipeline, rank);
    case PipelineSchedule::custom: return custom_passes(pipeline, rank);
  }
  fail(ExitCode::bug, "unknown PipelineSchedule {}", static_cast<int>(pipeline.schedule.name()));
}

std::vector<StagePass> forward_passes_of(Pipeline pipeline, int rank) {
  if (pipeline.schedule.name() == PipelineSchedule::custom) {  // it may not have an order for so many
    std::vector<StagePass> passes;
    for (int chunk = 0; chunk < pipeline.chunks; ++chunk)
      for (MicroBatch mb = 0; mb < pipeline.micro_batches; ++mb)
        passes.push_back({Kind::forward, stage_of(pipeline, rank, chunk), mb});
    return passes;
  }
  const int micro_batches = pipeline.micro_batches;
  pipeline.micro_batches = whole_rounds(pipeline.ranks, micro_batches);
  std::vector<StagePass> passes = passes_of(pipeline, rank);
  std::erase_if(passes,
                [&](const StagePass& pass) { return pass.kind != Kind::forward || pass.micro_batch >= micro_batches; });
  return passes;
}

}  // namespace lockstep
