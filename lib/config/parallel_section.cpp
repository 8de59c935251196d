// The sections parallel and post_local_sgd of train.
#include "config/train_choices.hpp"
#include "config/train_sections.hpp"
#include "options/option.hpp"
#include "options/ranges.hpp"

namespace lockstep {

void describe(Declaration& visit, ParallelOptions& parallel) {
  visit.field("pp", parallel.pp,
              {.brief = "pipeline-parallel degree (stages of the model)",
               .details = "auto takes the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("dp_replicate", parallel.dp_replicate,
              {.brief = "data-parallel replicas (DDP, HSDP)",
               .details = "auto takes the ranks that dp_shard leaves",
               .unset = "auto",
               .unit = "ranks"});
  visit.field(
      "dp_shard", parallel.dp_shard,
      {.brief = "fully sharded data-parallel degree (FSDP, ZeRO)",
       .details = "Each parameter is cut along its first dimension. auto takes the ranks that dp_replicate leaves. "
                  "node takes the ranks of a node that faster axes leave, so that only dp_replicate crosses nodes",
       .unset = "1",
       .unit = "ranks"});
  visit.field("ring", parallel.ring,
              {.brief = "context-parallel degree of ring attention",
               .details = "Each rank holds two parts of every document; keys and values go around the ring. auto takes "
                          "the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("ulysses", parallel.ulysses,
              {.brief = "context-parallel degree of Ulysses (all-to-all over heads)",
               .details = "Each rank holds some rows of all heads, and all rows of some heads within attention. auto "
                          "takes the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("cp_fsdp_mode", parallel.cp_fsdp_mode,
              {.brief = "context-parallel axes that also shard weights, with dp_shard",
               .details = "Weights are replicated along the others"});
  visit.field("tp", parallel.tp,
              {.brief = "tensor-parallel degree",
               .details = "Heads, the width of the MLP and the vocabulary are split; activations are summed inside "
                          "each block. auto takes the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("sequence_parallel", parallel.sequence_parallel,
              {.brief = "sequence parallelism: split norms and residual stream over tp"});
  visit.field(
      "ep", parallel.ep,
      {.brief = "expert-parallel degree",
       .details = "Rows go to the ranks of their experts and back. It divides the ranks of a stage independently of "
                  "the other axes. Ranks with the same experts shard them where dp_shard shards the rest",
       .unit = "ranks",
       .min = 1,
       .max = most_count});
  visit.field("ep_outside", parallel.ep_outside,
              {.brief = "spread expert-parallel ranks far apart; equal experts are neighbours"});
  visit.field("ep_capacity", parallel.ep_capacity,
              {.brief = "expert capacity of a round, relative to an even spread of tokens",
               .details = "More rows go in further rounds; no token is dropped",
               .min = 1,
               .max = 1e6});
  visit.field(
      "order", parallel.order,
      {.brief = "order of mesh axes, the fastest (neighbouring ranks) last",
       .details = "Axes that are not named come first. Ranks of the last axis are on one machine where they fit",
       .unset = "pp, dp_replicate, dp_shard, ring, ulysses, tp"});
  visit.field("zero", parallel.zero,
              {.brief = "ZeRO stage of dp_shard: 1, 2 or 3",
               .details = "1 shards the optimizer state and master weights. 2 also shards gradients after each "
                          "micro-batch. 3 also frees gathered weights after each block",
               .min = 1,
               .max = 3});
  visit.field("accumulate", parallel.accumulate,
              {.brief = "gradient accumulation over micro-batches: whole, shards or sums",
               .unset = "shards for zero 2 and 3, otherwise whole"});
  visit.field("reshard_after_forward", parallel.reshard_after_forward,
              {.brief = "free gathered weights after forward: true, false, or a number of ranks",
               .details = "With a number, that many neighbouring ranks of dp_shard keep the weights sharded among "
                          "themselves for the rest of the step",
               .unset = "true for zero 3"});
  visit.field("reshard_after_backward", parallel.reshard_after_backward,
              {.brief = "free gathered weights after backward",
               .details = "Otherwise they stay for the next micro-batch",
               .unset = "true for zero 3"});
  visit.field("prefetch", parallel.prefetch,
              {.brief = "prefetch depth: blocks whose weights are gathered ahead",
               .unit = "blocks",
               .min = 0,
               .max = most_count});
  visit.field(
      "units", parallel.units,
      {.brief = "patterns of tensors that form a sharding unit of their own",
       .details =
           "Such tensors of a block are gathered, reduced and updated together, apart from the rest of the block",
       .value_name = "REGEX"});
  visit.field(
      "bucket_size", parallel.bucket_size,
      {.brief = "bucket size: neighbouring blocks of a stage up to this size form a unit",
       .details =
           "A unit is gathered, reduced and updated at once. A size above the model's makes one unit for each stage",
       .unset = "each block is a unit"});
  visit.field("schedule", parallel.schedule, {.brief = "pipeline schedule", .details = "Plug-ins add names"});
  visit.field("stages_per_rank", parallel.stages_per_rank,
              {.brief = "virtual pipeline stages per rank",
               .unset = "2 for zbv and the interleaved schedules, 1 for the others",
               .unit = "stages",
               .min = 1,
               .max = most_count});
  visit.field("split_points", parallel.split_points,
              {.brief = "first blocks of the stages after the first: layer.8, head",
               .details = "Empty: stages of equal cost, embedding and head included",
               .value_name = "BLOCK"});
  visit.field("stage_splitter", parallel.stage_splitter,
              {.brief = "how blocks are split into stages without split_points", .details = "Plug-ins add names"});
  visit.field("micro_batches", parallel.micro_batches,
              {.brief = "micro-batches of one pass through the pipeline schedule",
               .unset = "the step's micro-batches divided by train.accumulation",
               .unit = "micro-batches",
               .min = 1,
               .max = most_count});
  visit.field("transport", parallel.transport,
              {.brief = "how ranks exchange data that lies on GPUs",
               .details = "On the CPU ranks use MPI, and nccl is refused. See lockstep-devices(7)"});
}

void describe(Declaration& visit, PostLocalSgdOptions& local) {
  visit.field("start_step", local.start_step,
              {.brief = "first step of local SGD, from 0",
               .details = "From then on, each cell of ranks updates its own weights. They are averaged over the cells "
                          "after the first such step and every period",
               .unset = "never",
               .unit = "steps",
               .min = 0,
               .max = most_count,
               .on_resume = OnResume::fixed()});
  visit.field("period", local.period,
              {.brief = "steps between averages of the weights in local SGD",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .on_resume = OnResume::fixed()});
  visit.field("cell", local.cell,
              {.brief = "ranks of a local SGD cell that keep summing gradients together",
               .details = "A cell is a set of neighbours along dp_replicate, for instance those of a machine, each "
                          "with its dp_shard ranks. Ranks of tp, ring and ulysses count as one",
               .unset = "as many as dp_shard",
               .unit = "ranks",
               .min = 1,
               .max = most_count});
}

bool shards_along(const ParallelOptions& parallel, MeshAxis axis) {
  if (!parallel.dp_shard) return false;
  switch (parallel.cp_fsdp_mode.value()) {
    case CpFsdpMode::all: return true;
    case CpFsdpMode::ulysses_only: return axis == MeshAxis::ulysses;
    case CpFsdpMode::ring_only: return axis == MeshAxis::ring;
    case CpFsdpMode::none: return false;
  }
  throw Error(ExitCode::bug, "a cp_fsdp_mode without a meaning");
}

}  // namespace lockstep
