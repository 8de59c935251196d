#include "train/run_files.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/random.hpp"
#include "comm/launch.hpp"
#include "comm/together.hpp"
#include "corpus/tokenizers.hpp"
#include "report/run_curve.hpp"

#include <unistd.h>

#include <utility>

namespace lockstep {

namespace {

constexpr const char* id_file = "run_id";

/// What tells the local tier of this run from those of other runs, also of one that had the name of its folder before,
/// or of which it is a copy.
std::string name_of_tier(const Path& run) {
  const Path file = run / id_file;
  if (!is_there(file)) publish_file(file, make_uuid() + "\n");
  const Path path = absolute_path(run);
  const std::string hash = to_hex(hash128(read_file(file) + path.string()));
  return fmt::format("{}-{}", path.filename().string(), hash.substr(0, 16));
}

}  // namespace

std::optional<Path> known_local_tier(const TrainConfig& config) {
  if (!config.checkpoint.local_dir || !is_there(Path(config.train.run_dir) / id_file)) return std::nullopt;
  return Path(*config.checkpoint.local_dir) / name_of_tier(config.train.run_dir);
}

RunFiles::RunFiles(Communicator& world, const TrainConfig& config, RunStorage storage, const RunStorage& nodes,
                   Log& log)
    : owns_records_(world.rank() == 0),
      log_(log),
      run_(world, RunFolder::Use::run, config.train.run_dir, std::move(storage), log),
      records_(log) {
  if (!config.checkpoint.local_dir) return;
  const std::string name =
      rank0_tells(world, "name the local tier of the run", [&] { return name_of_tier(run_.path()); });
  local_.emplace(world, RunFolder::Use::local_tier, Path(*config.checkpoint.local_dir) / name, nodes, log);
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
    // Open MPI gives ranks a terminal of its own as stdout, whatever the user's is: under a launcher records always go
    // there.
    if (launch_of_process().by == Launch::By::launcher || ::isatty(STDOUT_FILENO) == 0)
      records_.add("standard output", line_sink(STDOUT_FILENO, "standard output"));
    if (config.log.tensorboard) records_.add("TensorBoard", tensorboard_sink(folder() / "tensorboard"));
  });
}

void RunFiles::close_records() {
  records_.close();
  try {
    run_.require_in_place();
    publish_file(folder() / "loss.svg", curve_svg(loss_labels(), loss_series(folder())));
  } catch (const Error& error) {  // all that is in it is in the records
    log_.warning("loss.svg is not drawn: {}", error.what());
  }
}

void RunFiles::close() {
  if (owns_records_) close_records();
  run_.close();
  if (local_) local_->close();
}

}  // namespace lockstep
