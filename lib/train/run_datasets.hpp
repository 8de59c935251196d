// The datasets of a run, for training and evaluation, opened as its configuration names them. The samples made from
// them: train/run_samples.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "config/train_config.hpp"
#include "data/dataset.hpp"
#include "data/mixture.hpp"
#include "data/sample_source.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class SampleUse { training, evaluation };

/// Returns the split of this name. Throws Error(usage) naming the option.
DataSplit split_named(const std::string& name, std::string_view option);

/// LabelCounts says how much of a dataset made from records is trained on.
struct LabelCounts {
  std::optional<std::int64_t> tokens = {}, trained_tokens = {};  // of all splits; not set: not known
  std::int64_t documents = 0;                                    // of the split: samples made from records
  std::int64_t cut_documents = 0;     // of them, those with labels in several rows, or cut off or dropped by packing
  std::int64_t cut_records = 0;       // truncated or split by data.max_length, in all splits
  std::int64_t left_out_records = 0;  // by data.max_length, in all splits
};

struct RunDataset {
  std::string name;  // in plans, records and messages; unique within its use
  DatasetChoice choice;
  std::optional<double> weight;                 // for training
  std::optional<std::int64_t> batches;          // for evaluation, in global batches; not set: all samples
  std::optional<Dataset> dataset;               // not set: dummy data
  DataSplit split = DataSplit::train;           // of the dataset
  std::shared_ptr<const TokenStream> stream;    // of the split; set with the plan of the run
  std::shared_ptr<const SampleSource> samples;  // the samples in use; set with the plan
  std::optional<LabelCounts> labels;            // for training, if shards have masks; set with the plan
};

/// Opens the datasets for training or for evaluation. There is none for evaluation if the run does not evaluate, or if
/// eval.datasets is not set and no training dataset has a validation split. Opens manifests but no shards. Local.
/// Throws as open_dataset does; Error(usage) if an option such as eval.every or --eval-only needs an evaluation and
/// there is nothing to evaluate; Error(input) for a dataset of eval.datasets without the split.
std::vector<RunDataset> open_datasets(const TrainConfig& config, SampleUse use);

/// A dataset of training or evaluation that a plan cannot open, with the reason.
struct MissingData {
  enum class Reason { unnamed, absent, unprepared } reason{};
  std::string path;  // as the options name it; empty if none does
};
std::string to_text(const MissingData& missing);  // "book.txt is not prepared yet"
/// Returns the datasets that cannot be opened because no option names them, because they do not exist in any form, or
/// because their text waits for its preparation. Local.
std::vector<MissingData> missing_data(const TrainConfig& config);

/// Throws Error(usage) naming two datasets whose tokenizers give different ids, or a dataset with more token ids than
/// the model.
void check_tokenizers(const std::vector<const RunDataset*>& datasets, std::int64_t vocabulary);

/// Returns the proportions of the mixture; not set without weights. Throws Error(usage).
std::optional<Proportions> proportions_of(const std::vector<RunDataset>& training);

/// Returns the name under which evaluations of a set are recorded, and its metrics in checkpoints; "validation" if
/// data.path names the evaluated data.
std::string metrics_name(const TrainConfig& config, const RunDataset& evaluated);
/// Returns whether records contain the name of the set.
bool names_evaluations(const TrainConfig& config);

/// Returns text that identifies the training data and is saved with the run: the hashes of the token shards of a split.
/// For several datasets, or parts of them, it also describes the mixture.
std::string dataset_identity(const std::vector<RunDataset>& training);
/// Returns the differences from a saved text, each as "what: saved …, now …". Pure.
std::vector<std::string> dataset_differences(const std::string& saved, const std::vector<RunDataset>& training);

}  // namespace lockstep
