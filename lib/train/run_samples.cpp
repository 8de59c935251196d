#include "train/run_samples.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "data/dummy_source.hpp"
#include "data/packing_index.hpp"
#include "plugin/plugins.hpp"
#include "program/batch_plan.hpp"
#include "tensor/runtime.hpp"
#include "train/plugin_parts.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace lockstep {

namespace {

SamplePacking packing_named(const TrainConfig& config, SampleUse use) {
  return use == SampleUse::training ? config.data.packing : config.eval.packing.value_or(config.data.packing);
}

std::optional<PackingMethod> method_of(SamplePacking packing) {
  if (plugin_index(packing)) return PackingMethod::custom;
  switch (packing) {
    case SamplePacking::windows: return {};
    case SamplePacking::none: return PackingMethod::none;
    case SamplePacking::sequential: return PackingMethod::sequential;
    case SamplePacking::multipack: return PackingMethod::multipack;
    case SamplePacking::best_fit: return PackingMethod::best_fit;
  }
  return {};
}

/// Where packings are kept: the first that can be written.
std::vector<Path> packing_folders(const TrainConfig& config, const Dataset& dataset) {
  if (config.train.run_dir.empty()) return {dataset.folder};
  return {dataset.folder, config.train.run_dir};
}

/// Makes the file of a packing unless there is one. Local, of rank 0.
void prepare_packing(const TrainConfig& config, const PackingSettings& settings, const Dataset& dataset,
                     DataSplit split, Log& log) {
  const std::string identity = identity_of(settings, dataset.manifest.of(split));
  const TokenStream stream = dataset.open(split);
  std::vector<std::string> problems;
  const std::optional<Packing> found = find_packing(packing_folders(config, dataset), identity, problems);
  if (found && found->made_from() != hash_of_documents(stream))
    problems.push_back(
        fmt::format("the packing of {} was made while a shard was damaged, or one is damaged now", name_of(split)));
  for (const std::string& problem : problems) log.warning("{}: rebuilding it", problem);
  if (found && problems.empty()) return;
  const double start_s = monotonic_seconds();
  const Packing packing = make_packing(stream, settings, thread_count());
  const Path path = keep_packing(packing_folders(config, dataset), identity, packing);
  log.info("packed {} of {} into {} in {}: {}", counted(packing.counts().documents, "document"), name_of(split),
           counted(packing.rows(), "row"), human_seconds(monotonic_seconds() - start_s), path.string());
}

/// Labels of the positions of all rows.
double fill_of(const SampleSource& samples, const Packing& packing) {
  return static_cast<double>(packing.counts().packed_labels) /
         (static_cast<double>(packing.rows()) * static_cast<double>(samples.length()));
}

}  // namespace

bool packs(const TrainConfig& config) {
  const auto packs_for = [&](SampleUse use) { return packing_named(config, use) != SamplePacking::windows; };
  return packs_for(SampleUse::training) || packs_for(SampleUse::evaluation);
}

std::optional<PackingSettings> packing_of(const TrainConfig& config, SampleUse use) {
  const std::optional<PackingMethod> method = method_of(packing_named(config, use));
  if (!method) return {};
  PackingSettings settings{.method = *method,
                           .length = config.data.sequence_length,
                           .multiple = config.data.pad_to_multiple_of.value(),
                           .group = config.data.packing_group.value(),
                           .long_documents = config.data.long_documents.value()};
  if (*method == PackingMethod::none) settings.multiple = 1;  // the row is padded
  if (const auto index = plugin_index(packing_named(config, use))) {
    settings.by_user = packing_of_plugin(*index);
    settings.group = config.data.packing_group.set().value_or(settings.by_user->group);
  }
  return settings;
}

std::optional<std::int64_t> row_multiple(const TrainConfig& config, SampleUse use) {
  if (packing_named(config, use) != SamplePacking::none) return {};
  return config.data.pad_to_multiple_of.value();
}

Shuffled shuffled_of(const TrainConfig& config) {
  const bool by_weights = training_datasets(config).front().weight.has_value();
  switch (config.data.shuffle_where.value_or(by_weights ? ShuffleWhere::datasets : ShuffleWhere::mixture)) {
    case ShuffleWhere::mixture: return Shuffled::mixture;
    case ShuffleWhere::datasets: return Shuffled::datasets;
    case ShuffleWhere::both: return Shuffled::both;
  }
  return Shuffled::mixture;
}

