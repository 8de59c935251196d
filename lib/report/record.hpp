// Records report a run to programs: JSON objects, with units in the names. The structs here are the only declaration of
// their fields; the text of a record, its JSON Schema and TensorBoard's scalars are derived from them. Writing records:
// report/recorder.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class RecordFields;

constexpr std::string_view record_schema =
    "lockstep-record-1";  // the "schema" of each record; a new number when a field changes meaning

// In JSON, numbers that are not finite and fields that are not set are null. Steps count from 1; a record of step N
// describes the state after that step.

/// A process group starts or resumes.
struct RunRecord {
  static constexpr std::string_view kind = "run";
  std::string tool;  // "train"
  std::string version;
  std::shared_ptr<const Json> build;   // compiler, libraries
  std::shared_ptr<const Json> config;  // as resolved
  std::shared_ptr<const Json> mesh;    // axis name -> size
  std::string run_dir;
  std::int64_t ranks = 0;
  std::vector<std::string> hosts;  // distinct names
  std::int64_t threads_per_rank = 0;
  std::string arithmetic;  // instructions and matrix products that rank 0 uses
  std::int64_t parameters = 0;
  std::int64_t steps = 0;         // of the whole run
  std::int64_t global_batch = 0;  // samples
  std::int64_t tokens_per_step = 0;
  std::optional<double> flops_per_step;
  std::shared_ptr<const Json> packing = {};  // of documents into rows, by use: rows, fill, dropped parts; null: none
  std::shared_ptr<const Json> labels = {};   // of training data with masks: those that count, cut documents
  std::int64_t start_step = 0;               // steps done before this start
  std::optional<std::string> resumed_from;   // folder of the checkpoint
};

struct StepRecord {
  static constexpr std::string_view kind = "step";
  std::int64_t step = 0;
  double loss = 0;                      // nats per token, over the global batch
  std::optional<double> aux_loss = {};  // auxiliary load-balancing loss of experts, without its coefficient
  double lr = 0;
  double grad_norm = 0;              // before clipping
  std::optional<double> loss_scale;  // of fp16
  std::int64_t tokens = 0;           // valid tokens trained on since the run began
  double tokens_per_s = 0;           // over the steps since the last record
  double step_ms = 0;                // mean over the steps since the last record
  double fill = 1;                   // labels that count, divided by the positions of the step's rows
  double data_wait_ms = 0;           // part of step_ms in which rank 0 waited for its batch
  std::optional<double> mfu;         // model FLOPs per second divided by the peak of the machine
  std::optional<double> eta_s;
  double epoch = 0;
  std::shared_ptr<const Json> datasets = {};  // by name: samples and tokens trained on
  // One value for each layer with experts.
  std::optional<std::vector<double>> expert_entropy = {};  // of the experts' shares of choices; 1: all are equal
  std::optional<std::vector<double>> expert_share = {};    // the largest share
  std::optional<std::int64_t> expert_dropped = {};         // choices that were not computed
};

/// Statistics of the elements of all tensors together and of each tensor.
struct StatisticsRecord {
  static constexpr std::string_view kind = "statistics";
  std::int64_t step = 0;
  std::string of;  // "weights", "gradients"
  std::int64_t elements = 0;
  double norm = 0;  // this and the next four: of the finite elements
  double mean = 0;
  double std = 0;
  double min = 0;
  double max = 0;
  std::int64_t zeros = 0;
  std::int64_t nonfinite = 0;
  std::shared_ptr<const Json> tensors = {};  // by name: the same numbers
};

struct EvalRecord {
  static constexpr std::string_view kind = "eval";
  std::int64_t step = 0;
  std::optional<std::string> name = {};  // of the evaluated dataset, if there may be several
  std::string split;
  double loss = 0;  // nats per token
  double perplexity = 0;
  double accuracy = 0;
  std::int64_t tokens = 0;
  double eval_ms = 0;
  std::optional<bool> best;  // the best of this run so far; not set: not compared
};

struct SampleRecord {
  static constexpr std::string_view kind = "sample";
  std::int64_t step = 0;
  std::string prompt;
  std::int64_t prompt_tokens = 0;
  std::string text;  // the continuation
  std::int64_t tokens = 0;
  std::vector<std::int64_t> ids = {};          // of the continuation
  std::vector<double> log_probabilities = {};  // of each of these, in nats
  std::string end;                             // why it ended
  double tokens_per_s = 0;
};

