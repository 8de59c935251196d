// What a run reports to programs: records, one JSON object each, with units in the names. The structs here are the only
// declaration of their fields; text of a record, its JSON Schema and TensorBoard's scalars come from it. Where records
// go: report/recorder.hpp.
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

// Numbers that are not finite, and absent ones, are null. Steps count from 1: the step after which the record holds.

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
  std::string arithmetic;  // what rank 0 computes with
  std::int64_t parameters = 0;
  std::int64_t steps = 0;         // of the whole run
  std::int64_t global_batch = 0;  // samples
  std::int64_t tokens_per_step = 0;
  std::optional<double> flops_per_step;
  std::shared_ptr<const Json> packing = {};  // of documents, by use: rows, fill, what is left out; null: there is none
  std::int64_t start_step = 0;               // steps done before this start
  std::optional<std::string> resumed_from;   // folder of the checkpoint
};

struct StepRecord {
  static constexpr std::string_view kind = "step";
  std::int64_t step = 0;
  double loss = 0;                      // nats a token, over the global batch
  std::optional<double> aux_loss = {};  // of experts, without its coefficient
  double lr = 0;
  double grad_norm = 0;              // before clipping
  std::optional<double> loss_scale;  // of fp16
  std::int64_t tokens = 0;           // valid tokens trained on since the run began
  double tokens_per_s = 0;           // over the steps since the last record
  double step_ms = 0;                // mean over the steps since the last record
  double fill = 1;                   // labels that count, of the positions of the step's rows
  double data_wait_ms = 0;           // of it rank 0 waited for its batch
  std::optional<double> mfu;         // model FLOPs per second by the peak of the machine
  std::optional<double> eta_s;
  double epoch = 0;
  std::shared_ptr<const Json> datasets = {};  // by name: samples and tokens of what was trained on
  // Of experts, by layer that has such.
  std::optional<std::vector<double>> expert_entropy = {};  // of their shares of choices; 1: all are equal
  std::optional<std::vector<double>> expert_share = {};    // the largest
  std::optional<std::int64_t> expert_dropped = {};         // choices that were not computed
};

/// How the numbers of all tensors spread, and those of each.
struct StatisticsRecord {
  static constexpr std::string_view kind = "statistics";
  std::int64_t step = 0;
  std::string of;  // "weights", "gradients"
  std::int64_t elements = 0;
  double norm = 0;  // with what follows of the finite elements
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
  std::optional<std::string> name = {};  // of the set, where there may be several
  std::string split;
  double loss = 0;  // nats a token
  double perplexity = 0;
  double accuracy = 0;
  std::int64_t tokens = 0;
  double eval_ms = 0;
  std::optional<bool> best;  // of this run so far; absent: compared with none
};

struct SampleRecord {
  static constexpr std::string_view kind = "sample";
  std::int64_t step = 0;
  std::string prompt;
  std::string text;  // the continuation
  std::int64_t tokens = 0;
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

/// One kind of work in the profiled steps: its time a step on each rank. Written once for each kind.
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

/// Something that a reader of the records should know: a skipped step, a spike of the loss. Fields that say nothing of
/// it are absent.
struct EventRecord {
  static constexpr std::string_view kind = "event";
  std::optional<std::int64_t> step = {};
  std::string name = {};  // "nonfinite_step", "save_failed", …: lockstep-records(5) lists them
  std::string message = {};
  std::optional<double> loss = {};
  std::optional<double> grad_norm = {};
  std::optional<std::int64_t> in_a_row = {};  // such steps up to this one
  std::optional<double> limit = {};           // that the loss is beyond
  std::optional<double> loss_scale = {};      // from the next step on
};

/// The last record of a process group.
struct SummaryRecord {
  static constexpr std::string_view kind = "summary";
  std::string reason;  // "finished", "stopped", "failed"
  std::int64_t exit_code = 0;
  std::int64_t step = 0;  // steps done
  std::int64_t tokens = 0;
  std::shared_ptr<const Json> datasets = {};  // as in the step record
  std::int64_t skipped = 0;                   // steps of the run that changed nothing: loss or gradient was not finite
  double wall_s = 0;                          // of this process group
  double epoch = 0;
  std::int64_t global_batch = 0;     // samples
  std::int64_t samples = 0;          // trained on by this process group
  std::optional<double> flops = {};  // of the model, for the tokens
  // Of the steps of this process group that count for its speed; absent: there are none.
  std::optional<std::int64_t> speed_from_step = {};  // the first of them
  std::optional<double> steps_per_s = {};
  std::optional<double> samples_per_s = {};
  std::optional<double> tokens_per_s = {};
  std::optional<double> flops_per_s = {};
  std::optional<double> mfu = {};
  std::vector<std::int64_t> peak_memory_bytes = {};  // by rank
  std::optional<double> mean_loss = {};              // of the steps of this process group that were not skipped
  std::optional<double> loss;                        // of the last step that was not skipped
  std::optional<double> eval_loss;                   // of the last evaluation
  std::optional<std::string> checkpoint;             // folder of the last one saved
  std::int64_t records_lost = 0;                     // that sinks did not take, added up over sinks
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

/// The JSON Schema (draft 2020-12) that each record of each kind meets. Local.
Json record_json_schema();

}  // namespace lockstep