namespace {

std::uint64_t seed_of_data(const TrainConfig& config) {
  return static_cast<std::uint64_t>(config.data.seed.value_or(config.train.seed));
}

/// All samples of a stream. Throws what the sources and make_packing throw.
std::shared_ptr<const SampleSource> samples_of(const TrainConfig& config, SampleUse use, const RunDataset& dataset) {
  const TokenStream& stream = *dataset.stream;
  const std::optional<PackingSettings> settings = packing_of(config, use);
  if (!settings)
    return std::make_shared<WindowSource>(stream, config.data.sequence_length,
                                          config.data.isolate_documents ? Documents::isolated : Documents::joined,
                                          use == SampleUse::training ? WindowTail::unused : WindowTail::padded);
  std::vector<std::string> told_by_rank_0;
  std::optional<Packing> packing =
      find_packing(packing_folders(config, *dataset.dataset),
                   identity_of(*settings, dataset.dataset->manifest.of(dataset.split)), told_by_rank_0);
  if (!packing) packing = make_packing(stream, *settings, thread_count());
  return std::make_shared<PackedSource>(stream, *std::move(packing), *settings);
}

std::shared_ptr<const SampleSource> dummy_samples(const TrainConfig& config, const DatasetChoice& choice,
                                                  std::int64_t vocabulary) {
  DummySettings settings{.samples = *choice.samples,
                         .row_length = config.data.sequence_length,
                         .tokens = choice.length.value_or(config.data.sequence_length),
                         .vocabulary = vocabulary};
  switch (choice.tokens.value()) {
    case DummyTokens::random: settings.seed = seed_of_data(config); break;
    case DummyTokens::constant: break;
  }
  return std::make_shared<DummySource>(settings);
}

/// The counts of a dataset with masks. Its header may lack those of records.
LabelCounts labels_of(const RunDataset& dataset) {
  const Json inputs = parse_json(dataset.dataset->manifest.inputs, "inputs");
  const Json records = inputs.is_object() ? inputs.value("records", Json::object()) : Json::object();
  const auto count = [&](const char* name) {
    const Json value = records.value(name, Json());
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  };
  LabelCounts labels{.tokens = count("tokens"),
                     .trained_tokens = count("trained_tokens"),
                     .documents = dataset.stream->documents(),
                     .cut_records = count("truncated_records").value_or(0) + count("split_records").value_or(0),
                     .left_out_records = count("too_long_records").value_or(0)};
  if (const Packing* const packing = dataset.samples->packing()) {
    const PackingCounts& counts = packing->counts();
    labels.cut_documents = counts.split_documents + counts.truncated_documents + counts.dropped_documents;
  } else {
    labels.cut_documents = documents_cut_by_windows(*dataset.stream, dataset.samples->length());
  }
  return labels;
}

}  // namespace

void make_samples(const TrainConfig& config, SampleUse use, std::int64_t vocabulary, RunDataset& dataset) {
  const DatasetChoice& choice = dataset.choice;
  if (dataset.dataset) dataset.stream = std::make_shared<const TokenStream>(dataset.dataset->open(dataset.split));
  dataset.samples = dataset.dataset ? samples_of(config, use, dataset) : dummy_samples(config, choice, vocabulary);
  if (use == SampleUse::training && dataset.stream && dataset.stream->masks() == TokenMasks::present)
    dataset.labels = labels_of(dataset);
  if (choice.fraction) {
    const std::int64_t all = dataset.samples->samples();
    const auto drawn = static_cast<std::int64_t>(static_cast<double>(all) * *choice.fraction);
    if (drawn == 0)
      throw Error(ExitCode::usage,
                  fmt::format("fraction {} of the dataset {} has no sample: the dataset has {}", *choice.fraction,
                              dataset.name, counted(all, "sample")),
                  "use a larger fraction");
    dataset.samples = PartOfSource::drawn(dataset.samples, drawn, seed_of_data(config));
  }
  SampleRange range{0, std::min(dataset.samples->samples(), choice.samples.value_or(dataset.samples->samples()))};
  const auto take = [&](const std::optional<PartChoice>& part) {
    if (!part) return;
    const SampleRange share = share_of(range.count, part->parts, part->part - 1);
    if (share.count == 0)
      throw Error(ExitCode::usage,
                  fmt::format("part {} of the dataset {} has no sample: the dataset has {}", part->text(), dataset.name,
                              counted(range.count, "sample")),
                  "use fewer parts (data.shard, or shard of the dataset)");
    range = {range.begin + share.begin, share.count};
  };
  take(choice.shard);
  if (use == SampleUse::training) take(config.data.shard);
  if (range.count < dataset.samples->samples())
    dataset.samples = std::make_shared<PartOfSource>(dataset.samples, range.begin, range.count);
}

std::shared_ptr<const SampleSource> joined_samples(const std::vector<RunDataset>& datasets) {
  if (datasets.size() == 1) return datasets.front().samples;
  std::vector<std::shared_ptr<const SampleSource>> sources;
  for (const RunDataset& dataset : datasets) sources.push_back(dataset.samples);
  return std::make_shared<JoinedSource>(std::move(sources));
}

