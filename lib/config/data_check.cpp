#include "config/data_check.hpp"

#include "base/text.hpp"
#include "config/start_up.hpp"
#include "plugin/plugins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

void check_choice(const std::string& option, const DatasetChoice& dataset, const TrainConfig& config,
                  Problems& problems) {
  const auto names = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  if (dataset.name && (dataset.name->empty() || !std::ranges::all_of(*dataset.name, names)))
    problems.add({option}, fmt::format("{}.name {} may have only letters, digits and . _ -", option, *dataset.name));
  if (!dataset.is_dummy()) {
    for (const auto& [key, is_set] :
         {std::pair("length", dataset.length.has_value()), {"tokens", dataset.tokens.is_set()}})
      if (is_set)
        problems.add({option}, fmt::format("{}.{} has no effect: it applies only to the path dummy", option, key));
    return;
  }
  if (!dataset.samples)
    problems.add({option}, fmt::format("{}.samples is needed: the number of samples of dummy", option));
  if (dataset.fraction)
    problems.add({option}, fmt::format("{}.fraction has no effect on dummy: its samples are a number", option));
  for (const auto& [key, is_set] :
       {std::pair("hub_name", dataset.hub_name.has_value()), {"hub_split", dataset.hub_split.has_value()}})
    if (is_set)
      problems.add({option}, fmt::format("{}.{} has no effect on dummy, which is no hub dataset", option, key));
  if (dataset.split) problems.add({option}, fmt::format("{}.split has no effect: dummy has no splits", option));
  if (dataset.length && config.data.sequence_length > 0 && *dataset.length > config.data.sequence_length)
    problems.add({option, "data.sequence_length"}, fmt::format("{}.length {} is more than data.sequence_length {}",
                                                               option, *dataset.length, config.data.sequence_length));
}

/// Names that are given are of one dataset each.
template <class Choice>
void check_names(const std::string& option, const std::vector<Choice>& datasets, Problems& problems) {
  std::set<std::string> names;
  for (const DatasetChoice& dataset : datasets)
    if (dataset.name && !names.insert(*dataset.name).second)
      problems.add({option}, fmt::format("{} has two datasets named {}", option, *dataset.name));
}

void check_datasets(const TrainConfig& config, Problems& problems) {
  const DataOptions& data = config.data;
  const std::string option = "data.datasets";
  const bool has_path = std::ranges::any_of(data.path, [](const std::string& word) { return !word.empty(); });
  if (config.eval_only && !names_training_data(data) && config.eval.datasets.empty())
    problems.add({"eval.datasets", "data.path"},
                 "eval.datasets or data.path is needed: the data to evaluate, or data with a validation split");
  const bool reads_none = config.calibrate || config.check_device || config.dry_run || prints_plan(config);
  if (!reads_weights_alone(config) && !names_training_data(data) && !reads_none)
    problems.add({"data.path", option}, "data.path or data.datasets is needed: the data to train on");
  if (has_path && !data.datasets.empty())
    problems.add({"data.path", option}, "data.path and data.datasets both name the training data: leave one out");
  for (std::size_t i = 0; i < data.datasets.size(); ++i)
    check_choice(fmt::format("{}.{}", option, i), data.datasets[i], config, problems);
  check_names(option, data.datasets, problems);
  const auto weighted =
      std::ranges::count_if(data.datasets, [](const auto& dataset) { return dataset.weight.has_value(); });
  if (weighted > 0 && weighted < std::ssize(data.datasets))
    problems.add({option}, fmt::format("{} of {} datasets of {} have a weight: give all of them one, or none", weighted,
                                       data.datasets.size(), option));
  if (weighted > 0 && data.drop_last)
    problems.add(
        {"data.drop_last", option},
        "data.drop_last has no effect: with weights, each dataset has its own epochs, and steps continue across "
        "them");
  if (data.shuffle_where && data.datasets.empty())
    problems.add({"data.shuffle_where", option}, "data.shuffle_where has no effect without data.datasets");
  if (data.shuffle_where && !data.shuffle)
    problems.add({"data.shuffle_where", "data.shuffle"}, "data.shuffle_where has no effect without data.shuffle");
  const bool all_dummy = !data.datasets.empty() && std::ranges::all_of(data.datasets, &TrainingDataset::is_dummy);
  if (all_dummy && calls(config, CallbackName::sample))
    problems.add({"train.callbacks", option},
                 "the sample callback has no tokenizer to write text with: all of data.datasets are dummy");
  if (all_dummy && data.packing != SamplePacking::windows)
    problems.add({"data.packing", option}, "data.packing has no effect: all of data.datasets are dummy");
}

void check_evaluation(const TrainConfig& config, Problems& problems) {
  const EvalOptions& eval = config.eval;
  const std::string option = "eval.datasets";
  for (std::size_t i = 0; i < eval.datasets.size(); ++i)
    check_choice(fmt::format("{}.{}", option, i), eval.datasets[i], config, problems);
  check_names(option, eval.datasets, problems);
}

void check_samples(const TrainConfig& config, Problems& problems) {
  const SamplePacking training = config.data.packing, evaluation = config.eval.packing.value_or(training);
  if (config.data.repeat_order && !config.data.shuffle)
    problems.add({"data.repeat_order", "data.shuffle"},
                 "data.repeat_order has no effect: without data.shuffle all epochs have one order");
  const auto is_drawn = [](const DatasetChoice& dataset) { return dataset.is_dummy() || dataset.fraction.has_value(); };
  const bool draws =
      std::ranges::any_of(config.data.datasets, is_drawn) || std::ranges::any_of(config.eval.datasets, is_drawn);
  if (config.data.seed && !config.data.shuffle && !draws)
    problems.add({"data.seed", "data.shuffle"},
                 "data.seed has no effect: without data.shuffle samples come in the order of the dataset");
  const auto either = [&](SamplePacking packing) { return training == packing || evaluation == packing; };
  const bool packs = training != SamplePacking::windows || evaluation != SamplePacking::windows;
  if (config.data.isolate_documents && !either(SamplePacking::windows))
    problems.add({"data.isolate_documents", "data.packing"},
                 "data.isolate_documents has no effect: packed documents (data.packing) are always isolated");
  const auto looks_at_groups = [](SamplePacking packing) {
    return packing == SamplePacking::multipack || packing == SamplePacking::best_fit || plugin_index(packing);
  };
  if (config.data.packing_group.is_set() && !looks_at_groups(training) && !looks_at_groups(evaluation))
    problems.add({"data.packing_group", "data.packing"},
                 "data.packing_group has no effect: data.packing is neither multipack nor best_fit");
  for (const auto& [option, is_set] : {std::pair("data.long_documents", config.data.long_documents.is_set()),
                                       {"data.pad_to_multiple_of", config.data.pad_to_multiple_of.is_set()}})
    if (is_set && !packs)
      problems.add({option, "data.packing"},
                   fmt::format("{} has no effect: data.packing is windows, which uses all tokens", option));
}

}  // namespace

void check_data(const TrainConfig& config, Problems& problems) {
  check(config.data.preparation, problems);
  if (std::ranges::find(config.data.path, "-") != config.data.path.end())
    problems.add({"data.path"}, "data.path takes files and folders: only prepare-data reads standard input (-)");
  check_datasets(config, problems);
  check_evaluation(config, problems);
  check_samples(config, problems);
}

std::vector<TrainingDataset> training_datasets(const TrainConfig& config) {
  if (!config.data.datasets.empty()) return config.data.datasets;
  TrainingDataset only;
  only.path = join(config.data.path, " ");
  only.prepared = config.data.prepared;
  return {only};
}

}  // namespace lockstep
