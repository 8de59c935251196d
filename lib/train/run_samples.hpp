// The samples of a run: how its configuration and its mesh make them of a dataset. What samples are:
// data/sample_source.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "data/dataset.hpp"
#include "data/packing.hpp"
#include "data/sample_source.hpp"
#include "layout/mesh.hpp"
#include "report/log.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

enum class SampleUse { training, evaluation };

/// The split of this name. Throws Error(usage) naming the option.
DataSplit split_named(const std::string& name, std::string_view option);
/// The split that is trained on, or evaluated. Throws Error(usage).
DataSplit split_of(const TrainConfig& config, SampleUse use);
bool evaluates(const TrainConfig& config);

/// How documents are packed; absent: samples are windows. `ranks` share the rows of each sample. Pure.
std::optional<PackingSettings> packing_of(const TrainConfig& config, SampleUse use, const Mesh& mesh);
/// What rows are padded to, where they are as long as the longest sample of a step; absent: all are as long. Pure.
std::optional<std::int64_t> row_multiple(const TrainConfig& config, SampleUse use, const Mesh& mesh);

/// The samples of a stream of the dataset, which outlives them. A packing that no file keeps is made in memory. Local.
/// Throws what the sources and make_packing throw.
std::shared_ptr<const SampleSource> samples_of(const TrainConfig& config, SampleUse use, const Mesh& mesh,
                                               const Dataset& dataset, const TokenStream& stream);

/// How full the rows of packed samples are, and what became of documents; empty and null for windows. Pure.
std::string packing_text(const SampleSource& samples);
Json packing_facts(const SampleSource& samples);

/// What a checkpoint says of the packing of the samples that it was trained on. Local.
std::string packing_identity(const TrainConfig& config, const Mesh& mesh, const Dataset& dataset);

/// Makes the files of packings that are not there: rank 0 does, beside the shards, or where these cannot be written in
/// the run folder. Collective over `world`.
void prepare_packings(const TrainConfig& config, Communicator& world, Log& log);

}  // namespace lockstep
