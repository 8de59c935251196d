#include "train/run_model.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "comm/together.hpp"
#include "exchange/model_folder.hpp"
#include "remote/hub_cache.hpp"
#include "remote/hub_files.hpp"
#include "store/manifest.hpp"

#include "store/run_directory.hpp"

#include <fmt/format.h>

namespace lockstep {

namespace {

/// A run keeps checkpoints. finalize-quantize exports a model from one.
void refuse_run_folder(const Path& folder) {
  if (is_there(folder / "config.json") || kind_of(checkpoints_folder(folder)) != FileKind::folder) return;
  throw Error(
      ExitCode::input, fmt::format("{} is the folder of a run, not of a model", folder.string()),
      "name one of its exports, RUN/export/step-N (checkpoint.export_at_end, or finalize-quantize), or continue "
      "from its checkpoints with --checkpoint.resume RUN");
}

std::string local_folder(const std::string& word) {
  if (is_there(word)) refuse_run_folder(word);
  if (is_there(word) || word.starts_with("hf:")) return word;
  const auto reference = hub_reference(word);
  if (!reference) return word;
  if (const auto folder = cached_model(word)) return folder->string();
  const Path cache = HubCache(reference->id, HubKind::model).folder().parent_path();
  throw Error(ExitCode::input,
              fmt::format("there is no {}: it is neither a path nor a model in the Hugging Face cache {}", word,
                          cache.string()),
              fmt::format("download it: hf download {}", word));
}

}  // namespace

TrainConfig with_local_model(TrainConfig config, Session& session) {
  for (std::optional<std::string>* const word : {&config.model.config, &config.model.path})
    if (*word) *word = run_on_rank0(session.world(), "find the model", [&] { return local_folder(**word); });
  return config;
}

std::string generation_config_of(const TrainConfig& config, const std::optional<Path>& begun, Communicator& world) {
  return run_on_rank0(world, "read the model's generation_config.json", [&] {
    if (begun)
      for (const auto& [name, text] : parse_manifest(read_file(*begun / manifest_file), begun->string()).documents)
        if (name == generation_config_file) return text;
    return config.model.path ? generation_config_in(*config.model.path).value_or("") : std::string();
  });
}

}  // namespace lockstep
