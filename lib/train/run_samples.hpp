// The samples of a run: how its configuration makes them of a dataset. What samples are: data/sample_source.hpp.
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

/// How documents are packed, the same on all ranks; absent: samples are windows. Pure.
std::optional<PackingSettings> packing_of(const TrainConfig& config, SampleUse use);
/// Whether they are, to train or to evaluate. Pure.
bool packs(const TrainConfig& config);
/// What rows are padded to, where they are as long as the longest sample of a step; absent: all are as long. Pure.
std::optional<std::int64_t> row_multiple(const TrainConfig& config, SampleUse use);

/// What loaders are told of the order of training samples. Pure.
Shuffled shuffled_of(const TrainConfig& config);

/// Opens the stream of the dataset and makes its samples, those that are used. A packing that no file keeps is made in
/// memory. Local. Throws what the sources and make_packing throw, Error(usage) for a part without a sample.
void make_samples(const TrainConfig& config, SampleUse use, std::int64_t vocabulary, RunDataset& dataset);
/// Those of all of them. Pure.
std::shared_ptr<const SampleSource> joined_samples(const std::vector<RunDataset>& datasets);

/// How full the rows of packed samples are, and what became of documents; empty and null for windows. Pure.
std::string packing_text(const SampleSource& samples);
Json packing_facts(const SampleSource& samples);

/// What a checkpoint says of the packing of the samples that it was trained on. Local.
std::string packing_identity(const TrainConfig& config, const std::vector<RunDataset>& training);

/// Makes the files of packings that are not there: rank 0 does, beside the shards, or where these cannot be written in
/// the run folder. Collective over `world`.
void prepare_packings(const TrainConfig& config, Communicator& world, Log& log);

}  // namespace lockstep
