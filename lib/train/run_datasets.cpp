#include "train/run_datasets.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "tokenizer/same_encoding.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* default_metrics = "validation";

/// What the path ends with, of letters, digits and . _ -
std::string name_from(const std::string& path) {
  Path clean(path);
  if (!clean.has_filename()) clean = clean.parent_path();
  std::string name = clean.filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_' && c != '-'; }, '_');
  return name.empty() || name == "." || name == ".." ? "data" : name;
}

/// Names for those that have none, none of them twice.
void name_all(std::vector<RunDataset>& datasets) {
  std::set<std::string> taken;
  for (const RunDataset& dataset : datasets)
    if (dataset.choice.name) taken.insert(*dataset.choice.name);
  for (RunDataset& dataset : datasets) {
    const std::string base = dataset.choice.name.value_or(name_from(dataset.choice.path));
    dataset.name = base;
    if (dataset.choice.name) continue;
    for (int number = 2; !taken.insert(dataset.name).second; ++number)
      dataset.name = fmt::format("{}-{}", base, number);
  }
}

/// Opens what a choice names.
RunDataset opened(const DatasetChoice& choice, const std::string& option, const std::string& usual_split,
                  const std::string& usual_option) {
  RunDataset dataset;
  dataset.choice = choice;
  if (choice.is_dummy()) return dataset;
  dataset.dataset = open_dataset(choice.folder());
  dataset.split = choice.split ? split_named(*choice.split, option + ".split") : split_named(usual_split, usual_option);
  return dataset;
}

bool can_be_evaluated(const RunDataset& dataset) {
  return !dataset.dataset || dataset.dataset->manifest.of(dataset.split).tokens > 1;
}

/// The option that asks for an evaluation, so that there has to be something to evaluate; empty: none does.
std::string_view asks_for_evaluation(const TrainConfig& config) {
  if (config.eval_only) return "--eval-only";
  if (config.eval.every) return "eval.every";
  if (config.eval.at_start) return "eval.at_start";
  if (config.eval.on_save) return "eval.on_save";
  return config.checkpoint.load_best_at_end ? "checkpoint.load_best_at_end" : "";
}

std::vector<RunDataset> validation_splits(const TrainConfig& config) {
  std::vector<RunDataset> datasets;
  std::set<std::string> seen;
  for (const TrainingDataset& trained : training_datasets(config)) {
    if (trained.is_dummy() || !seen.insert(trained.path).second) continue;
    DatasetChoice choice;
    choice.path = trained.path;
    choice.prepared = trained.prepared;
    choice.name = trained.name;
    RunDataset dataset = opened(choice, "", config.data.validation_split, "data.validation_split");
    if (can_be_evaluated(dataset)) datasets.push_back(std::move(dataset));
  }
  if (const std::string_view option = asks_for_evaluation(config); datasets.empty() && !option.empty()) {
    throw Error(ExitCode::usage,
                config.data.datasets.empty()
                    ? fmt::format("{} is set, but {} has no validation split", option, join(config.data.path, " "))
                    : fmt::format("{} is set, but none of data.datasets has a validation split", option),
                fmt::format("prepare the data with data.validation, name other data in eval.datasets, or leave {} out",
                            option));
  }
  return datasets;
}

/// Which tokens they are.
std::string content_of(const RunDataset& dataset) {
  if (!dataset.dataset)
    return fmt::format("dummy {}", dataset.choice.tokens == DummyTokens::constant ? "constant" : "random");
  StreamHash hash;
  hash.add(to_hex(dataset.dataset->manifest.tokenizer_hash));
  add_content(hash, dataset.dataset->manifest.of(dataset.split));
  return to_hex(hash.digest());
}

/// All that says which samples come of each dataset, and how often.
Json facts_of(const std::vector<RunDataset>& training) {
  const std::optional<Proportions> proportions = proportions_of(training);
  Json list = Json::array();
  for (std::size_t i = 0; i < training.size(); ++i) {
    const DatasetChoice& choice = training[i].choice;
    Json facts({{"content", content_of(training[i])},
                {"samples", choice.samples ? std::to_string(*choice.samples) : "all"},
                {"shard", choice.shard ? choice.shard->text() : "all"},
                {"length", choice.length ? std::to_string(*choice.length) : "all"},
                {"weight", proportions ? fmt::format("{}/{}", proportions->parts[i], proportions->whole) : "none"}});
    if (choice.fraction) facts["fraction"] = fmt::to_string(*choice.fraction);
    list.push_back(std::move(facts));
  }
  return list;
}

bool is_plain(const std::vector<RunDataset>& training) {
  const RunDataset& first = training.front();
  return training.size() == 1 && first.dataset && !first.weight && !first.choice.fraction && !first.choice.samples &&
         !first.choice.shard;
}

}  // namespace

DataSplit split_named(const std::string& name, std::string_view option) {
  for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
    if (name_of(split) == name) return split;
  }
  throw Error(ExitCode::usage,
              fmt::format("{} is '{}', but a dataset has the splits train and validation", option, name));
}

