#include "train/run_preparation.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "comm/together.hpp"
#include "config/data_check.hpp"
#include "corpus/object_store.hpp"
#include "data/dataset.hpp"
#include "data/prepared_lookup.hpp"
#include "train/run_datasets.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace lockstep {

namespace {

constexpr const char* usual_cache = ".lockstep-cache";  // hidden: folders of text are read without it

/// What is there decides; open_dataset tells of what is not. Throws Error(usage) for a dataset among other words.
bool names_text(const std::vector<std::string>& words) {
  if (words.size() != 1) {
    const auto dataset = std::ranges::find_if(words, [](const std::string& word) { return leads_to_dataset(word); });
    if (dataset == words.end()) return true;
    throw Error(ExitCode::usage, fmt::format("data.path names {} among others, which is no text", *dataset),
                "name several datasets in data.datasets");
  }
  switch (kind_of(words[0])) {
    case FileKind::nothing:
      return words[0].find_first_of("*?[") != std::string::npos || words[0].starts_with("hf:") ||
             names_objects(words[0]);
    case FileKind::file:
    case FileKind::folder: return !leads_to_dataset(words[0]);
    case FileKind::link:
    case FileKind::other: break;
  }
  return false;
}

/// Refuses a dataset of another tokenizer than data.tokenizer, where both are there.
void check_named_tokenizer(const PrepareDataOptions& options, const std::string& path) {
  if (!options.tokenizer || !is_there(Path(path) / "DATASET.json")) return;
  const TokenizerChoice& named = *options.tokenizer;
  const DatasetManifest manifest = open_dataset(path).manifest;
  const bool of_files = named.kind == TokenizerChoice::Kind::files;
  if (of_files && !is_there(named.path)) return;
  const bool is_same =
      of_files ? tokenizer_of(options)->hash() == manifest.tokenizer_hash : named.text() == manifest.tokenizer;
  if (is_same) return;
  throw Error(
      ExitCode::usage,
      fmt::format("data.tokenizer is {}, but the dataset {} was made with another tokenizer: {} of {} token ids, {}",
                  named.text(), path, manifest.tokenizer, manifest.vocabulary, to_hex(manifest.tokenizer_hash)),
      "leave data.tokenizer out, or name the text: it is prepared with that tokenizer then");
}

/// Where what `words` name was prepared; nothing where they name no text.
std::optional<std::string> prepared_folder(const std::vector<std::string>& words, const TrainConfig& config,
                                           WithoutPrepared without, Session& session, Output& output) {
  const std::string told = rank0_tells(session.world(), "look at the data", [&] {
    const bool is_text = names_text(words);
    if (!is_text) check_named_tokenizer(config.data.preparation, words[0]);
    return std::string(is_text ? "text" : "dataset");
  });
  if (told != "text") return std::nullopt;
  PrepareConfig text;
  text.inputs = words;
  text.threads = config.train.threads;
  text.data = config.data.preparation;
  const bool skips = config.data.prepare == PrepareData::skip && without == WithoutPrepared::prepare;
  const auto folder =
      prepare_in_cache(text, cache_of(config), skips ? WithoutPrepared::refuse : without, session, output);
  return folder ? folder->string() : std::string();
}

}  // namespace

TrainConfig with_prepared_data(const TrainConfig& config, WithoutPrepared without, Session& session, Output& output) {
  TrainConfig prepared = config;
  const auto prepare = [&](const std::vector<std::string>& words) {
    return prepared_folder(words, config, without, session, output);
  };
  if (config.data.datasets.empty() && !training_datasets(config)[0].is_dummy())
    prepared.data.prepared = prepare(config.data.path);
  for (DatasetChoice& dataset : prepared.data.datasets)
    if (!dataset.is_dummy()) dataset.prepared = prepare({dataset.path});
  if (!evaluates(config)) return prepared;
  for (DatasetChoice& dataset : prepared.eval.datasets)
    if (!dataset.is_dummy()) dataset.prepared = prepare({dataset.path});
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
