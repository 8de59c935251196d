#include "report/record.hpp"

#include "base/clock.hpp"
#include "report/record_fields.hpp"

namespace lockstep {

void describe(RecordFields& visit, const RunRecord& record) {
  visit.field("tool", record.tool, "the program");
  visit.field("version", record.version, "version of lockstep");
  visit.field("build", record.build, "compiler and libraries");
  visit.field("config", record.config, "all options with their resolved values");
  visit.field("mesh", record.mesh, "mesh axes with their sizes");
  visit.field("run_dir", record.run_dir, "folder of the run");
  visit.field("ranks", record.ranks, "processes of the job");
  visit.field("hosts", record.hosts, "names of the machines, each once");
  visit.field("threads_per_rank", record.threads_per_rank, "compute threads of a rank");
  visit.field("arithmetic", record.arithmetic, "instructions and matrix products that rank 0 uses");
  visit.field("parameters", record.parameters, "number of weights, tied ones counted once");
  visit.field("steps", record.steps, "steps of the whole run");
  visit.field("global_batch", record.global_batch, "samples of one step over all ranks");
  visit.field("tokens_per_step", record.tokens_per_step, "positions of one step over all ranks");
  visit.field("flops_per_step", record.flops_per_step, "floating-point operations of forward and backward of one step");
  visit.field(
      "packing", record.packing,
      "packing of documents into rows, by use of the rows: the method, samples, fill, and the numbers of documents "
      "and labels by outcome; null: samples are windows");
  visit.field(
      "labels", record.labels,
      "for training data with a loss mask: tokens and trained_tokens of the dataset with their share (null: not "
      "known), documents of the split, cut_documents (which do not lie whole in one row), and the numbers of "
      "records that data.max_length cut or left out; by name for data.datasets; null: all labels count");
  visit.field("start_step", record.start_step, "steps done before this start");
  visit.field("resumed_from", record.resumed_from,
              "folder of the checkpoint from which the run resumes; null: from scratch");
}

void describe(RecordFields& visit, const StepRecord& record) {
  visit.field("step", record.step, "steps done, this one included");
  visit.field("loss", record.loss,
              "mean over the valid tokens of the global batch, in nats; only the loss of train.loss, with "
              "train.label_smoothing applied");
  visit.field(
      "aux_loss", record.aux_loss,
      "auxiliary load-balancing loss of experts, mean over samples and layers, without its coefficient; null: there "
      "is none");
  visit.field("lr", record.lr, "learning rate of the step");
  visit.field("grad_norm", record.grad_norm,
              "global norm of the gradient before clipping; in local steps the root mean square over cells");
  visit.field("loss_scale", record.loss_scale, "loss scale of the step; null: none, as in all types but fp16");
  visit.field("tokens", record.tokens, "valid tokens trained on since the run began");
  visit.field("tokens_per_s", record.tokens_per_s, "mean since the previous step record");
  visit.field("step_ms", record.step_ms, "mean duration of a step since the previous step record");
  visit.field("fill", record.fill, "trained labels, divided by the positions of this step's rows");
  visit.field("data_wait_ms", record.data_wait_ms, "part of step_ms in which rank 0 waited for its batch");
  visit.field("mfu", record.mfu, "model FLOPs per second divided by the machine's peak; null: the peak is not known");
  visit.field("eta_s", record.eta_s, "seconds until the last step at the current rate");
  visit.field("epoch", record.epoch, "passes over the training split");
  visit.field(
      "datasets", record.datasets,
      "for each name in data.datasets: its samples and valid tokens trained on since the run began; empty: data.path "
      "names the only dataset, or the run was started by an earlier version that did not count");
  visit.field(
      "expert_entropy", record.expert_entropy,
      "for each layer with experts: entropy of the experts' shares of the routed tokens, divided by the logarithm of "
      "the number of experts: 1 if all shares are equal, 0 if one expert has all; null: there are no experts");
  visit.field("expert_share", record.expert_share,
              "for each layer with experts: the largest share; null: there are no experts");
  visit.field("expert_dropped", record.expert_dropped,
              "routed tokens that were dropped: always 0; null: there are no experts");
}

void describe(RecordFields& visit, const StatisticsRecord& record) {
  visit.field("step", record.step, "steps done: weights after this step, or gradients of this step");
  visit.field("of", record.of, "weights, or gradients, which are means over the global batch before clipping");
  visit.field("elements", record.elements,
              "elements of all tensors, each counted once; for gradients those of trained tensors, in local steps "
              "of all cells");
  visit.field("norm", record.norm,
              "square root of the sum of squares of the finite elements; in local steps the root mean square over "
              "cells");
  visit.field("mean", record.mean, "mean of the finite elements; std, min and max are also of finite elements");
  visit.field("std", record.std, "standard deviation of the population");
  visit.field("min", record.min, "the smallest element");
  visit.field("max", record.max, "the largest element");
  visit.field("zeros", record.zeros, "elements that are 0");
  visit.field("nonfinite", record.nonfinite, "elements that are infinite or NaN");
  visit.field("tensors", record.tensors,
              "for each tensor by name: its elements, norm, mean, std, min, max, zeros and nonfinite");
}

void describe(RecordFields& visit, const EvalRecord& record) {
  visit.field("step", record.step, "steps done before the evaluation");
  visit.field("name", record.name,
              "name of the evaluated dataset in eval.datasets or data.datasets; null: data.path is the only dataset");
  visit.field("split", record.split, "split that was evaluated");
  visit.field("loss", record.loss, "mean over the valid tokens, in nats");
  visit.field("perplexity", record.perplexity, "exp(loss)");
  visit.field("accuracy", record.accuracy, "fraction of the valid tokens that the model predicted as most probable");
  visit.field("tokens", record.tokens, "valid tokens evaluated");
  visit.field("eval_ms", record.eval_ms, "duration of the evaluation");
  visit.field("best", record.best,
              "whether this is the best evaluation of the run so far by checkpoint.best_metric; null: measured with "
              "--eval-only, which does not compare");
}

void describe(RecordFields& visit, const SampleRecord& record) {
  visit.field("step", record.step, "steps done before");
  visit.field("prompt", record.prompt, "the prompt");
  visit.field("prompt_tokens", record.prompt_tokens, "tokens of the prompt");
  visit.field("text", record.text, "the continuation, without the prompt");
  visit.field("tokens", record.tokens, "tokens of the continuation, with the token or the text that ended it");
  visit.field("ids", record.ids, "ids of these tokens");
  visit.field(
      "log_probabilities", record.log_probabilities,
      "logarithm of the probability that the model gives to each of these tokens, in nats, without temperature, "
      "top-k and top-p");
  visit.field(
      "end", record.end,
      "why the text ended: length (sample.max_tokens), stop_token, stop_text (sample.stop) or positions (of the "
      "model)");
  visit.field(
      "tokens_per_s", record.tokens_per_s,
      "tokens of the continuation per second, from the start of its prompt; other texts may have been generated "
      "at the same time");
}

void describe(RecordFields& visit, const CheckpointRecord& record) {
  visit.field("step", record.step, "steps done in the saved state");
  visit.field("path", record.path, "folder of the checkpoint");
  visit.field("bytes", record.bytes, "size of its files");
  visit.field("compared_bytes", record.compared_bytes, "bytes that all ranks read only to compare replicated state");
  visit.field("state_digest", record.state_digest,
              "hash of the whole state, independent of the layout over ranks and files: 32 hexadecimal digits");
  visit.field("save_ms", record.save_ms, "time for which training was blocked");
  visit.field("background_ms", record.background_ms, "time from the start of a background save to its commit");
  visit.field("removed", record.removed, "folders of older checkpoints that were removed");
}

void describe(RecordFields& visit, const ProfileRecord& record) {
  visit.field("first_step", record.first_step, "first step that was profiled");
  visit.field("last_step", record.last_step, "last step that was profiled");
  visit.field("work", record.work,
              "kind of work; reduction overlaps with the others, waiting is the part that is not overlapped");
  visit.field("mean_ms", record.mean_ms, "time per step, mean over ranks");
  visit.field("min_ms", record.min_ms, "time per step of the fastest rank");
  visit.field("max_ms", record.max_ms, "time per step of the slowest rank");
  visit.field("imbalance", record.imbalance, "max_ms divided by mean_ms");
}

void describe(RecordFields& visit, const EventRecord& record) {
  visit.field("step", record.step, "steps done; null: before training");
  visit.field("name", record.name, "name of the event");
  visit.field("message", record.message, "description for people");
  visit.field("loss", record.loss,
              "loss of the step or evaluation; null: not finite, or the event is not about a loss");
  visit.field("grad_norm", record.grad_norm,
              "gradient norm of the step; null: not finite, or the event is not about a gradient");
  visit.field("in_a_row", record.in_a_row, "consecutive skipped steps up to this one");
  visit.field("limit", record.limit,
              "limit that the loss of a spike exceeds: mean + 6 standard deviations of the last 100 finite losses");
  visit.field("loss_scale", record.loss_scale, "loss scale from the next step on, if the event is its change");
}

void describe(RecordFields& visit, const SummaryRecord& record) {
  visit.field("reason", record.reason, "finished, stopped or failed");
  visit.field("exit_code", record.exit_code, "exit code of all ranks");
  visit.field("step", record.step, "steps done");
  visit.field("tokens", record.tokens, "valid tokens trained on since the run began");
  visit.field(
      "positions", record.positions,
      "positions of the samples trained on since the run began: data.sequence_length for each sample, as the plan "
      "counts them; tokens are those whose label counts");
  visit.field("datasets", record.datasets, "as in the last step record");
  visit.field("skipped", record.skipped,
              "steps of the run without an update, because the loss or gradient was not finite");
  visit.field("wall_s", record.wall_s, "duration since this start");
  visit.field("epoch", record.epoch, "passes over the training split");
  visit.field("global_batch", record.global_batch, "samples of one step over all ranks");
  visit.field("samples", record.samples, "samples trained on since this start");
  visit.field("flops", record.flops, "floating-point operations of the model for the tokens of the run so far");
  visit.field("speed_from_step", record.speed_from_step,
              "first step that counts for the speeds (log.speed_from_step); null: no step of this start counts");
  visit.field(
      "steps_per_s", record.steps_per_s,
      "steps per second from speed_from_step to the last step, without the time of evaluations and saves; null: no "
      "step counts");
  visit.field("samples_per_s", record.samples_per_s, "samples per second over the same steps");
  visit.field("tokens_per_s", record.tokens_per_s, "tokens per second over the same steps");
  visit.field("flops_per_s", record.flops_per_s, "model FLOPs per second over the same steps");
  visit.field("mfu", record.mfu, "flops_per_s divided by the machine's peak; null: the peak is not known");
  visit.field("peak_memory_bytes", record.peak_memory_bytes, "peak host memory of each rank");
  visit.field("peak_device_memory_bytes", record.peak_device_memory_bytes,
              "peak memory of the tensors on the device of each rank; empty: the CPU computes");
  visit.field("mean_loss", record.mean_loss, "mean over the steps since this start that were not skipped");
  visit.field("loss", record.loss, "loss of the last step that was not skipped");
  visit.field("eval_loss", record.eval_loss, "loss of the last evaluation");
  visit.field("checkpoint", record.checkpoint, "folder of the last checkpoint saved");
  visit.field("records_lost", record.records_lost,
              "records of this start that could not be written, summed over all sinks");
}

namespace {

template <class R>
RecordFields fields_of(const R& record) {
  RecordFields fields;
  describe(fields, record);
  return fields;
}

template <class R>
Json json_of(const R& record) {
  Json json = {{"schema", record_schema}, {"kind", R::kind}, {"time", utc_now()}};
  json.update(fields_of(record).values());
  return json;
}

template <class R>
Json schema_of() {
  Json properties = {{"schema", {{"const", record_schema}}},
                     {"kind", {{"const", R::kind}}},
                     {"time",
                      {{"type", "string"},
                       {"description", "UTC, ISO 8601 with milliseconds"},
                       {"pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$"}}}};
  properties.update(fields_of(R{}).schemas());
  Json required = Json::array();
  for (const auto& item : properties.items()) required.push_back(item.key());
  return {{"title", R::kind},
          {"type", "object"},
          {"properties", properties},
          {"required", required},
          {"additionalProperties", false}};
}

}  // namespace

Json to_json(const RunRecord& record) { return json_of(record); }
Json to_json(const StepRecord& record) { return json_of(record); }
Json to_json(const StatisticsRecord& record) { return json_of(record); }
Json to_json(const EvalRecord& record) { return json_of(record); }
Json to_json(const SampleRecord& record) { return json_of(record); }
Json to_json(const CheckpointRecord& record) { return json_of(record); }
Json to_json(const ProfileRecord& record) { return json_of(record); }
Json to_json(const EventRecord& record) { return json_of(record); }
Json to_json(const SummaryRecord& record) { return json_of(record); }

Json record_json_schema() {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "records of lockstep train, one JSON object per line"},
          {"oneOf",
           {schema_of<RunRecord>(), schema_of<StepRecord>(), schema_of<StatisticsRecord>(), schema_of<EvalRecord>(),
            schema_of<SampleRecord>(), schema_of<CheckpointRecord>(), schema_of<ProfileRecord>(),
            schema_of<EventRecord>(), schema_of<SummaryRecord>()}}};
}

}  // namespace lockstep
