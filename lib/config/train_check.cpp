#include "base/text.hpp"
#include "base/words.hpp"
#include "config/checkpoint_check.hpp"
#include "config/data_check.hpp"
#include "config/log_check.hpp"
#include "config/ranges.hpp"
#include "config/schedule_check.hpp"
#include "config/train_choices.hpp"
#include "config/train_config.hpp"
#include "plugin/plugins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep {

namespace {

void check_model(const TrainConfig& config, Problems& problems) {
  const ModelOptions& model = config.model;
  if (!model.config && !model.path)
    problems.add({"model.config", "model.path"}, "model.config or model.path is needed: the network to train");
  if (model.config && model.path) {
    problems.add(
        {"model.config", "model.path"},
        "model.config and model.path both name a network: leave one out (a folder of weights has its own config.json)");
  }
}

void check_length(const TrainConfig& config, Problems& problems) {
  const TrainOptions& train = config.train;
  if (!train.max_steps && !train.epochs)
    problems.add({"train.max_steps", "train.epochs"}, "train.max_steps or train.epochs is needed: how long to train");
  if (train.max_steps && train.epochs)
    problems.add({"train.max_steps", "train.epochs"},
                 fmt::format("train.max_steps {} and train.epochs {} both set the length of the run: leave one out",
                             *train.max_steps, *train.epochs));
}

/// Of a rank in a step, which train.micro_batch and its like say together.
void check_batch(const TrainConfig& config, Problems& problems) {
  const TrainOptions& train = config.train;
  if (!train.global_batch && !(train.micro_batch && train.accumulation))
    problems.add({"train.global_batch"},
                 "train.global_batch is needed: samples of one step over all ranks; or train.micro_batch and "
                 "train.accumulation, which make it with the ranks that share the data");
  if (train.global_batch || !train.micro_batch || !train.accumulation) return;
  const double samples = static_cast<double>(*train.micro_batch) * static_cast<double>(*train.accumulation) *
                         static_cast<double>(config.parallel.micro_batches.value_or(1));
  if (samples > most_count)
    problems.add({"train.micro_batch", "train.accumulation"},
                 fmt::format("train.micro_batch {} and train.accumulation {} make too many samples a step on each rank",
                             *train.micro_batch, *train.accumulation));
}

/// An option that some update rules read.
struct RuleOption {
  std::string name;  // in its section
  std::vector<OptimizerName> rules;
  const char* says;                               // to those who want it of another
  bool (*changed)(const OptimizerOptions&);       // whether it is not what is built in
  bool (*said)(const OptimizerGroup&) = nullptr;  // of a group; null: groups have none
};

const std::vector<RuleOption>& rule_options() {
  using enum OptimizerName;
  static const OptimizerOptions plain;
  static const std::vector<RuleOption> rules{
      {"momentum",
       {sgd},
       "adamw and lion use optimizer.betas, muon uses optimizer.muon_momentum",
       [](const OptimizerOptions& options) { return options.momentum != plain.momentum; },
       [](const OptimizerGroup& group) { return group.momentum.has_value(); }},
      {"nesterov",
       {sgd},
       "muon uses optimizer.muon_nesterov",
       [](const OptimizerOptions& options) { return options.nesterov; },
       [](const OptimizerGroup& group) { return group.nesterov.has_value(); }},
      {"betas",
       {adamw, lion},
       "sgd uses optimizer.momentum, adafactor uses optimizer.adafactor_decay",
       [](const OptimizerOptions& options) { return options.betas != plain.betas; },
       [](const OptimizerGroup& group) { return group.betas.has_value(); }},
      {"eps",
       {adamw},
       "adafactor uses optimizer.adafactor_eps, other optimizers need none",
       [](const OptimizerOptions& options) { return options.eps != plain.eps; },
       [](const OptimizerGroup& group) { return group.eps.has_value(); }},
      {"state_dtype",
       {adamw, lion, muon},
       "sgd and adafactor keep their state in the type of the weights",
       [](const OptimizerOptions& options) { return options.state_dtype != plain.state_dtype; },
       [](const OptimizerGroup& group) { return group.state_dtype.has_value(); }},
      {"muon_lr",
       {muon},
       "other optimizers use optimizer.lr",
       [](const OptimizerOptions& options) { return options.muon_lr.has_value(); }},
      {"muon_momentum",
       {muon},
       "sgd uses optimizer.momentum",
       [](const OptimizerOptions& options) { return options.muon_momentum != plain.muon_momentum; },
       [](const OptimizerGroup& group) { return group.muon_momentum.has_value(); }},
      {"muon_nesterov",
       {muon},
       "sgd uses optimizer.nesterov",
       [](const OptimizerOptions& options) { return options.muon_nesterov != plain.muon_nesterov; },
       [](const OptimizerGroup& group) { return group.muon_nesterov.has_value(); }},
      {"muon_steps",
       {muon},
       "other optimizers do not orthogonalize updates",
       [](const OptimizerOptions& options) { return options.muon_steps != plain.muon_steps; },
       [](const OptimizerGroup& group) { return group.muon_steps.has_value(); }},
      {"muon_adjust",
       {muon},
       "other optimizers do not orthogonalize updates",
       [](const OptimizerOptions& options) { return options.muon_adjust != plain.muon_adjust; },
       [](const OptimizerGroup& group) { return group.muon_adjust.has_value(); }},
      {"adafactor_decay",
       {adafactor},
       "adamw uses the second of optimizer.betas",
       [](const OptimizerOptions& options) { return options.adafactor_decay != plain.adafactor_decay; },
       [](const OptimizerGroup& group) { return group.adafactor_decay.has_value(); }},
      {"adafactor_eps",
       {adafactor},
       "adamw uses optimizer.eps",
       [](const OptimizerOptions& options) { return options.adafactor_eps != plain.adafactor_eps; },
       [](const OptimizerGroup& group) { return group.adafactor_eps.has_value(); }},
      {"adafactor_clip",
       {adafactor},
       "gradients are clipped by optimizer.clip_norm",
       [](const OptimizerOptions& options) { return options.adafactor_clip != plain.adafactor_clip; },
       [](const OptimizerGroup& group) { return group.adafactor_clip.has_value(); }},
      {"adafactor_scale",
       {adafactor},
       "other optimizers use optimizer.lr",
       [](const OptimizerOptions& options) { return options.adafactor_scale; },
       [](const OptimizerGroup& group) { return group.adafactor_scale.has_value(); }},
      {"adafactor_relative_step",
       {adafactor},
       "other optimizers follow schedule.name",
       [](const OptimizerOptions& options) { return options.adafactor_relative_step; },
       [](const OptimizerGroup& group) { return group.adafactor_relative_step.has_value(); }},
      {"adafactor_momentum",
       {adafactor},
       "sgd uses optimizer.momentum, adamw uses the first of optimizer.betas",
       [](const OptimizerOptions& options) { return options.adafactor_momentum != plain.adafactor_momentum; },
       [](const OptimizerGroup& group) { return group.adafactor_momentum.has_value(); }},
  };
  return rules;
}

std::string names_of(const std::vector<OptimizerName>& rules) {
  std::vector<std::string> names;
  for (const auto& [rule, name, phrase] : choices_of(OptimizerName{}))
    if (std::ranges::find(rules, rule) != rules.end()) names.emplace_back(name);
  return join(names, ", ");
}

/// Options that no update rule of the run reads, or of the group that says them.
void check_update_rules(const OptimizerOptions& optimizer, Problems& problems) {
  using enum OptimizerName;
  std::set<OptimizerName> own{optimizer.name};
  if (optimizer.name == muon) own.insert(adamw);
  std::set<OptimizerName> all = own;
  for (const auto& [name, group] : optimizer.groups)
    if (group.name) all.insert(*group.name);
  const auto is_read = [](const RuleOption& option, const std::set<OptimizerName>& rules) {
    return std::ranges::any_of(option.rules, [&](OptimizerName rule) { return rules.contains(rule); });
  };
  for (const RuleOption& option : rule_options()) {
    const std::string path = "optimizer." + option.name;
    if (option.changed(optimizer) && !is_read(option, all))
      problems.add({"optimizer.name", path},
                   fmt::format("{} applies only to optimizer.name {}; {}", path, names_of(option.rules), option.says));
    for (const auto& [name, group] : optimizer.groups) {
      if (option.said == nullptr || !option.said(group)) continue;
      if (!is_read(option, group.name ? std::set{*group.name} : own))
        problems.add(
            {"optimizer.groups", "optimizer.name"},
            fmt::format("optimizer.groups.{}.{} applies only to {}, but the group uses another optimizer: leave "
                        "it out, or set optimizer.groups.{}.optimizer",
                        name, option.name, names_of(option.rules), name));
    }
  }
}

/// What makes no sense of a rule, whoever says it: `path` is "optimizer" or a group's.
void check_rule(const UpdateRule& rule, const std::string& option, const std::string& path, Problems& problems) {
  for (const double beta : rule.betas) {
    if (beta >= 1)
      problems.add({option + (option == "optimizer" ? ".betas" : "")},
                   fmt::format("with a decay rate of 1 a moment never changes: {}.betas must be below 1", path));
  }
  if (rule.momentum >= 1)
    problems.add({option + (option == "optimizer" ? ".momentum" : "")},
                 fmt::format("with a momentum of 1 no step is ever forgotten: {}.momentum must be below 1", path));
  if (rule.muon_momentum >= 1)
    problems.add({option + (option == "optimizer" ? ".muon_momentum" : "")},
                 fmt::format("with a momentum of 1 no gradient ever enters: {}.muon_momentum must be below 1", path));
  if (rule.adafactor_momentum >= 1)
    problems.add(
        {option + (option == "optimizer" ? ".adafactor_momentum" : "")},
        fmt::format("with a momentum of 1 no gradient ever enters: {}.adafactor_momentum must be below 1", path));
}

/// Of groups alone: what they say without knowing of each other.
void check_groups(const OptimizerOptions& optimizer, Problems& problems) {
  const auto problem = [&](const std::string& text) { problems.add({"optimizer.groups"}, text); };
  for (const auto& [name, group] : optimizer.groups) {
    const std::string path = "optimizer.groups." + name;
    const UpdateRule rule = changed(optimizer, group);
    if (group.betas || group.momentum || group.muon_momentum || group.adafactor_momentum)
      check_rule(rule, "optimizer.groups", path, problems);
    if (rule.nesterov && rule.momentum == 0 && (group.nesterov || group.momentum))
      problem(fmt::format("{0}.nesterov needs momentum: set {0}.momentum", path));
    if (group.lr && group.lr_scale != 1)
      problem(fmt::format("{0}.lr and {0}.lr_scale both set the learning rate: leave one out", path));
    if (group.lr && optimizer.lr == 0)
      problems.add(
          {"optimizer.groups", "optimizer.lr"},
          fmt::format("the schedule scales {}.lr together with optimizer.lr, so optimizer.lr must not be 0", path));
  }
}

void check_optimizer(const OptimizerOptions& optimizer, Problems& problems) {
  check_rule(optimizer, "optimizer", "optimizer", problems);
  check_update_rules(optimizer, problems);
  check_groups(optimizer, problems);
  if (optimizer.nesterov && optimizer.momentum == 0)
    problems.add({"optimizer.nesterov", "optimizer.momentum"},
                 "optimizer.nesterov needs momentum: set optimizer.momentum, for example 0.9");
  if (optimizer.muon_lr && optimizer.lr == 0)
    problems.add({"optimizer.muon_lr", "optimizer.lr"},
                 "the schedule scales optimizer.muon_lr together with optimizer.lr, so optimizer.lr must not be 0");
}

void check_update_in_backward(const TrainConfig& config, Problems& problems) {
  if (!config.optimizer.in_backward) return;
  if (config.optimizer.clip_norm)
    problems.add({"optimizer.in_backward", "optimizer.clip_norm"},
                 "optimizer.in_backward updates weights before the norm of all gradients is known, which "
                 "optimizer.clip_norm needs: add --optimizer.clip_norm null");
  if (config.train.on_nonfinite == OnNonfinite::skip)
    problems.add({"optimizer.in_backward", "train.on_nonfinite"},
                 "optimizer.in_backward updates weights before it is known whether all gradients are finite, so that "
                 "train.on_nonfinite cannot skip the step: add --train.on_nonfinite stop");
}

void check_precision(const TrainConfig& config, Problems& problems) {
  const PrecisionOptions& precision = config.precision;
  const bool rounds = std::ranges::any_of(
      config.optimizer.groups, [](const auto& group) { return group.second.state_dtype == StateType::bf16; });
  if ((config.optimizer.state_dtype == StateType::bf16 || rounds) && precision.dtype == Precision::fp64)
    problems.add({rounds ? "optimizer.groups" : "optimizer.state_dtype", "precision.dtype"},
                 "optimizer.state_dtype bf16 would lose the precision of precision.dtype fp64: leave one of them out");
  if (precision.weights == WeightsKept::bf16 && precision.dtype != Precision::bf16)
    problems.add(
        {"precision.weights", "precision.dtype"},
        "precision.weights bf16 needs precision.dtype bf16: without fp32 master weights, computation is in bf16");
  if (precision.weights == WeightsKept::bf16 && config.post_local_sgd.start_step)
    problems.add({"precision.weights", "post_local_sgd.start_step"},
                 "averages of bf16 weights would be rounded away: leave precision.weights or "
                 "post_local_sgd.start_step out");
  if (config.optimizer.kahan && precision.weights != WeightsKept::bf16)
    problems.add({"optimizer.kahan", "precision.weights"},
                 "optimizer.kahan has no effect: it applies only to precision.weights bf16");
  if (precision.output_dtype == Precision::fp64 && precision.dtype != Precision::fp64)
    problems.add({"precision.output_dtype", "precision.dtype"},
                 "precision.output_dtype fp64 would add nothing without precision.dtype fp64: blocks compute in fp32");
  if (precision.output_dtype == Precision::fp16 && precision.dtype != Precision::fp16)
    problems.add(
        {"precision.output_dtype", "precision.dtype"},
        "precision.output_dtype fp16 needs the loss scale of precision.dtype fp16, or small gradients vanish: use "
        "bf16, which needs none");
  if (precision.dtype != Precision::fp16) {
    if (precision.reduce_dtype == Precision::fp16)
      problems.add(
          {"precision.reduce_dtype", "precision.dtype"},
          "precision.reduce_dtype fp16 needs the loss scale of precision.dtype fp16, or small gradients vanish: "
          "use bf16, which needs none");
    const LossScaleOptions plain;
    const auto moot = [&](const std::string& option, bool changed) {
      if (changed)
        problems.add({option, "precision.dtype"},
                     fmt::format("{} has no effect: only precision.dtype fp16 has a loss scale", option));
    };
    moot("precision.init_scale", precision.loss_scale.init_scale != plain.init_scale);
    moot("precision.growth_factor", precision.loss_scale.growth_factor != plain.growth_factor);
    moot("precision.backoff_factor", precision.loss_scale.backoff_factor != plain.backoff_factor);
    moot("precision.growth_interval", precision.loss_scale.growth_interval != plain.growth_interval);
    moot("precision.min_scale", precision.loss_scale.min_scale != plain.min_scale);
    return;
  }
  if (precision.loss_scale.backoff_factor == 1)
    problems.add({"precision.backoff_factor"},
                 "with a factor of 1 the loss scale never falls and gradients overflow again: precision.backoff_factor "
                 "must be below 1");
  if (precision.loss_scale.init_scale < precision.loss_scale.min_scale)
    problems.add({"precision.init_scale", "precision.min_scale"},
                 fmt::format("precision.init_scale {} is below precision.min_scale {}", precision.loss_scale.init_scale,
                             precision.loss_scale.min_scale));
  if (config.optimizer.in_backward)
    problems.add(
        {"optimizer.in_backward", "precision.dtype"},
        "optimizer.in_backward updates weights before gradients can be checked for overflow, which precision.dtype "
        "fp16 needs: use bf16, or leave optimizer.in_backward out");
}

void check_offload(const TrainConfig& config, Problems& problems) {
  const std::vector<Offload>& offload = config.train.offload;
  const bool stateless = config.optimizer.name == OptimizerName::sgd && config.optimizer.momentum == 0 &&
                         std::ranges::none_of(config.optimizer.groups, [](const auto& group) {
                           return group.second.name.has_value() || group.second.momentum.value_or(0) != 0;
                         });
  if (stateless && std::ranges::find(offload, Offload::optimizer) != offload.end())
    problems.add({"train.offload", "optimizer.name"},
                 "train.offload optimizer has no effect: without momentum optimizer.name sgd keeps no state");
  if (config.train.host_memory && offload.empty())
    problems.add({"train.host_memory", "train.offload"}, "train.host_memory has no effect: train.offload is empty");
}

void check_recompute(const TrainOptions& train, Problems& problems) {
  const bool recomputes = train.recompute != Recompute{};
  if (train.activation_memory_budget && (recomputes || !train.recompute_keeps.empty())) {
    const std::string said = recomputes ? "train.recompute" : "train.recompute_keeps";
    problems.add(
        {"train.activation_memory_budget", said},
        fmt::format("train.activation_memory_budget and {} both choose what is recomputed: leave one out", said));
    return;
  }
  if (train.activation_memory_budget && std::ranges::find(train.offload, Offload::activations) != train.offload.end())
    problems.add(
        {"train.activation_memory_budget", "train.offload"},
        "train.activation_memory_budget plans activations in device memory, but train.offload activations moves "
        "them to the host: leave one out");
  if (!train.recompute.plugin.empty() && !train.recompute_keeps.empty())
    problems.add(
        {"train.recompute_keeps", "train.recompute"},
        fmt::format("train.recompute {} already chooses what each block keeps: leave train.recompute_keeps out",
                    train.recompute.plugin));
  if (!recomputes && !train.recompute_keeps.empty())
    problems.add({"train.recompute_keeps", "train.recompute"},
                 "train.recompute_keeps has no effect: train.recompute is none, so blocks keep all activations");
}

void check_loss(const TrainConfig& config, Problems& problems) {
  const auto index = plugin_index(config.train.loss);
  if (!index) return;
  const PluginEntry<lockstep_loss>& loss = Plugins::opened().losses().at(*index);
  if (config.train.label_smoothing != 0)
    problems.add(
        {"train.label_smoothing", "train.loss"},
        fmt::format("train.label_smoothing has no effect: train.loss {} is not the cross entropy", loss.table->name));
  if (config.parallel.tp.value_or(AxisSize{1}).ranks != 1)
    problems.add({"train.loss", "parallel.tp"},
                 fmt::format("train.loss {} needs whole rows of logits, but with parallel.tp each rank has only a part "
                             "of the vocabulary",
                             loss.table->name));
  if (config.precision.dtype == Precision::fp64 && loss.table->rows_f64 == nullptr)
    problems.add({"train.loss", "precision.dtype"},
                 fmt::format("train.loss {} of {} has no function for precision.dtype fp64", loss.table->name,
                             loss.plugin->file()));
}

void check_run(const TrainConfig& config, Problems& problems) {
  const TrainOptions& train = config.train;
  if (train.device == Device::cuda)
    problems.add({"train.device"}, "this version trains on the CPU only: train.device cuda is not supported yet");
  if (train.micro_batch && train.global_batch && *train.micro_batch > *train.global_batch) {
    problems.add({"train.micro_batch", "train.global_batch"},
                 fmt::format("train.micro_batch {} is more than train.global_batch {}", *train.micro_batch,
                             *train.global_batch));
  }
  const std::int64_t replicas = config.parallel.dp_replicate.value_or(AxisSize{}).ranks;
  const std::int64_t shards = config.parallel.dp_shard.value_or(AxisSize{1}).ranks;
  const std::int64_t ranks = std::max<std::int64_t>(replicas, 1) * std::max<std::int64_t>(shards, 1);
  if (train.global_batch && ranks > *train.global_batch) {
    problems.add({"parallel.dp_replicate", "parallel.dp_shard", "train.global_batch"},
                 fmt::format("{} cannot share {} per step: some ranks would have none", counted(ranks, "rank"),
                             counted(*train.global_batch, "sample")));
  }
  const std::set<MeshAxis> ordered(config.parallel.order.begin(), config.parallel.order.end());
  if (ordered.size() < config.parallel.order.size())
    problems.add({"parallel.order"}, "parallel.order names an axis twice");
  const std::int64_t stages = config.parallel.pp.value_or(AxisSize{1}).ranks;
  std::vector<std::string> automatic;
  if (stages == 0) automatic.emplace_back("parallel.pp");
  if (replicas == 0 && config.parallel.dp_replicate) automatic.emplace_back("parallel.dp_replicate");
  if (shards == 0) automatic.emplace_back("parallel.dp_shard");
  const std::int64_t sharers = config.parallel.tp.value_or(AxisSize{1}).ranks;
  if (sharers == 0) automatic.emplace_back("parallel.tp");
  if (sharers == 1 && config.parallel.sequence_parallel)
    problems.add({"parallel.sequence_parallel", "parallel.tp"},
                 "parallel.sequence_parallel has no effect: parallel.tp is 1");
  const std::int64_t ring = config.parallel.ring.value_or(AxisSize{1}).ranks;
  const std::int64_t ulysses = config.parallel.ulysses.value_or(AxisSize{1}).ranks;
  if (ring == 0) automatic.emplace_back("parallel.ring");
  if (ulysses == 0) automatic.emplace_back("parallel.ulysses");
  const bool shares_sequences = ring != 1 || ulysses != 1;
  const bool shares_experts = config.parallel.ep.value_or(1) > 1;
  for (const auto& [name, says] : {std::pair("parallel.ep_outside", config.parallel.ep_outside.has_value()),
                                   {"parallel.ep_capacity", config.parallel.ep_capacity.has_value()}})
    if (says && !shares_experts)
      problems.add({name, "parallel.ep"}, fmt::format("{} has no effect: parallel.ep is 1", name));
  if (config.parallel.cp_fsdp_mode && !(shares_sequences && config.parallel.dp_shard))
    problems.add({"parallel.cp_fsdp_mode", shares_sequences ? "parallel.dp_shard" : "parallel.ulysses"},
                 fmt::format("parallel.cp_fsdp_mode has no effect: {}",
                             shares_sequences ? "without parallel.dp_shard no weights are sharded"
                                              : "parallel.ring and parallel.ulysses are 1"));
  const bool isolates = config.data.isolate_documents || config.data.packing != SamplePacking::windows;
  if (config.data.max_documents_per_row && (ring == 1 || !isolates))
    problems.add({"data.max_documents_per_row", ring == 1 ? "parallel.ring" : "data.isolate_documents"},
                 fmt::format("data.max_documents_per_row has no effect: {}",
                             ring == 1 ? "parallel.ring is 1, so documents are not padded"
                                       : "without data.isolate_documents a sample is one document"));
  if (automatic.size() > 1) problems.add(automatic, "only one parallel size can be auto");
  std::vector<std::string> filling;
  for (const auto& [name, ranks_along] : {std::pair("parallel.pp", stages),
                                          {"parallel.dp_replicate", replicas},
                                          {"parallel.dp_shard", shards},
                                          {"parallel.ring", ring},
                                          {"parallel.ulysses", ulysses},
                                          {"parallel.tp", sharers}})
    if (ranks_along == AxisSize::of_node) filling.emplace_back(name);
  if (filling.size() > 1) problems.add(filling, "only one parallel size can be node");
  if (stages == 1) {
    const auto moot = [&](const std::string& option, bool given) {
      if (given)
        problems.add({option, "parallel.pp"},
                     fmt::format("{} has no effect: parallel.pp is 1, so there is one stage", option));
    };
    moot("parallel.schedule", config.parallel.schedule.has_value());
    moot("parallel.stages_per_rank", config.parallel.stages_per_rank.has_value());
    moot("parallel.split_points", !config.parallel.split_points.empty());
    moot("parallel.stage_splitter", config.parallel.stage_splitter.has_value());
  } else if (config.parallel.stage_splitter && !config.parallel.split_points.empty()) {
    problems.add({"parallel.stage_splitter", "parallel.split_points"},
                 "parallel.stage_splitter and parallel.split_points both set where stages begin: leave one out");
  }
  const bool shards_rows = (ring != 1 && shards_along(config.parallel, MeshAxis::ring)) ||
                           (ulysses != 1 && shards_along(config.parallel, MeshAxis::ulysses));
  if (shards == 1 && !shards_rows) {
    const auto moot = [&](const std::string& option, bool given) {
      if (given)
        problems.add({option.substr(0, option.find(' ')), "parallel.dp_shard"},
                     fmt::format("{} has no effect: parallel.dp_shard is 1, so nothing is sharded", option));
    };
    moot("parallel.zero", config.parallel.zero.has_value());
    moot("parallel.prefetch", config.parallel.prefetch.has_value());
    moot("parallel.reshard_after_forward", config.parallel.reshard_after_forward.has_value());
    moot("parallel.reshard_after_backward", config.parallel.reshard_after_backward.has_value());
    moot("parallel.accumulate shards", config.parallel.accumulate == AccumulateGradients::shards);
    moot("train.offload shards", std::ranges::find(train.offload, Offload::shards) != train.offload.end());
  }
  if (!config.post_local_sgd.start_step) {
    const auto moot = [&](const std::string& option, bool given) {
      if (given)
        problems.add({option, "post_local_sgd.start_step"},
                     fmt::format("{} has no effect: without post_local_sgd.start_step no step is local", option));
    };
    moot("post_local_sgd.period", config.post_local_sgd.period.has_value());
    moot("post_local_sgd.cell", config.post_local_sgd.cell.has_value());
  }
  if (train.max_time && train.max_time->value <= 0)
    problems.add({"train.max_time"}, "train.max_time 0 leaves no time for a step");
  if (calls(config, CallbackName::sample) && config.sample.prompts.empty()) {
    problems.add({"train.callbacks", "sample.prompts"},
                 "the sample callback has nothing to continue: sample.prompts is empty");
  }
  if (!config.eval.every && !config.eval.at_end && calls(config, CallbackName::sample)) {
    problems.add({"train.callbacks", "eval.every", "eval.at_end"},
                 "the sample callback runs at evaluations and at the end, and there are none");
  }
}

void check_switches(const TrainConfig& config, Problems& problems) {
  if (config.eval_only && config.profile)
    problems.add({"eval_only", "profile"}, "--eval-only runs no training step, so --profile has nothing to measure");
  if (config.eval_only && config.plan)
    problems.add({"eval_only", "plan"}, "--plan shows the steps of a run, but --eval-only runs none");
  if (config.program && !config.print_program && !config.plot_program)
    problems.add({"program"}, "--program chooses the step program to show: add --print-program or --plot-program");
  if (config.rank && !config.print_program && !config.print_layout && !config.plot_program)
    problems.add({"rank"}, "--rank chooses the rank to show: add --print-program, --print-layout or --plot-program");
}

}  // namespace

void check(const TrainConfig& config, Problems& problems) {
  check_model(config, problems);
  check_length(config, problems);
  check_batch(config, problems);
  check_schedule(config, problems);
  check_optimizer(config.optimizer, problems);
  check_update_in_backward(config, problems);
  check_precision(config, problems);
  check_recompute(config.train, problems);
  check_loss(config, problems);
  check_offload(config, problems);
  check_data(config, problems);
  check_run(config, problems);
  check_checkpoint(config, problems);
  check_log(config, problems);
  check_switches(config, problems);
}

}  // namespace lockstep
