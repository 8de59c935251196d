#include "report/record.hpp"

#include "base/clock.hpp"
#include "report/record_fields.hpp"

namespace lockstep {

void describe(RecordFields& visit, const RunRecord& record) {
  visit.field("tool", record.tool, "the program");
  visit.field("version", record.version, "of lockstep");
  visit.field("build", record.build, "compiler and libraries");
  visit.field("config", record.config, "every option as resolved");
  visit.field("mesh", record.mesh, "mesh axes with their sizes");
  visit.field("run_dir", record.run_dir, "folder of the run");
  visit.field("ranks", record.ranks, "processes of the job");
  visit.field("hosts", record.hosts, "names of the machines, each once");
  visit.field("threads_per_rank", record.threads_per_rank, "threads that a rank computes with");
  visit.field("arithmetic", record.arithmetic, "instructions and matrix products that rank 0 uses");
  visit.field("parameters", record.parameters, "elements of all weights, tied ones once");
  visit.field("steps", record.steps, "of the whole run");
  visit.field("global_batch", record.global_batch, "samples of one step over all ranks");
  visit.field("tokens_per_step", record.tokens_per_step, "positions of one step over all ranks");
  visit.field("flops_per_step", record.flops_per_step, "floating-point operations of forward and backward of one step");
  visit.field(
      "packing", record.packing,
      "of documents into rows, by what they are for: how, samples, fill, and documents and labels by what became "
      "of them; null: samples are windows");
  visit.field("start_step", record.start_step, "steps done before this start");
  visit.field("resumed_from", record.resumed_from,
              "folder of the checkpoint that it continues from; null: from scratch");
}

void describe(RecordFields& visit, const StepRecord& record) {
  visit.field("step", record.step, "steps done, this one included");
  visit.field("loss", record.loss,
              "mean over the valid tokens of the global batch, in nats; that of train.loss alone, of labels as smooth "
              "as train.label_smoothing says");
  visit.field("aux_loss", record.aux_loss,
              "auxiliary loss of experts, mean over samples and layers, without its coefficient; null: there is none");
  visit.field("lr", record.lr, "learning rate of the step");
  visit.field("grad_norm", record.grad_norm,
              "global norm of the gradient before clipping; of local steps the root mean square of those of cells");
  visit.field("loss_scale", record.loss_scale, "that the step was computed with; null: none, as in all types but fp16");
  visit.field("tokens", record.tokens, "valid tokens trained on since the run began");
  visit.field("tokens_per_s", record.tokens_per_s, "since the step record before");
  visit.field("step_ms", record.step_ms, "mean duration of a step since the step record before");
  visit.field("fill", record.fill, "labels that count, of the positions of this step's rows");
  visit.field("data_wait_ms", record.data_wait_ms, "of it rank 0 waited so long for its batch");
  visit.field("mfu", record.mfu, "model FLOPs per second divided by the machine's peak; null: the peak is not known");
  visit.field("eta_s", record.eta_s, "seconds until the last step at the present rate");
  visit.field("epoch", record.epoch, "passes over the training split");
  visit.field("datasets", record.datasets,
              "by the name of each of data.datasets: samples and valid tokens of it trained on since the run began; "
              "empty: data.path names the only one, or an earlier version that did not count began the run");
  visit.field("expert_entropy", record.expert_entropy,
              "by layer with experts: entropy of their shares of the step's choices, divided by the logarithm of their "
              "number: 1 if all are equal, 0 if one has all; null: there are no experts");
  visit.field("expert_share", record.expert_share, "by layer with experts: the largest share; null: there are none");
  visit.field("expert_dropped", record.expert_dropped, "choices that were not computed: 0; null: there are no experts");
}

void describe(RecordFields& visit, const StatisticsRecord& record) {
  visit.field("step", record.step, "steps done: weights are those behind this step, gradients those of it");
  visit.field("of", record.of, "weights, or gradients: means over the global batch before clipping");
  visit.field("elements", record.elements,
              "of all tensors, each once however many ranks hold it; of gradients those of tensors that are trained, "
              "and in local steps those of all cells");
  visit.field("norm", record.norm,
              "root of the sum of the squares of those that are finite; of local steps the root mean square of those "
              "of cells");
  visit.field("mean", record.mean, "of those that are finite, as the next ones");
  visit.field("std", record.std, "standard deviation, of the elements as a population");
  visit.field("min", record.min, "the least");
  visit.field("max", record.max, "the greatest");
  visit.field("zeros", record.zeros, "elements that are 0");
  visit.field("nonfinite", record.nonfinite, "elements that are infinite or no number");
  visit.field("tensors", record.tensors,
              "by name of the tensor: elements, norm, mean, std, min, max, zeros and nonfinite, of it alone");
}

void describe(RecordFields& visit, const EvalRecord& record) {
  visit.field("step", record.step, "steps done before the evaluation");
  visit.field("name", record.name,
              "of the set, one of eval.datasets or data.datasets; null: what data.path names is evaluated alone");
  visit.field("split", record.split, "what was evaluated on");
  visit.field("loss", record.loss, "mean over the valid tokens, in nats");
  visit.field("perplexity", record.perplexity, "exp(loss)");
  visit.field("accuracy", record.accuracy, "share of the valid tokens that the model held for the most probable next");
  visit.field("tokens", record.tokens, "valid tokens evaluated");
  visit.field("eval_ms", record.eval_ms, "duration");
  visit.field(
      "best", record.best,
      "the best of the run so far by checkpoint.best_metric; null: measured with --eval-only, which compares it with "
      "none");
}

void describe(RecordFields& visit, const SampleRecord& record) {
  visit.field("step", record.step, "steps done before");
  visit.field("prompt", record.prompt, "text that was continued");
  visit.field("text", record.text, "the continuation, without the prompt");
  visit.field("tokens", record.tokens, "length of the continuation");
}

void describe(RecordFields& visit, const CheckpointRecord& record) {
  visit.field("step", record.step, "steps done that it holds");
  visit.field("path", record.path, "its folder");
  visit.field("bytes", record.bytes, "size of its files");
  visit.field("compared_bytes", record.compared_bytes,
              "that ranks read only to compare what they should hold alike, in all");
  visit.field("state_digest", record.state_digest,
              "hash of all that it holds, whatever ranks and files it is spread over: 32 hexadecimal digits");
  visit.field("save_ms", record.save_ms, "time for which training stood still");
  visit.field("background_ms", record.background_ms, "from the begin of a save in the background to its commit");
  visit.field("removed", record.removed, "folders of older checkpoints that were removed");
}

void describe(RecordFields& visit, const ProfileRecord& record) {
  visit.field("first_step", record.first_step, "first step that was profiled");
  visit.field("last_step", record.last_step, "last step that was profiled");
  visit.field("work", record.work,
              "kind of work; reduction runs beside the others, waiting is the part of it that they do not hide");
  visit.field("mean_ms", record.mean_ms, "time a step, mean over ranks");
  visit.field("min_ms", record.min_ms, "of the rank that took least");
  visit.field("max_ms", record.max_ms, "of the rank that took most");
  visit.field("imbalance", record.imbalance, "max_ms divided by mean_ms");
}

void describe(RecordFields& visit, const EventRecord& record) {
  visit.field("step", record.step, "steps done; null: before training");
  visit.field("name", record.name, "what happened, as one word");
  visit.field("message", record.message, "for people");
  visit.field("loss", record.loss, "of the step or evaluation; null: not finite, or not what the event is about");
  visit.field("grad_norm", record.grad_norm, "of the step; null: not finite, or not what the event is about");
  visit.field("in_a_row", record.in_a_row, "skipped steps up to this one without another between them");
  visit.field("limit", record.limit,
              "what the loss of a spike is beyond: mean + 6 standard deviations of the last 100 finite losses");
  visit.field("loss_scale", record.loss_scale, "from the next step on, where the event is that it changed");
}

void describe(RecordFields& visit, const SummaryRecord& record) {
  visit.field("reason", record.reason, "finished, stopped or failed");
  visit.field("exit_code", record.exit_code, "that every rank returns");
  visit.field("step", record.step, "steps done");
  visit.field("tokens", record.tokens, "valid tokens trained on since the run began");
  visit.field("datasets", record.datasets, "as in the last step record");
  visit.field("skipped", record.skipped,
              "steps of the run whose loss or gradient was not finite: they changed nothing");
  visit.field("wall_s", record.wall_s, "duration since this start");
  visit.field("epoch", record.epoch, "passes over the training split");
  visit.field("global_batch", record.global_batch, "samples of one step over all ranks");
  visit.field("samples", record.samples, "trained on since this start");
  visit.field("flops", record.flops, "floating-point operations of the model for the tokens of the run so far");
  visit.field("speed_from_step", record.speed_from_step,
              "first step that counts for the speeds, as log.speed_from_step says; null: none of this start did");
  visit.field("steps_per_s", record.steps_per_s,
              "from there to the last step, without the time of evaluations and saves; null: no step counts");
  visit.field("samples_per_s", record.samples_per_s, "the same");
  visit.field("tokens_per_s", record.tokens_per_s, "the same");
  visit.field("flops_per_s", record.flops_per_s, "the same, of the model");
  visit.field("mfu", record.mfu, "flops_per_s divided by the machine's peak; null: the peak is not known");
  visit.field("peak_memory_bytes", record.peak_memory_bytes, "by rank: the most memory that it had at once");
  visit.field("mean_loss", record.mean_loss, "mean over the steps since this start that were not skipped");
  visit.field("loss", record.loss, "of the last step that was not skipped");
  visit.field("eval_loss", record.eval_loss, "of the last evaluation");
  visit.field("checkpoint", record.checkpoint, "folder of the last checkpoint saved");
  visit.field("records_lost", record.records_lost,
              "records of this start that could not be written, those of each place where records go added up");
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
          {"title", "records of lockstep train, one JSON object a line"},
          {"oneOf",
           {schema_of<RunRecord>(), schema_of<StepRecord>(), schema_of<StatisticsRecord>(), schema_of<EvalRecord>(),
            schema_of<SampleRecord>(), schema_of<CheckpointRecord>(), schema_of<ProfileRecord>(),
            schema_of<EventRecord>(), schema_of<SummaryRecord>()}}};
}

}  // namespace lockstep
