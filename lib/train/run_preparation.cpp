#include "train/run_preparation.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "comm/together.hpp"
#include "config/data_check.hpp"
#include "data/dataset.hpp"
#include "exchange/model_folder.hpp"
#include "prepare/hub_inputs.hpp"
#include "readers/input_files.hpp"
#include "readers/object_store.hpp"
#include "train/run_datasets.hpp"
#include "train/run_tokenizer.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* usual_cache = ".lockstep-cache";  // hidden: folders of text are read without it

/// What is there decides; open_dataset tells of what is not. Throws Error(usage) for a dataset among other words.
bool names_text(const std::vector<std::string>& words) {
  if (words.size() != 1) {
    const auto dataset = std::ranges::find_if(words, [](const std::string& word) { return leads_to_dataset(word); });
    if (dataset == words.end()) return true;
    throw Error(ExitCode::usage, fmt::format("data.path lists {}, which is not text, among other files", *dataset),
                "list several datasets in data.datasets");
  }
  switch (kind_of(words[0])) {
    case FileKind::nothing:
      return words[0].find_first_of("*?[") != std::string::npos || names_objects(words[0]) ||
             names_hub_dataset(words[0]) || format_by_name(words[0]);
    case FileKind::file:
    case FileKind::folder: return !leads_to_dataset(words[0]);
    case FileKind::link:
    case FileKind::other: break;
  }
  return false;
}

/// Refuses a dataset of another tokenizer than data.tokenizer, where both are there.
void check_named_tokenizer(const PrepareDataOptions& options, const std::string& path) {
  if (!is_found(options.tokenizer) || !is_there(Path(path) / "DATASET.json")) return;
  const TokenizerChoice& named = *options.tokenizer;
  const Dataset dataset = open_dataset(path);
  const DatasetManifest& manifest = dataset.manifest;
  const bool is_chars = named.kind == TokenizerChoice::Kind::chars;
  if (is_chars ? manifest.tokenizer == named.text() : encodes_as(named, dataset)) return;
  throw Error(
      ExitCode::usage,
      fmt::format("data.tokenizer is {}, but the dataset {} was made with another tokenizer: {} of {} token ids, {}",
                  named.text(), path, manifest.tokenizer, manifest.vocabulary, to_hex(manifest.tokenizer_hash)),
      "leave data.tokenizer out, or name the text to prepare it with that tokenizer");
}

/// Refuses text whose tokenizer nothing says, but that of weights is wanted.
void require_tokenizer(const TrainConfig& config) {
  if (config.data.preparation.tokenizer || config.model.tokenizer || !config.model.path) return;
  read_hf_config(*config.model.path);  // what is no model lacks more than a tokenizer
  throw Error(ExitCode::usage,
              fmt::format("model.path {} has no tokenizer to prepare text with: neither tokenizer.json, nor "
                          "tokenizer.model, nor vocab.json with merges.txt",
                          *config.model.path),
              "put the model's tokenizer into its folder, or choose one with --data.tokenizer bytes|chars|TOKENIZER");
}

bool is_absent(const std::string& word) {
  return kind_of(word) == FileKind::nothing && word.find_first_of("*?[") == std::string::npos &&
         !word.starts_with("hf:") && !names_objects(word);
}

/// Whether `words` name text that can be prepared, or a dataset that can be used. A plan does without absent files.
/// Collective.
bool is_text(const std::vector<std::string>& words, const TrainConfig& config, WithoutPrepared without,
             Session& session) {
  const std::string told = run_on_rank0(session.world(), "check the data", [&] {
    if (without == WithoutPrepared::tell && std::ranges::any_of(words, is_absent)) return std::string("absent");
    const bool found = names_text(words);
    if (found)
      require_tokenizer(config);
    else
      check_named_tokenizer(config.data.preparation, words[0]);
    return std::string(found ? "text" : "dataset");
  });
  return told == "text";
}

/// Part of a hub dataset: that of data, unless the entry of the dataset names one.
HubDatasetOptions hub_part(const TrainConfig& config, const DatasetChoice& dataset) {
  HubDatasetOptions part = config.data.preparation.hub;
  if (dataset.hub_name) part.configuration = dataset.hub_name;
  if (dataset.hub_split) part.split = dataset.hub_split;
  return part;
}

/// Where the text that `words` name was prepared; empty: nowhere yet.
std::string prepared_folder(const std::vector<std::string>& words, const HubDatasetOptions& part,
                            const TrainConfig& config, WithoutPrepared without, Session& session, Output& output) {
  PrepareConfig text;
  text.inputs = words;
  text.threads = config.train.threads;
  text.data = config.data.preparation;
  text.data.hub = part;
  if (!text.data.tokenizer) text.data.tokenizer = config.model.tokenizer;
  const bool skips = config.data.prepare == PrepareData::skip && without == WithoutPrepared::prepare;
  const auto folder =
      prepare_in_cache(text, cache_of(config), skips ? WithoutPrepared::refuse : without, session, output);
  return folder ? folder->string() : std::string();
}

}  // namespace

TrainConfig with_prepared_data(const TrainConfig& config, WithoutPrepared without, Session& session, Output& output) {
  TrainConfig prepared = config;
  prepared.model.tokenizer = model_tokenizer(config, session);
  bool says_bytes = session.world().rank() == 0 && !config.data.preparation.tokenizer && !prepared.model.tokenizer;
  const auto prepare = [&](const std::vector<std::string>& words,
                           const DatasetChoice& dataset) -> std::optional<std::string> {
    if (!is_text(words, prepared, without, session)) return std::nullopt;
    if (std::exchange(says_bytes, false))
      output.log().info("{} has no tokenizer: text is prepared with the bytes tokenizer, unless data.tokenizer is set",
                        config.model.config.value_or(""));
    return prepared_folder(words, hub_part(config, dataset), prepared, without, session, output);
  };
  if (config.data.datasets.empty() && names_training_data(config.data) && !training_datasets(config)[0].is_dummy())
    prepared.data.prepared = prepare(config.data.path, {});
  for (DatasetChoice& dataset : prepared.data.datasets)
    if (!dataset.is_dummy()) dataset.prepared = prepare({dataset.path}, dataset);
  if (!evaluates(config)) return prepared;
  for (DatasetChoice& dataset : prepared.eval.datasets)
    if (!dataset.is_dummy()) dataset.prepared = prepare({dataset.path}, dataset);
  return prepared;
}

std::vector<std::string> unprepared_text(const TrainConfig& prepared) {
  std::vector<std::string> names;
  const auto add = [&](const DatasetChoice& dataset) {
    if (dataset.prepared == "" && std::ranges::find(names, dataset.path) == names.end()) names.push_back(dataset.path);
  };
  for (const TrainingDataset& dataset : training_datasets(prepared)) add(dataset);
  for (const EvaluationDataset& dataset : prepared.eval.datasets) add(dataset);
  return names;
}

Path cache_of(const TrainConfig& config) {
  if (config.data.cache) return *config.data.cache;
  const Path run = Path(config.train.run_dir).lexically_normal();
  return (run.has_filename() ? run : run.parent_path()).parent_path() / usual_cache;
}

}  // namespace lockstep
