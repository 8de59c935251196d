// The samples of a run: how its configuration makes them from a dataset. Kinds of samples: data/sample_source.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "data/packing.hpp"
#include "data/sample_source.hpp"
#include "report/log.hpp"
#include "train/run_datasets.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns how documents are packed, equal on all ranks; not set: samples are windows. Pure.
std::optional<PackingSettings> packing_of(const TrainConfig& config, SampleUse use);
/// Returns whether documents are packed, for training or evaluation. Pure.
bool packs(const TrainConfig& config);
/// Returns the multiple to which rows are padded if they are as long as the longest sample of a step; not set: all rows
/// have the full length. Pure.
std::optional<std::int64_t> row_multiple(const TrainConfig& config, SampleUse use);

/// Returns which samples are permuted in training. Pure.
Shuffled shuffled_of(const TrainConfig& config);

/// Opens the stream of the dataset and makes the samples in use. A packing without a file is made in memory. Local.
/// Throws as the sources and make_packing do, Error(usage) for a part without a sample.
void make_samples(const TrainConfig& config, SampleUse use, std::int64_t vocabulary, RunDataset& dataset);
/// Returns the samples of all datasets. Pure.
std::shared_ptr<const SampleSource> joined_samples(const std::vector<RunDataset>& datasets);

/// Return how full the rows of packed samples are, and the counts of documents; empty and null for windows. Pure.
std::string packing_text(const SampleSource& samples);
Json packing_facts(const SampleSource& samples);

/// Return which share of the labels of a dataset counts, and how many of its documents rows cut. Pure.
std::optional<double> label_share(const LabelCounts& labels);  // not set: not known
std::string label_share_text(const LabelCounts& labels);
std::string cut_documents_text(const RunDataset& dataset);
Json label_facts(const LabelCounts& labels);

/// Returns the text by which a checkpoint identifies the packing of its training samples. Local.
std::string packing_identity(const TrainConfig& config, const std::vector<RunDataset>& training);

/// Makes missing files of packings: rank 0 writes them beside the shards, or in the run folder if it cannot. Collective
/// over `world`.
void prepare_packings(const TrainConfig& config, Communicator& world, Log& log);

}  // namespace lockstep