std::vector<RunDataset> open_datasets(const TrainConfig& config, SampleUse use) {
  std::vector<RunDataset> datasets;
  if (use == SampleUse::training) {
    for (const TrainingDataset& trained : training_datasets(config)) {
      const std::string option = fmt::format("data.datasets.{}", datasets.size());
      datasets.push_back(opened(trained, option, config.data.train_split, "data.train_split"));
      datasets.back().weight = trained.weight;
    }
  } else if (evaluates(config)) {
    for (const EvaluationDataset& evaluated : config.eval.datasets) {
      const std::string option = fmt::format("eval.datasets.{}", datasets.size());
      datasets.push_back(opened(evaluated, option, config.data.validation_split, "data.validation_split"));
      if (!can_be_evaluated(datasets.back()))
        throw Error(
            ExitCode::input,
            fmt::format("{} has no {} split to evaluate ({})", evaluated.path, name_of(datasets.back().split), option),
            fmt::format("set {}.split to another split, or prepare the data with data.validation", option));
      datasets.back().batches = evaluated.batches;
    }
    if (config.eval.datasets.empty()) datasets = validation_splits(config);
    for (RunDataset& dataset : datasets)
      if (!dataset.batches) dataset.batches = config.eval.batches;
  }
  name_all(datasets);
  return datasets;
}

std::vector<MissingData> missing_data(const TrainConfig& config) {
  if (!names_training_data(config.data)) return {{MissingData::Reason::unnamed, {}}};
  std::vector<MissingData> missing;
  const auto look_at = [&](const DatasetChoice& dataset) {
    std::error_code unknown;  // then opening it tells more
    const bool unprepared = dataset.prepared == "";
    if (dataset.is_dummy() || (!unprepared && (std::filesystem::exists(dataset.folder(), unknown) || unknown))) return;
    if (std::ranges::find(missing, dataset.path, &MissingData::path) != missing.end()) return;
    missing.push_back({unprepared ? MissingData::Reason::unprepared : MissingData::Reason::absent, dataset.path});
  };
  std::ranges::for_each(training_datasets(config), look_at);
  if (evaluates(config)) std::ranges::for_each(config.eval.datasets, look_at);
  return missing;
}

std::string to_text(const MissingData& missing) {
  switch (missing.reason) {
    case MissingData::Reason::unnamed: return "data.path is not set";
    case MissingData::Reason::absent: return missing.path + " does not exist on this machine";
    case MissingData::Reason::unprepared: return missing.path + " is not prepared yet";
  }
  return {};
}

void check_tokenizers(const std::vector<const RunDataset*>& datasets, std::int64_t vocabulary) {
  const RunDataset* first = nullptr;
  for (const RunDataset* dataset : datasets) {
    if (!dataset->dataset) continue;
    const DatasetManifest& manifest = dataset->dataset->manifest;
    if (manifest.vocabulary > vocabulary)
      fail(ExitCode::usage, "the dataset {} has {} token ids ({}), but the model's vocab_size is {}",
           dataset->choice.path, manifest.vocabulary, manifest.tokenizer, vocabulary);
    if (first == nullptr) first = dataset;
    const DatasetManifest& others = first->dataset->manifest;
    if (manifest.tokenizer_hash == others.tokenizer_hash && manifest.vocabulary == others.vocabulary) continue;
    if (manifest.end_of_text == others.end_of_text && manifest.special_tokens == others.special_tokens &&
        same_encoding(*dataset->dataset->tokenizer(), *first->dataset->tokenizer()))
      continue;
    const auto told = [](const DatasetManifest& one) {
      return fmt::format("{} of {} token ids, {}", one.tokenizer, one.vocabulary, to_hex(one.tokenizer_hash));
    };
    throw Error(ExitCode::usage,
                fmt::format("the datasets {} and {} were made with different tokenizers ({}; {}): a token id would "
                            "mean a different text in each",
                            first->choice.path, dataset->choice.path, told(others), told(manifest)),
                "prepare one of them again with --data.tokenizer set to the folder tokenizer of the other");
  }
}

std::optional<Proportions> proportions_of(const std::vector<RunDataset>& training) {
  std::vector<double> weights;
  std::vector<std::string> names;
  for (const RunDataset& dataset : training) {
    if (!dataset.weight) return std::nullopt;
    weights.push_back(*dataset.weight);
    names.push_back(dataset.name);
  }
  return resolve_weights(weights, names);
}

bool names_evaluations(const TrainConfig& config) {
  return !config.eval.datasets.empty() || !config.data.datasets.empty();
}

std::string metrics_name(const TrainConfig& config, const RunDataset& evaluated) {
  return names_evaluations(config) ? evaluated.name : default_metrics;
}

std::string dataset_identity(const std::vector<RunDataset>& training) {
  return is_plain(training) ? content_of(training.front()) : to_text(facts_of(training));
}

std::vector<std::string> dataset_differences(const std::string& saved, const std::vector<RunDataset>& training) {
  const std::string now = dataset_identity(training);
  if (saved == now) return {};
  if (!saved.starts_with("[") && is_plain(training)) {
    RunDataset train = training.front();  // earlier versions said it of the split train, whatever was trained on
    train.split = DataSplit::train;
    if (saved == content_of(train)) return {};
    return {fmt::format("content of data.path: saved {}, now {}", saved, now)};
  }
  const Json facts = facts_of(training);
  const Json earlier = saved.starts_with("[") ? parse_json(saved, "dataset") : Json::array({{{"content", saved}}});
  if (earlier.size() != facts.size())
    return {fmt::format("data.datasets: saved {}, now {}", counted(std::ssize(earlier), "dataset"),
                        counted(std::ssize(facts), "dataset"))};
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    Json of_now = facts.at(i);
    for (const auto& [key, value] : earlier.at(i).items())
      if (!of_now.contains(key)) of_now[key] = "all";
    for (const auto& [key, value] : of_now.items()) {
      const std::string absent = key == "weight" ? "none" : "all";
      const std::string before = earlier.at(i).value(key, absent);
      if (before != value.get<std::string>())
        problems.push_back(fmt::format("{} of dataset {} ({}): saved {}, now {}", key, i + 1, training[i].name, before,
                                       value.get<std::string>()));
    }
  }
  return problems;
}

}  // namespace lockstep
