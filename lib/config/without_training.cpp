#include "config/without_training.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// The places where weights lie and how they are gathered stay; backward and the order of passes do not.
void leave_out_passes(ParallelOptions& parallel) {
  const ParallelOptions plain;
  parallel.accumulate = plain.accumulate;
  parallel.reshard_after_backward = plain.reshard_after_backward;
  parallel.schedule = plain.schedule;
  parallel.stages_per_rank = plain.stages_per_rank;
  parallel.split_points = plain.split_points;
  parallel.stage_splitter = plain.stage_splitter;
}

void leave_out_training_data(TrainConfig& config) {
  const DataOptions plain;
  DataOptions& data = config.data;
  if (!config.eval.datasets.empty()) {
    data.path.clear();
    data.datasets.clear();
  }
  for (TrainingDataset& dataset : data.datasets) dataset.weight.reset();
  data.shard = plain.shard;
  data.train_split = plain.train_split;
  data.shuffle = plain.shuffle;
  data.shuffle_where = plain.shuffle_where;
  data.repeat_order = plain.repeat_order;
  data.drop_last = plain.drop_last;
  data.short_last_step = plain.short_last_step;
  data.prefetch = plain.prefetch;
}

/// The batch stays: eval.batches counts batches of training.
TrainOptions without_steps(const TrainOptions& given) {
  TrainOptions train;
  train.run_dir = given.run_dir;
  train.max_steps = 1;
  train.global_batch = given.global_batch;
  train.micro_batch = given.micro_batch;
  train.accumulation = given.accumulation;
  train.seed = given.seed;
  train.device = given.device;
  if (std::ranges::find(given.offload, Offload::shards) != given.offload.end()) {
    train.offload = {Offload::shards};
    train.host_memory = given.host_memory;
  }
  train.threads = given.threads;
  train.memory_check = given.memory_check;
  train.inject = given.inject;
  train.watchdog = given.watchdog;
  train.watchdog_phases = given.watchdog_phases;
  return train;
}

/// The choice of a checkpoint, and where checkpoints lie.
CheckpointOptions without_saves(const CheckpointOptions& given) {
  CheckpointOptions checkpoint;
  checkpoint.best_metric = given.best_metric;
  checkpoint.best_dataset = given.best_dataset;
  checkpoint.best_direction = given.best_direction;
  checkpoint.resume = given.resume;
  checkpoint.only = given.only;
  checkpoint.skip = given.skip;
  checkpoint.storage = given.storage;
  checkpoint.local_dir = given.local_dir;
  checkpoint.background = Background::never;
  checkpoint.patience = given.patience;
  return checkpoint;
}

EvalOptions without_cadence(const EvalOptions& given) {
  EvalOptions eval;
  eval.batches = given.batches;
  eval.micro_batch = given.micro_batch;
  eval.packing = given.packing;
  eval.datasets = given.datasets;
  return eval;
}

}  // namespace

TrainConfig evaluation_alone(const TrainConfig& given) {
  TrainConfig config = given;
  leave_out_passes(config.parallel);
  leave_out_training_data(config);
  config.post_local_sgd = {};
  config.precision.reduce_dtype.reset();
  config.precision.loss_scale = {};
  config.optimizer = {};
  config.optimizer.name = OptimizerName::sgd;  // without momentum it keeps no state
  config.schedule = {};
  config.schedule.name = ScheduleName::constant;
  config.train = without_steps(given.train);
  config.eval = without_cadence(given.eval);
  config.divergence = {};
  config.sample = {};
  config.checkpoint = without_saves(given.checkpoint);
  if (given.train.run_dir.empty()) config.checkpoint.local_dir.reset();
  config.log = {};
  return config;
}

TrainConfig sampling_alone(const TrainConfig& given) {
  TrainConfig config = evaluation_alone(given);
  const ParallelOptions plain;
  ParallelOptions& parallel = config.parallel;
  parallel.dp_replicate = plain.dp_replicate;
  parallel.dp_shard = plain.dp_shard;
  parallel.ring = plain.ring;
  parallel.ulysses = plain.ulysses;
  parallel.cp_fsdp_mode = plain.cp_fsdp_mode;
  parallel.zero = plain.zero;
  parallel.reshard_after_forward = plain.reshard_after_forward;
  parallel.micro_batches = plain.micro_batches;
  const DataOptions& data = given.data;
  config.data = {};
  config.data.sequence_length = std::max<std::int64_t>(data.sequence_length, 1);
  config.data.preparation = data.preparation;
  if (data.preparation.records.chat_template)
    config.data.preparation.records.form = RecordForm::messages;  // of prompts
  config.eval = {};
  config.eval.at_end = false;
  config.train.offload = {};  // of shards, which one rank has none of
  config.train.host_memory = TrainOptions().host_memory;
  config.train.global_batch.reset();
  config.train.micro_batch = 1;
  config.train.accumulation = 1;
  config.sample = given.sample;
  config.sample.prompts = given.sample_texts;
  return config;
}

TrainConfig without_training(const TrainConfig& given) {
  return given.eval_only ? evaluation_alone(given) : samples_alone(given) ? sampling_alone(given) : given;
}

}  // namespace lockstep