std::optional<double> label_share(const LabelCounts& labels) {
  if (!labels.tokens || !labels.trained_tokens || *labels.tokens == 0) return std::nullopt;
  return static_cast<double>(*labels.trained_tokens) / static_cast<double>(*labels.tokens);
}

std::string packing_text(const SampleSource& samples) {
  const Packing* const packing = samples.packing();
  if (packing == nullptr) return {};
  const PackingCounts& counts = packing->counts();
  std::string text =
      fmt::format("{} in {} of {} tokens, {:.2f} % of them filled", counted(counts.documents, "document"),
                  counted(packing->rows(), "row"), samples.length(), 100 * fill_of(samples, *packing));
  if (counts.split_documents > 0) text += fmt::format("; {} split", counts.split_documents);
  if (counts.truncated_documents > 0)
    text +=
        fmt::format("; {} truncated by {}", counts.truncated_documents, counted(counts.truncated_labels, "position"));
  if (counts.dropped_documents > 0)
    text += fmt::format("; {} dropped with {}", counts.dropped_documents, counted(counts.dropped_labels, "position"));
  if (counts.masked_parts > 0)
    text += fmt::format("; {} without a trained label left out", counted(counts.masked_parts, "part"));
  if (counts.empty_documents > 0) text += fmt::format("; {} without a label left out", counts.empty_documents);
  return text;
}

Json packing_facts(const SampleSource& samples) {
  const Packing* const packing = samples.packing();
  if (packing == nullptr) return nullptr;
  const PackingCounts& counts = packing->counts();
  return {{"rows", packing->rows()},
          {"length", samples.length()},
          {"fill", fill_of(samples, *packing)},
          {"documents", counts.documents},
          {"empty_documents", counts.empty_documents},
          {"split_documents", counts.split_documents},
          {"truncated_documents", counts.truncated_documents},
          {"truncated_labels", counts.truncated_labels},
          {"dropped_documents", counts.dropped_documents},
          {"dropped_labels", counts.dropped_labels},
          {"masked_parts", counts.masked_parts},
          {"masked_labels", counts.masked_labels},
          {"packed_labels", counts.packed_labels}};
}

std::string label_share_text(const LabelCounts& labels) {
  const std::optional<double> share = label_share(labels);
  if (!share) return "not known: the dataset has no counts of its records";
  return fmt::format("{:.2f} % of the tokens count: {} of {}", 100 * *share,
                     human_count(static_cast<double>(*labels.trained_tokens)),
                     human_count(static_cast<double>(*labels.tokens)));
}

std::string cut_documents_text(const RunDataset& dataset) {
  const LabelCounts& labels = *dataset.labels;
  std::string text =
      fmt::format("{} of {} by {} of {}", labels.cut_documents, counted(labels.documents, "document"),
                  dataset.samples->packing() ? "rows" : "windows", counted(dataset.samples->length(), "token"));
  if (labels.left_out_records + labels.cut_records > 0)
    text += fmt::format("; before that, data.max_length cut {} and left out {}", counted(labels.cut_records, "record"),
                        labels.left_out_records);
  return text;
}

Json label_facts(const LabelCounts& labels) {
  const auto number = [](const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); };
  const std::optional<double> share = label_share(labels);
  return {{"tokens", number(labels.tokens)},
          {"trained_tokens", number(labels.trained_tokens)},
          {"share", share ? Json(*share) : Json()},
          {"documents", labels.documents},
          {"cut_documents", labels.cut_documents},
          {"cut_records", labels.cut_records},
          {"left_out_records", labels.left_out_records}};
}

std::string packing_identity(const TrainConfig& config, const std::vector<RunDataset>& training) {
  const std::optional<PackingSettings> settings = packing_of(config, SampleUse::training);
  if (!settings) return "windows";
  if (training.size() > 1) return to_text(*settings);
  const RunDataset& only = training.front();
  return only.dataset ? identity_of(*settings, only.dataset->manifest.of(only.split)) : to_text(*settings);
}

void prepare_packings(const TrainConfig& config, Communicator& world, Log& log) {
  if (!packs(config)) return;
  run_on_rank0(world, "pack the documents", [&] {
    for (const SampleUse use : {SampleUse::training, SampleUse::evaluation}) {
      const std::optional<PackingSettings> settings = packing_of(config, use);
      if (!settings) continue;
      for (const RunDataset& dataset : open_datasets(config, use))
        if (dataset.dataset) prepare_packing(config, *settings, *dataset.dataset, dataset.split, log);
    }
    return std::string();
  });
}

}  // namespace lockstep
