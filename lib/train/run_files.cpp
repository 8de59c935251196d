#include "train/run_files.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "comm/launch.hpp"
#include "comm/together.hpp"
#include "report/final_metrics.hpp"
#include "report/run_curve.hpp"
#include "report/wandb_sink.hpp"
#include "tokenizer/tokenizers.hpp"

#include <unistd.h>

#include <utility>

namespace lockstep {

namespace {

constexpr const char* id_file = "run_id";

/// What tells this run from others, also from one that had the name of its folder before, or of which it is a copy.
std::string id_of_run(const Path& run) {
  const Path file = run / id_file;
  if (!is_there(file)) publish_file(file, make_uuid() + "\n");
  return to_hex(hash128(read_file(file) + absolute_path(run).string())).substr(0, 16);
}

std::string name_of_tier(const Path& run) {
  return fmt::format("{}-{}", absolute_path(run).filename().string(), id_of_run(run));
}

/// The W&B run of this run, whose starts are parts of one.
std::unique_ptr<WandbSink> wandb_sink(const LogOptions& options, const Path& run) {
  return std::make_unique<WandbSink>(
      WandbSettings{.folder = options.wandb_dir ? Path(*options.wandb_dir) : run / "wandb",
                    .id = id_of_run(run),
                    .project = options.wandb_project.value_or(""),
                    .name = options.wandb_name.value_or(absolute_path(run).filename().string()),
                    .tags = options.wandb_tags,
                    .every = options.wandb_every});
}

}  // namespace

std::optional<Path> known_local_tier(const TrainConfig& config) {
  if (!config.checkpoint.local_dir || !is_there(Path(config.train.run_dir) / id_file)) return std::nullopt;
  const Path tier = Path(*config.checkpoint.local_dir) / name_of_tier(config.train.run_dir);
  return is_folder(tier) ? std::optional(tier) : std::nullopt;
}

RunFiles::RunFiles(Communicator& world, const TrainConfig& config, RunStorage storage, const RunStorage& nodes,
                   Log& log)
    : owns_records_(world.rank() == 0),
      log_(log),
      run_(world, RunFolder::Purpose::run, config.train.run_dir, std::move(storage), log),
      records_(log) {
  if (!config.checkpoint.local_dir) return;
  const std::string name =
      run_on_rank0(world, "name the local tier of the run", [&] { return name_of_tier(run_.path()); });
  try {
    local_.emplace(world, RunFolder::Purpose::local_tier, Path(*config.checkpoint.local_dir) / name, nodes, log);
  } catch (const AgreedError& error) {  // the same on all ranks
    if (error.code() != ExitCode::storage) throw;
    tier_failure_.emplace(error);
  }
}

std::optional<LocalTier> RunFiles::local_tier() const {
  if (!local_) return std::nullopt;
  return LocalTier{local_->path(), local_->storage()};
}

void RunFiles::open(Communicator& world, const TrainConfig& config, const std::string& config_yaml,
                    const Tokenizer* tokenizer) {
  together(world, "open the run directory", [&] {
    if (world.rank() != 0) return;
    publish_file(folder() / "config.yaml", config_yaml);
    if (tokenizer != nullptr) save_tokenizer(*tokenizer, folder() / "tokenizer");
    records_.add("records.jsonl", file_sink(folder() / "records.jsonl"));
    const LogOptions& log = config.log;
    // Open MPI gives ranks a terminal of its own as stdout, whatever the user's is: under a launcher it counts as a
    // pipe.
    const bool is_terminal = launch_of_process().by != Launch::Origin::launcher && ::isatty(STDOUT_FILENO) != 0;
    if (log.records == RecordOutput::standard_output && !is_terminal)
      records_.add("standard output", line_sink(STDOUT_FILENO, "standard output"));
    if (log.tensorboard)
      records_.add("TensorBoard",
                   tensorboard_sink(log.tensorboard_dir ? Path(*log.tensorboard_dir) : folder() / "tensorboard"));
    if (log.wandb == WandbMode::off) return;
    std::unique_ptr<WandbSink> wandb = wandb_sink(log, folder());
    log_.info("wandb sync {} sends this run to W&B", wandb->folder().string());
    records_.add("W&B", std::move(wandb));
  });
}

void RunFiles::report_end(const SummaryRecord& record, const SummaryRecord& run) {
  records_.write(record);
  try {
    publish_file(folder() / "final_metrics.json", to_text(final_metrics(run), 2) + "\n");
  } catch (const Error& error) {  // it is only a report
    log_.warning("final_metrics.json was not written: {}", error.what());
  }
}

void RunFiles::close_records() {
  records_.close();
  try {
    run_.require_in_place();
    publish_file(folder() / "loss.svg", curve_svg(loss_labels(), loss_series(folder())));
  } catch (const Error& error) {  // all that is in it is in the records
    log_.warning("loss.svg was not drawn: {}", error.what());
  }
}

void RunFiles::close() {
  if (owns_records_) close_records();
  run_.close();
  if (local_) local_->close();
}

}  // namespace lockstep
