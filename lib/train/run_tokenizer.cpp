#include "train/run_tokenizer.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "comm/together.hpp"
#include "plugin/plugins.hpp"
#include "remote/hub_cache.hpp"
#include "store/run_directory.hpp"
#include "tokenizer/same_encoding.hpp"
#include "tokenizer/tokenizers.hpp"
#include "train/run_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep {

namespace {

using Kind = TokenizerChoice::Kind;

TokenizerChoice choice_of(const Path& folder) { return {Kind::files, folder.string()}; }

/// The folder of model.path, or of model.config, if it has a tokenizer.
std::optional<Path> folder_of_network(const ModelOptions& model) {
  if (!model.path && !model.config) return std::nullopt;
  Path folder = model.path ? *model.path : *model.config;
  if (!is_folder(folder)) folder = absolute_path(folder).parent_path();
  return holds_tokenizer(folder) ? std::optional(folder) : std::nullopt;
}

bool has_checkpoints(const TrainConfig& config) {
  if (!list_checkpoints(config.train.run_dir).empty()) return true;
  const auto local = known_local_tier(config);
  return local && !list_checkpoints(*local).empty();
}

/// What the run has kept: bytes by its word, others by files, those of the network where they are the same.
TokenizerChoice kept_by_run(const TrainConfig& config, const Path& folder) {
  const auto kept = load_tokenizer(folder);
  if (kept->name() == "bytes") return {Kind::bytes, {}};
  if (const auto network = folder_of_network(config.model)) {
    const PrepareDataOptions& options = config.data.preparation;
    try {
      const auto other =
          make_tokenizer(network->string(), options.end_of_text.value_or(""), options.special_tokens_in_text());
      if (other->hash() == kept->hash()) return choice_of(*network);
    } catch (const Error&) {  // whatever it is, the run keeps what it has
    }
  }
  return choice_of(folder);
}

std::optional<TokenizerChoice> found_tokenizer(const TrainConfig& config) {
  const Resume& resume = config.checkpoint.resume;
  const Path own = Path(config.train.run_dir) / "tokenizer";
  if (!resume.from_scratch() && has_checkpoints(config) && holds_tokenizer(own)) return kept_by_run(config, own);
  if (resume.from == Resume::From::path) {
    const Path start = absolute_path(resume.path), above = start.parent_path().parent_path();
    const Path run = checkpoints_folder(above) == start.parent_path() ? above : start;
    if (holds_tokenizer(run / "tokenizer")) return choice_of(run / "tokenizer");
  }
  const auto network = folder_of_network(config.model);
  return network ? std::optional(choice_of(*network)) : std::nullopt;
}

std::string told(const std::string& name, std::int64_t vocabulary) {
  return fmt::format("{}, {} token ids", name, vocabulary);
}

/// How a dataset's tokenizer differs from that of the model, for people; empty: it encodes alike.
std::string difference_of(const TokenizerChoice& model, const RunDataset& dataset) {
  const DatasetManifest& manifest = dataset.dataset->manifest;
  const std::string own = told(manifest.tokenizer, manifest.vocabulary);
  try {
    const auto tokenizer = make_tokenizer(model.text(), "", manifest.special_tokens);
    if (tokenizer->hash() == manifest.tokenizer_hash || same_encoding(*tokenizer, *dataset.dataset->tokenizer()))
      return {};
    return fmt::format("{} was made with the tokenizer {}, but the model's, {}, is {}", dataset.choice.path, own,
                       model.text(), told(tokenizer->name(), tokenizer->vocabulary()));
  } catch (const Error& error) {
    return fmt::format("{} was made with the tokenizer {}, which cannot be compared with the model's, {}: {}",
                       dataset.choice.path, own, model.text(), error.what());
  }
}

}  // namespace

std::optional<TokenizerChoice> model_tokenizer(const TrainConfig& config, Session& session) {
  const std::string word = run_on_rank0(session.world(), "find the model's tokenizer", [&] {
    const auto found = found_tokenizer(config);
    return found ? found->text() : std::string();
  });
  return word.empty() ? std::nullopt : std::optional(TokenizerChoice::parse(word));
}

bool is_found(const std::optional<TokenizerChoice>& named) {
  if (!named) return false;
  const auto& tokenizers = Plugins::opened().tokenizers();
  const auto is_named = [&](const auto& entry) { return entry.table->name == named->text(); };
  return named->kind != Kind::files || is_there(named->path) || cached_model(named->path) ||
         std::ranges::any_of(tokenizers, is_named);
}

bool encodes_as(const TokenizerChoice& named, const Dataset& dataset) {
  const auto tokenizer = make_tokenizer(named.text(), "", dataset.manifest.special_tokens);
  return tokenizer->hash() == dataset.manifest.tokenizer_hash || same_encoding(*tokenizer, *dataset.tokenizer());
}

std::string compare_with_model(const TrainConfig& config, const std::vector<const RunDataset*>& datasets) {
  if (!config.model.tokenizer) return {};
  std::set<std::string> seen;
  for (const RunDataset* const dataset : datasets) {
    if (dataset->choice.prepared && !config.data.preparation.tokenizer) continue;  // with this very tokenizer
    if (!dataset->dataset || !seen.insert(to_hex(dataset->dataset->manifest.tokenizer_hash)).second) continue;
    const std::string difference = difference_of(*config.model.tokenizer, *dataset);
    if (difference.empty()) continue;
    if (is_found(config.data.preparation.tokenizer))
      return fmt::format("{}; allowed by data.tokenizer {}", difference, config.data.preparation.tokenizer->text());
    const std::string& made_by = dataset->dataset->manifest.tokenizer;
    const std::string word =
        made_by == "bytes" || made_by == "chars" ? made_by : (dataset->dataset->folder / "tokenizer").string();
    throw Error(ExitCode::usage, difference,
                fmt::format("name the text, or prepare it with --data.tokenizer {}; to train on these tokens anyway: "
                            "--data.tokenizer {}",
                            config.model.tokenizer->text(), word));
  }
  return {};
}

std::string tokenizer_text(const TrainConfig& config, const Dataset* dataset) {
  if (dataset != nullptr) return told(dataset->manifest.tokenizer, dataset->manifest.vocabulary);
  PrepareDataOptions options = config.data.preparation;
  if (!options.tokenizer) options.tokenizer = config.model.tokenizer;
  const TokenizerChoice choice = options.tokenizer_or_bytes();
  if (choice.kind == Kind::chars) return "chars";
  if (!is_found(choice)) return choice.text();
  const auto tokenizer =
      make_tokenizer(choice.text(), options.end_of_text.value_or(""), options.special_tokens_in_text());
  return told(tokenizer->name(), tokenizer->vocabulary());
}

}  // namespace lockstep