struct CheckpointRecord {
  static constexpr std::string_view kind = "checkpoint";
  std::int64_t step = 0;
  std::string path;
  std::int64_t bytes = 0;
  std::int64_t compared_bytes = 0;
  std::string state_digest;  // as in its manifest
  double save_ms = 0;
  std::optional<double> background_ms = {};
  std::vector<std::string> removed;  // folders that retention removed
};

/// Time of one kind of work in a profiled step, over ranks. Written once for each kind.
struct ProfileRecord {
  static constexpr std::string_view kind = "profile";
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::string work;    // "backward", "reduction": program/work_times.hpp; or of the loop: "data", "save"
  double mean_ms = 0;  // over ranks
  double min_ms = 0;
  double max_ms = 0;
  double imbalance = 0;  // max / mean
};

/// An event that a reader of the records should know: a skipped step, a loss spike. Fields that do not apply are not
/// set.
struct EventRecord {
  static constexpr std::string_view kind = "event";
  std::optional<std::int64_t> step = {};
  std::string name = {};  // "nonfinite_step", "save_failed", …: lockstep-records(5) lists them
  std::string message = {};
  std::optional<double> loss = {};
  std::optional<double> grad_norm = {};
  std::optional<std::int64_t> in_a_row = {};  // consecutive skipped steps up to this one
  std::optional<double> limit = {};           // which the loss exceeds
  std::optional<double> loss_scale = {};      // from the next step on
};

/// The last record of a process group.
struct SummaryRecord {
  static constexpr std::string_view kind = "summary";
  std::string reason;  // "finished", "stopped", "failed"
  std::int64_t exit_code = 0;
  std::int64_t step = 0;  // steps done
  std::int64_t tokens = 0;
  std::int64_t positions = 0;                 // of the rows trained on since the run began
  std::shared_ptr<const Json> datasets = {};  // as in the step record
  std::int64_t skipped = 0;                   // steps of the run without an update: loss or gradient was not finite
  double wall_s = 0;                          // of this process group
  double epoch = 0;
  std::int64_t global_batch = 0;     // samples
  std::int64_t samples = 0;          // trained on by this process group
  std::optional<double> flops = {};  // of the model, for the tokens
  // Over the steps of this process group that count for its speed; not set: no step counts.
  std::optional<std::int64_t> speed_from_step = {};  // the first of them
  std::optional<double> steps_per_s = {};
  std::optional<double> samples_per_s = {};
  std::optional<double> tokens_per_s = {};
  std::optional<double> flops_per_s = {};
  std::optional<double> mfu = {};
  std::vector<std::int64_t> peak_memory_bytes = {};         // by rank
  std::vector<std::int64_t> peak_device_memory_bytes = {};  // of tensors, by rank; empty: the CPU computes
  std::optional<double> mean_loss = {};   // over the steps of this process group that were not skipped
  std::optional<double> loss;             // of the last step that was not skipped
  std::optional<double> eval_loss;        // of the last evaluation
  std::optional<std::string> checkpoint;  // folder of the last one saved
  std::int64_t records_lost = 0;          // records that sinks did not write, summed over sinks
};

void describe(RecordFields& visit, const RunRecord& record);
void describe(RecordFields& visit, const StepRecord& record);
void describe(RecordFields& visit, const StatisticsRecord& record);
void describe(RecordFields& visit, const EvalRecord& record);
void describe(RecordFields& visit, const SampleRecord& record);
void describe(RecordFields& visit, const CheckpointRecord& record);
void describe(RecordFields& visit, const ProfileRecord& record);
void describe(RecordFields& visit, const EventRecord& record);
void describe(RecordFields& visit, const SummaryRecord& record);

/// A record as an object: "schema", "kind", "time" (UTC), then its fields in order. Local.
Json to_json(const RunRecord& record);
Json to_json(const StepRecord& record);
Json to_json(const StatisticsRecord& record);
Json to_json(const EvalRecord& record);
Json to_json(const SampleRecord& record);
Json to_json(const CheckpointRecord& record);
Json to_json(const ProfileRecord& record);
Json to_json(const EventRecord& record);
Json to_json(const SummaryRecord& record);

/// The JSON Schema (draft 2020-12) that every record satisfies. Local.
Json record_json_schema();

}  // namespace lockstep
