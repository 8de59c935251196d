// What --dry-run prints and a run says at its start, from the plan alone.
#include "architecture/gpu_attention.hpp"
#include "architecture/units.hpp"
#include "base/rounding.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "program/dry_run.hpp"
#include "program/memory_estimate.hpp"
#include "tensor/number_types.hpp"
#include "train/run_cost.hpp"
#include "train/train_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

namespace lockstep {

namespace {

/// Of attention, where layers have one.
std::string window_of(const ModelConfig& model) {
  const auto windowed = std::ranges::count_if(model.windows, [](std::int64_t window) { return window > 0; });
  if (windowed == 0) return "";
  return fmt::format(", a window of {} in {}", counted(std::ranges::max(model.windows), "token"),
                     counted(windowed, "layer"));
}

/// " (50304 in memory)" after the size of a vocabulary with more rows in the memory that kernels use, else nothing.
std::string padded_vocabulary(const TrainPlan& plan) {
  std::int64_t shares = 1;
  for (const AxisName& name : {tensor_axis, key_replica_axis})
    if (const Axis* const axis = find_axis(plan.mesh, name)) shares *= axis->size;
  const std::int64_t rows = ceil_div(plan.architecture.config.vocabulary, shares);
  const std::int64_t in_memory = rows_in_memory(rows, plan.architecture.blocks.back().tensors.back().row_multiple);
  if (in_memory == rows) return "";
  return fmt::format(" ({} in memory{})", in_memory, shares > 1 ? " of a rank" : "");
}

Row model_row(const TrainPlan& plan) {
  const ModelConfig& model = plan.architecture.config;
  const std::string text =
      fmt::format("{}, {}, {}, {} ({} for keys and values), vocabulary {}{}{}", name_of(model.family),
                  counted(model.layers, "layer"), counted(model.channels, "channel"), counted(model.heads, "head"),
                  model.kv_heads, model.vocabulary, padded_vocabulary(plan), window_of(model));
  return {.section = "network", .key = "architecture", .label = "architecture", .value = text, .text = text};
}

Row dropout_row(const DropoutRates& rates) {
  const std::string text = fmt::format("{} after the embedding, {} in attention, {} before residual additions",
                                       rates.embedding, rates.attention, rates.residual);
  return {.section = "network", .key = "dropout", .label = "dropout", .value = text, .text = text};
}

/// Who computes attention on a GPU, and why.
Row attention_row(const TrainPlan& plan) {
  const ModelConfig& model = plan.architecture.config;
  AttentionUse use{.compute = plan.types.compute,
                   .head_size = model.head_size,
                   .has_dropout = model.dropout.attention > 0,
                   .is_ring = sequence_ranks(plan.mesh).ring > 1};
  const auto text_of = [](const GpuAttentionChoice& choice) {
    return choice.attention == GpuAttention::flash ? std::string("flash (LibTorch)")
                                                   : fmt::format("own kernel: {}", choice.reason);
  };
  const GpuAttentionChoice choice = choose_gpu_attention(use);
  std::string text = text_of(choice);
  use.has_dropout = false;
  const GpuAttentionChoice evaluated = choose_gpu_attention(use);
  if (!plan.evaluations.empty() && evaluated.attention != choice.attention)
    text += fmt::format("; in evaluations {}", text_of(evaluated));
  return {.section = "network", .key = "attention", .label = "attention", .value = text, .text = text};
}

/// Whether the dataset is prepared, and which parts of the plan depend on that.
std::vector<Row> missing_rows(const TrainConfig& config, const std::vector<MissingData>& missing) {
  std::vector<std::string> reasons;
  for (const MissingData& one : missing) reasons.push_back(to_text(one));
  const std::string why = join(reasons, ", ");
  const std::string parts = config.train.max_steps ? "epochs, evaluations, packing"
                                                   : "number of steps, learning rates, epochs, evaluations, packing";
  return {{.section = "data",
           .key = "dataset",
           .label = "dataset",
           .value = why,
           .text = fmt::format("{}; without it are not planned: {}", why, parts)},
          {.section = "data", .key = "unknown", .label = "not planned", .value = parts, .text = parts}};
}

std::vector<Row> data_rows(const TrainConfig& config, const TrainPlan& plan) {
  if (plan.training.empty()) return missing_rows(config, missing_data(config));
  const double epochs = static_cast<double>(plan.samples_of_run(config)) / static_cast<double>(plan.samples_per_epoch);
  std::int64_t tokens = 0;
  for (const RunDataset& dataset : plan.training)
    tokens += dataset.stream ? dataset.stream->tokens()
                             : dataset.samples->samples() * dataset.choice.length.value_or(config.data.sequence_length);
  return {{.section = "data",
           .key = "epochs",
           .label = "epochs",
           .value = epochs,
           .text = fmt::format("{:.2f}: {} over {} tokens, {} per epoch", epochs, counted(plan.length.steps, "step"),
                               human_count(static_cast<double>(tokens)), counted(plan.samples_per_epoch, "sample"))}};
}

/// What warm-up, decay and cooldown come to.
Row schedule_row(const TrainConfig& config, const RunLength& length) {
  const ScheduleName name = config.schedule.name;
  std::vector<std::string> parts;
  if (length.warmup_steps > 0) parts.push_back("warm-up of " + counted(length.warmup_steps, "step"));
  const bool decays = name != ScheduleName::constant && name != ScheduleName::inverse_sqrt;
  if (name == ScheduleName::inverse_sqrt) parts.emplace_back("inverse square root of the step");
  if (decays) parts.push_back(fmt::format("decay to step {}", length.decay_steps));
  if (length.cooldown_steps > 0) parts.push_back("cooldown of " + counted(length.cooldown_steps, "step"));
  const std::string text = parts.empty() ? "constant" : join(parts, ", ");
  return {.section = "data", .key = "schedule", .label = "learning rate", .value = text, .text = text};
}

/// What the run takes of each dataset.
std::vector<Row> dataset_rows(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<Row> rows;
  if (config.data.datasets.empty()) return rows;
  const std::optional<MixtureSchedule> turns =
      plan.proportions ? std::optional<MixtureSchedule>(*plan.proportions) : std::nullopt;
  const std::int64_t all = plan.samples_of_run(config);
  for (std::size_t i = 0; i < plan.training.size(); ++i) {
    const RunDataset& dataset = plan.training[i];
    const auto samples = static_cast<double>(dataset.samples->samples());
    const double epochs = turns ? static_cast<double>(turns->taken(i, all)) / samples
                                : static_cast<double>(all) / static_cast<double>(plan.samples_per_epoch);
    const std::string share =
        plan.proportions ? fmt::format(", {} of {} of the run's", plan.proportions->parts[i], plan.proportions->whole)
                         : "";
    rows.push_back(
        {.section = "data",
         .key = "dataset_" + dataset.name,
         .label = "dataset " + dataset.name,
         .value = epochs,
         .text = fmt::format("{}{}: {:.2f} epochs", counted(dataset.samples->samples(), "sample"), share, epochs)});
  }
  return rows;
}

/// The sets that are evaluated, where they have names.
std::vector<Row> evaluation_rows(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<Row> rows;
  if (!names_evaluations(config)) return rows;
  for (const EvaluationPlan& evaluation : plan.evaluations) {
    const bool decides = &evaluation == &plan.evaluations[plan.deciding] && plan.evaluations.size() > 1;
    rows.push_back(
        {.section = "data",
         .key = "evaluation_" + evaluation.set.name,
         .label = "evaluation " + evaluation.set.name,
         .value = evaluation.samples,
         .text = fmt::format("{} of {}{}", evaluation.samples, counted(evaluation.set.samples->samples(), "sample"),
                             decides ? ", selects the best checkpoint" : "")});
  }
  return rows;
}

/// The texts that the run continues at once, and the memory of their keys and values.
std::vector<Row> text_rows(const TrainPlan& plan) {
  if (!plan.texts) return {};
  std::int64_t most = 0;
  for (const RankClass& ranks : plan.programs.token.classes) {
    const std::map<SlotKind, std::int64_t> bytes = memory_of(ranks).bytes;
    if (const auto cache = bytes.find(SlotKind::cache); cache != bytes.end()) most = std::max(most, cache->second);
  }
  return {
      {.section = "data",
       .key = "text_cache_bytes",
       .label = "generated texts",
       .value = most,
       .text = fmt::format("{} at once, {} each at most, {} of keys and values", plan.texts->texts,
                           counted(plan.texts->positions, "position"), human_bytes(static_cast<std::uint64_t>(most)))}};
}

/// How documents lie in rows, for training and for evaluations.
std::vector<Row> packing_rows(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<Row> rows;
  const auto add = [&rows](const std::string& key, const std::string& label, const RunDataset& dataset, bool named) {
    const std::string text = packing_text(*dataset.samples);
    if (text.empty()) return;
    rows.push_back({.section = "data",
                    .key = named ? key + "_" + dataset.name : key,
                    .label = named ? label + " " + dataset.name : label,
                    .value = text,
                    .text = text});
  };
  for (const RunDataset& dataset : plan.training) add("packing", "packing", dataset, !config.data.datasets.empty());
  for (const EvaluationPlan& evaluation : plan.evaluations)
    add("evaluation_packing", "packing of evaluations", evaluation.set, names_evaluations(config));
  return rows;
}

/// Which labels of training data with masks count, and how many documents are cut.
std::vector<Row> label_rows(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<Row> rows;
  for (const RunDataset& dataset : plan.training) {
    if (!dataset.labels) continue;
    const bool named = !config.data.datasets.empty();
    const std::string key = named ? "_" + dataset.name : "", label = named ? " " + dataset.name : "";
    const std::string share = label_share_text(*dataset.labels);
    Row labels{.section = "data", .key = "label_share" + key, .label = "labels" + label, .value = share, .text = share};
    if (const auto known = label_share(*dataset.labels)) labels.value = *known;
    rows.push_back(std::move(labels));
    rows.push_back({.section = "data",
                    .key = "cut_documents" + key,
                    .label = "cut documents" + label,
                    .value = dataset.labels->cut_documents,
                    .text = cut_documents_text(dataset)});
  }
  return rows;
}

/// How evenly ranks of a ring share what attention computes of a sample of one document.
Row ring_row(const TrainConfig& config, const TrainPlan& plan) {
  const ModelConfig& model = plan.architecture.config;
  const SequenceRanks ranks = sequence_ranks(plan.mesh);
  const std::vector<std::int64_t> sample{0, config.data.sequence_length};
  double most = 1;
  for (int layer = 0; layer < model.layers; ++layer)
    most = std::max(most, ring_imbalance(ranks, sample, model.window_of(layer)));
  return {.section = "mesh",
          .key = "ring_imbalance",
          .label = "ring balance",
          .value = most,
          .text = fmt::format("the busiest of {} has {:.3f} times the mean number of query-key pairs",
                              counted(ranks.ring, "rank"), most)};
}

/// How saves stop training, and where they go.
std::vector<Row> save_rows(const TrainConfig& config, const TrainPlan& plan) {
  const bool beside = plan.snapshot_limit.has_value();
  std::vector<Row> rows{{.section = "checkpoint",
                         .key = "saves",
                         .label = "saves",
                         .value = std::string(beside ? "background" : "waited"),
                         .text = beside                     ? "in the background"
                                 : plan.no_snapshot.empty() ? "training waits for them"
                                                            : "training waits for them: " + plan.no_snapshot}};
  if (config.checkpoint.local_dir)
    rows.push_back({.section = "checkpoint",
                    .key = "local_dir",
                    .label = "local tier",
                    .value = *config.checkpoint.local_dir,
                    .text = fmt::format("{} of each node, promoted in the background", *config.checkpoint.local_dir)});
  return rows;
}

}  // namespace

std::vector<Row> rows_of(const TrainConfig& config, const TrainPlan& plan, const Placement& placement) {
  const std::int64_t parameters = parameter_count(plan.architecture);
  const std::int64_t trained = trained_count(plan.architecture);
  std::int64_t snapshot_bytes = 0, load_bytes = 0;
  for (const RankClass& ranks : plan.programs.train.classes) {
    snapshot_bytes = std::max(snapshot_bytes, plan.snapshot_bytes(ranks.ranks.front()));
    load_bytes = std::max(load_bytes, plan.load_bytes(ranks.ranks.front()));
  }
  const DryRunFacts facts{.mesh = plan.mesh,
                          .placement = placement,
                          .batch = plan.batch,
                          .length = config.data.sequence_length,
                          .steps = plan.length.steps,
                          .samples = plan.samples_of_run(config),
                          .parameters = parameters,
                          .frozen_parameters = parameters - trained,
                          .flops_per_token = plan.flops_per_token,
                          .weight_bytes = plan.weight_bytes(),
                          .optimizer_state_bytes = plan.state_bytes(),
                          .snapshot_bytes = snapshot_bytes,
                          .load_bytes = load_bytes};
  std::vector<Row> rows{model_row(plan)};
  if (plan.architecture.config.dropout.any()) rows.push_back(dropout_row(plan.architecture.config.dropout));
  if (plan.device && plan.device->multiprocessors > 0) rows.push_back(attention_row(plan));
  if (!plan.tokenizer.empty())
    rows.push_back(
        {.section = "data", .key = "tokenizer", .label = "tokenizer", .value = plan.tokenizer, .text = plan.tokenizer});
  std::ranges::copy(data_rows(config, plan), std::back_inserter(rows));
  if (plan.length.steps > 0) rows.push_back(schedule_row(config, plan.length));
  for (const auto& more : {dataset_rows(config, plan), evaluation_rows(config, plan), packing_rows(config, plan),
                           label_rows(config, plan), text_rows(plan)})
    std::ranges::copy(more, std::back_inserter(rows));
  std::vector<Row> more = dry_run(facts, plan.model, plan.programs);
  if (sequence_ranks(plan.mesh).ring > 1)
    more.insert(std::ranges::find_if(more, [](const Row& row) { return row.section != "mesh"; }),
                ring_row(config, plan));
  const std::vector<Row> saves = save_rows(config, plan);
  const auto behind = std::ranges::find(more.rbegin(), more.rend(), "checkpoint", &Row::section).base();
  more.insert(behind, saves.begin(), saves.end());
  rows.insert(rows.end(), more.begin(), more.end());
  std::ranges::copy(cost_rows(config, plan, placement, {}), std::back_inserter(rows));
  return rows;
}

}  // namespace lockstep
