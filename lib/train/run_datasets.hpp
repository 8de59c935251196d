// The datasets of a run: those it trains on and those it evaluates, opened as its configuration names them. The samples
// that are made of them: train/run_samples.hpp.
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

/// The split of this name. Throws Error(usage) naming the option.
DataSplit split_named(const std::string& name, std::string_view option);

struct RunDataset {
  std::string name;  // in plans, records and messages; no other one of its use has it
  DatasetChoice choice;
  std::optional<double> weight;                 // of training
  std::optional<std::int64_t> batches;          // of evaluation, global ones; absent: all
  std::optional<Dataset> dataset;               // absent: dummy
  DataSplit split = DataSplit::train;           // of it
  std::shared_ptr<const TokenStream> stream;    // of the split, once the run has made its plan
  std::shared_ptr<const SampleSource> samples;  // likewise: those that are used
};

/// Those that are trained on, or evaluated: none where the run does not evaluate, or where nothing says on what and no
/// dataset that it trains on has a split for it. Opens manifests, and no shard. Local. Throws what open_dataset throws,
/// Error(usage) where eval.every or --eval-only asks for what is not there.
std::vector<RunDataset> open_datasets(const TrainConfig& config, SampleUse use);

/// Whether all that data.path or data.datasets name is there, whatever it is, and no text waits for its preparation.
/// Local.
bool datasets_are_there(const TrainConfig& config);

/// Throws Error(usage) naming two datasets whose tokenizers give different ids, and Error(usage) for one that has more
/// token ids than the model.
void check_tokenizers(const std::vector<const RunDataset*>& datasets, std::int64_t vocabulary);

/// What mixes the datasets; absent without weights. Throws Error(usage).
std::optional<Proportions> proportions_of(const std::vector<RunDataset>& training);

/// Under which name evaluations of a set are recorded, its metrics in checkpoints too; "validation" where data.path
/// names what is evaluated.
std::string metrics_name(const TrainConfig& config, const RunDataset& evaluated);
/// Whether records say the name of the set.
bool names_evaluations(const TrainConfig& config);

/// Text that identifies what the run was trained on, saved with it: the hashes of the token shards of a split, and of
/// several datasets, or parts of them, those that they are mixed of.
std::string dataset_identity(const std::vector<RunDataset>& training);
/// What differs between two such texts, each as "what: saved …, now …". Pure.
std::vector<std::string> dataset_differences(const std::string& saved, const std::vector<RunDataset>& training);

}  // namespace lockstep
