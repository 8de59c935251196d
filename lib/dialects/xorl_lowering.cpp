#include "dialects/xorl_lowering.hpp"

#include "base/text.hpp"
#include "dialects/dialect_hf.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace lockstep::xorl {

namespace {

constexpr const char* dummy_samples = "4096";  // there, of an entry without num_samples

/// A flag as one of two values.
void choose(std::string_view key, std::string_view canonical, const char* yes, const char* no, Lowering& lowering) {
  if (const Node* const value = lowering.given(key))
    lowering.set(canonical, lowering.on(key, false) ? yes : no, *value);
}

void axis(const Node& value, std::string_view canonical, Lowering& lowering) {
  lowering.set(canonical, value.text == "-1" ? "null" : value.text, value);
}

void lower_axes(Lowering& lowering) {
  const Node* const mode = lowering.given("train.data_parallel_mode");
  const Node* const shard = lowering.given("train.data_parallel_shard_size");
  const Node* const replicate = lowering.given("train.data_parallel_replicate_size");
  const std::string how = mode == nullptr ? "fsdp2" : mode->text;
  if (how != "none" && how != "ddp" && how != "fsdp2")
    return lowering.refuse(*mode, "it must be one of none, ddp and fsdp2");
  if (how == "none") {
    lowering.set("parallel.dp_replicate", "1", *mode);
    lowering.set("parallel.dp_shard", "1", *mode);
  } else if (how == "ddp") {
    lowering.set("parallel.dp_shard", "1", *mode);
    if (replicate != nullptr) axis(*replicate, "parallel.dp_replicate", lowering);
    if (shard != nullptr && shard->text != "-1" && shard->text != "1")
      lowering.refuse(*shard, "ddp shards nothing: use data_parallel_mode: fsdp2");
  } else {
    const bool sharded = shard != nullptr && shard->text != "-1";
    if (sharded) lowering.set("parallel.dp_shard", *shard);
    if (!sharded && (mode != nullptr || shard != nullptr || replicate != nullptr))
      lowering.set("parallel.dp_shard", "auto", mode != nullptr ? *mode : shard != nullptr ? *shard : *replicate);
    const bool replicated = replicate != nullptr && replicate->text != "-1";
    if (replicated) lowering.set("parallel.dp_replicate", *replicate);
    if (!sharded && !replicated && mode != nullptr) lowering.set("parallel.dp_replicate", "1", *mode);
  }
}

void lower_mesh(Lowering& lowering) {
  lower_axes(lowering);
  const Node* const mode = lowering.given("train.cp_fsdp_mode");
  const bool context =
      lowering.text("train.ulysses_parallel_size") != "1" || lowering.text("train.ringattn_parallel_size") != "1";
  if (mode != nullptr && context) lowering.set("parallel.cp_fsdp_mode", *mode);
  const bool experts = lowering.text("train.expert_parallel_size") != "1";
  if (const Node* const size = lowering.given("train.expert_parallel_size"); size != nullptr && experts)
    lowering.set("parallel.ep", *size);
  if (experts) {
    choose("train.ep_outside", "parallel.ep_outside", "true", "false", lowering);
    choose("train.ep_intranode", "parallel.ep_outside", "false", "true", lowering);
  }
  if (lowering.text("train.data_parallel_mode") != "fsdp2") return;
  choose("train.reshard_after_forward", "parallel.reshard_after_forward", "true", "false", lowering);
  if (const Node* const full = lowering.given("train.enable_full_shard");
      full != nullptr && !lowering.on("train.enable_full_shard", true))
    lowering.set("parallel.reshard_after_forward", "false", *full);
  if (const Node* const ahead = lowering.given("train.enable_forward_prefetch");
      ahead != nullptr && !lowering.on("train.enable_forward_prefetch", true))
    lowering.set("parallel.prefetch", "0", *ahead);
}

void lower_length(Lowering& lowering) {
  const Node* const steps = lowering.given("train.max_steps");
  const Node* const epochs = lowering.given("train.num_train_epochs");
  if (steps != nullptr && !lowering.is_set_above("train.epochs", *steps)) lowering.set("train.max_steps", *steps);
  if (epochs != nullptr && steps == nullptr && !lowering.is_set_above("train.max_steps", *epochs))
    lowering.set("train.epochs", *epochs);
  if (const Node* const passes = lowering.given("train.gradient_accumulation_steps")) {
    const bool pipeline = lowering.text("train.pipeline_parallel_size") != "1";
    lowering.set(pipeline ? "parallel.micro_batches" : "train.accumulation", *passes);
    if (pipeline) lowering.set("train.accumulation", "1", *passes);
  }
  hf::one_micro_batch("train.micro_batch_size", "train.gradient_accumulation_steps", lowering);
  const bool falls = lowering.text("train.lr_decay_style") != "constant";
  for (const auto& [theirs, ours] :
       {std::pair("train.lr_min", "schedule.min_lr"), std::pair("train.lr_decay_ratio", "schedule.decay_ratio")})
    if (const Node* const value = lowering.given(theirs); value != nullptr && falls) lowering.set(ours, *value);
}

void lower_optimizer(Lowering& lowering) {
  const Node* const name = lowering.given("train.optimizer");
  if (name == nullptr) return;
  const bool short_moments = name->text == "anyprecision_adamw", muon = name->text == "muon";
  lowering.set("optimizer.name", short_moments ? "adamw" : name->text, *name);
  if (!short_moments && !muon) return;
  const auto place = [&](const char* key) -> const Node& {
    const Node* const said = lowering.given(key);
    return said == nullptr ? *name : *said;
  };
  const std::string kept = lowering.text("train.optimizer_dtype");
  if (kept != "bf16" && kept != "fp32")
    lowering.refuse(place("train.optimizer_dtype"), "it must be bf16 or fp32");
  else
    lowering.set("optimizer.state_dtype", kept == "bf16" ? "bf16" : "weights", place("train.optimizer_dtype"));
  if (!muon) return;
  lowering.set("optimizer.muon_lr", lowering.text("train.muon_lr"), place("train.muon_lr"));
  for (const auto& [theirs, ours] : {std::pair("train.muon_momentum", "optimizer.muon_momentum"),
                                     std::pair("train.muon_ns_steps", "optimizer.muon_steps"),
                                     std::pair("train.muon_adjust_lr_fn", "optimizer.muon_adjust")})
    if (const Node* const said = lowering.given(theirs)) lowering.set(ours, *said);
  choose("train.muon_nesterov", "optimizer.muon_nesterov", "true", "false", lowering);
}

void lower_saving(Lowering& lowering) {
  std::vector<std::string> cadences;
  const Node* place = nullptr;
  for (const auto& [key, unit] : {std::pair("train.save_steps", "steps"), std::pair("train.save_epochs", "epochs")}) {
    const Node* const said = lowering.given(key);
    if (said == nullptr) continue;
    if (place == nullptr || !is_zero(*said)) place = said;
    if (!is_zero(*said)) cadences.push_back(fmt::format("{} {}", said->text, unit));
  }
  if (place != nullptr) lowering.set("checkpoint.every", cadences.empty() ? "never" : join(cadences, " + "), *place);
}

Node list_at(const Node& place) {
  Node list;
  list.kind = Node::Kind::list;
  list.origin = place.origin;
  return list;
}

/// The key of today, or the one before it, whose only value is moe_act.
const Node* method_of_recomputation(const Lowering& lowering) {
  const Node* const method = lowering.given("train.gradient_checkpointing_method");
  return method != nullptr ? method : lowering.given("train.moe_checkpoint_method");
}

/// There it is said what is computed again, here what is kept instead.
void lower_recomputation(Lowering& lowering) {
  choose("train.enable_gradient_checkpointing", "train.recompute", "block", "none", lowering);
  if (!lowering.on("train.enable_gradient_checkpointing", true)) return;
  const Node* const modules = lowering.given("train.recompute_modules");
  const Node* const method = method_of_recomputation(lowering);
  const Node* const place = modules != nullptr ? modules : method;
  if (place == nullptr) return;
  if (method != nullptr && method->text == "no_recompute") return lowering.set("train.recompute", "none", *method);
  lowering.set("train.recompute", "block", *place);
  bool attention = modules == nullptr, mlp = modules == nullptr;  // is computed again
  if (modules != nullptr) {
    bool known = !modules->items.empty();
    for (const Node& module : modules->items) {
      attention = attention || module.text == "self_attn";
      mlp = mlp || module.text == "mlp";
      known = known && (module.text == "self_attn" || module.text == "mlp");
    }
    if (!known) return lowering.refuse(*modules, "it must be [self_attn], [mlp] or both");
  }
  const bool keeps_experts =
      method != nullptr && (method->text == "moe_act" || method->text == "recompute_before_dispatch");
  if (method != nullptr && !keeps_experts && method->text != "recompute_full_layer")
    return lowering.refuse(*method, "it must be recompute_full_layer, recompute_before_dispatch or no_recompute");
  Node keeps = list_at(*place);
  const auto keep = [&](const char* what) {
    Node item;
    item.kind = Node::Kind::scalar;
    item.text = what;
    item.origin = place->origin;
    keeps.items.push_back(std::move(item));
  };
  if (!attention) keep("attention");
  if (!attention) keep("projections");
  if (!mlp)
    keep("mlp");
  else if (keeps_experts)
    keep("experts");
  if (!keeps.items.empty()) lowering.set("train.recompute_keeps", std::move(keeps));
}

void lower_memory(Lowering& lowering) {
  choose("train.enable_mixed_precision", "precision.dtype", "bf16", "fp32", lowering);
  if (lowering.on("train.enable_mixed_precision", true)) {
    if (const Node* const sums = lowering.given("train.fsdp_reduce_dtype"))
      lowering.set("precision.reduce_dtype", *sums);
    if (const Node* const kept = lowering.given("train.skip_param_upcast"))
      lowering.set("precision.weights", lowering.on("train.skip_param_upcast", false) ? "bf16" : "master", *kept);
  }
  lower_recomputation(lowering);
  if (const Node* const value = lowering.given("train.enable_activation_offload");
      value != nullptr && lowering.on("train.enable_activation_offload", false))
    hf::offload({"activations"}, *value, lowering);
}

void lower_seeing(Lowering& lowering) {
  const Node* wandb = lowering.given("train.use_wandb");
  for (const char* key : {"train.wandb_project", "train.wandb_name", "train.wandb_tags", "train.wandb_log_interval"})
    if (wandb == nullptr) wandb = lowering.given(key);  // on unless it is said to be off
  if (wandb != nullptr) {
    const bool on = lowering.on("train.use_wandb", true);
    lowering.set("log.wandb", on ? "offline" : "off", *wandb);
    if (on && !lowering.is_set("log.every")) lowering.set("log.every", "1 steps", *wandb);
  }
  if (!lowering.on("train.enable_profiling", false)) return;
  const Node& on = *lowering.given("train.enable_profiling");
  const std::int64_t start = lowering.integer("train.profile_start_step").value_or(1);
  const std::int64_t end = lowering.integer("train.profile_end_step").value_or(2);
  const auto place = [&](const char* key) -> const Node& {
    const Node* const said = lowering.given(key);
    return said == nullptr ? on : *said;
  };
  lowering.set("log.profile_start_step", std::to_string(start), place("train.profile_start_step"));
  lowering.set("log.profile_end_step", std::to_string(std::max(start, end - 1)), place("train.profile_end_step"));
}

bool is_dummy(const Node& entry) {
  const Node* const path = entry.kind == Node::Kind::map ? entry.find("path") : nullptr;
  return path != nullptr && path->text == "dummy";
}

/// Whether all training data is dummy, which has no documents to pack.
bool all_dummy(const Lowering& lowering) {
  const Node* const datasets = lowering.given("data.datasets");
  return datasets != nullptr && !datasets->items.empty() && std::ranges::all_of(datasets->items, is_dummy);
}

/// The keys of an entry that hold for all of what prepare-data makes; those of the others go into the entry.
class EntryLowering {
 public:
  EntryLowering(Lowering& lowering, bool single) : lowering_(lowering), single_(single) {}

  /// Adds an entry of data.datasets or eval.datasets.
  void add_to(Node& list, const Node& said) {
    if (said.kind != Node::Kind::map) return lowering_.refuse(said, "an entry must be a map with a path");
    Node entry;
    entry.kind = Node::Kind::map;
    entry.origin = said.origin;
    const bool dummy = is_dummy(said);
    for (const auto& [key, value] : said.entries)
      if (value.kind != Node::Kind::null && !(dummy && (key == "type" || key == "max_seq_len")))
        take(key, value, said, entry);
    if (dummy && entry.find("samples") == nullptr) {
      Node samples = *said.find("path");
      samples.text = dummy_samples;
      entry.entries.push_back({"samples", std::move(samples)});
    }
    list.items.push_back(std::move(entry));
  }

 private:
  void take(const std::string& key, const Node& value, const Node& said, Node& entry) {
    if (key == "path") {
      entry.entries.push_back({"path", value});
    } else if (key == "type") {
      if (value.text == "tokenized" || value.text == "text" || value.text == "messages" || value.text == "prompt")
        lowering_.set("data.records", value.text, value);
      else
        lowering_.refuse(value, "it must be one of tokenized, text, prompt and messages");
    } else if (key == "max_seq_len") {
      lowering_.set("data.max_length", value);
      lowering_.set("data.too_long", "drop", value);
    } else if (key == "split" && value.text == "train") {
      // what is prepared where nothing is said, and all that files without splits have
    } else if (!single_ && (key == "name" || key == "split")) {
      entry.entries.push_back({"hub_" + key, value});
    } else if (key == "name" || key == "split" || key == "revision" || key == "data_files") {
      lowering_.set("data." + key, value);
    } else if (key == "shards") {
      const Node* const index = said.find("shards_idx");
      const bool first = index == nullptr || index->kind == Node::Kind::null;
      const std::int64_t part = first ? 0 : whole_number(*index);
      Node shard = value;
      shard.text = fmt::format("{}/{}", part + 1, value.text);
      if (single_)
        lowering_.set("data.shard", shard);
      else
        entry.entries.push_back({"shard", shard});
    } else if (key == "num_samples") {
      if (is_dummy(said)) entry.entries.push_back({"samples", value});
    } else if (key == "activations_path") {
      lowering_.refuse(value, no_distillation);
    } else if (key == "trust_remote_code") {
      if (flag_word(value.text).value_or(true)) lowering_.refuse(value, "code that comes with data is never run");
    } else if (key == "shards_idx") {
      if (said.find("shards") == nullptr) lowering_.refuse(value, "it needs shards, the number of shards");
    } else if (key != "preprocess_shards" && key != "ds_type") {
      lowering_.refuse(value, fmt::format("an entry has no key \"{}\"", key));
    }
  }

  std::int64_t whole_number(const Node& value) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
    if (error != std::errc{} || end != value.text.data() + value.text.size() || number < 0)
      lowering_.refuse(value, "it must be a whole number, counted from 0");
    return number;
  }

  Lowering& lowering_;
  bool single_;
};

std::vector<Node> entries_of(const Node& said) {
  return said.kind == Node::Kind::list ? said.items : std::vector{said};
}

/// Records that are longer than max_seq_len are left out of all datasets.
void require_one_limit(const std::vector<Node>& entries, Lowering& lowering) {
  const Node* limit = nullptr;
  bool all = true;
  for (const Node& entry : entries) {
    const Node* const own = is_dummy(entry) ? nullptr : entry.find("max_seq_len");
    if (own != nullptr && own->kind != Node::Kind::null)
      limit = own;
    else
      all = all && is_dummy(entry);
  }
  if (limit != nullptr && !all) lowering.refuse(*limit, "all datasets have one limit: name it in each entry");
}

void lower_data(Lowering& lowering) {
  if (const Node* const said = lowering.given("data.datasets")) {
    const std::vector<Node> entries = entries_of(*said);
    const bool single = entries.size() == 1;
    require_one_limit(entries, lowering);
    Node list = list_at(*said);
    for (const Node& entry : entries) EntryLowering(lowering, single).add_to(list, entry);
    const Node* const path = single && !list.items.empty() ? list.items.front().find("path") : nullptr;
    if (path != nullptr && path->text != "dummy")
      lowering.set("data.path", *path);
    else
      lowering.set("data.datasets", list);
    const Node* const merged = lowering.given("data.shuffle_merged_datasets");
    const Node* const before = lowering.given("data.shuffle_before_merging_datasets");
    const bool all = lowering.on("data.shuffle_merged_datasets", true);
    const bool each = lowering.on("data.shuffle_before_merging_datasets", true);
    const Node* const place = merged != nullptr ? merged : before;
    if (place != nullptr) {
      lowering.set("data.shuffle", all || (each && !single) ? "true" : "false", *place);
      if (!single && (all || each))
        lowering.set("data.shuffle_where", all && each ? "both" : all ? "mixture" : "datasets", *place);
    }
  }
  if (const Node* const said = lowering.given("data.test_datasets")) {
    Node list = list_at(*said);
    for (const Node& entry : entries_of(*said)) EntryLowering(lowering, false).add_to(list, entry);
    if (!list.items.empty()) lowering.set("eval.datasets", list);
  }
  const Node* const number = lowering.given("data.dataset_shard_num");
  const Node* const index = lowering.given("data.dataset_shard_idx");
  if (number != nullptr)
    lowering.set("data.shard",
                 fmt::format("{}/{}", lowering.integer("data.dataset_shard_idx").value_or(0) + 1, number->text),
                 *number);
  else if (index != nullptr)
    lowering.refuse(*index, "it needs data.dataset_shard_num, the number of shards");
  choose("data.skip_prepare_dataset", "data.prepare", "skip", "auto", lowering);
}

void lower_packing(Lowering& lowering) {
  const Node* const method = lowering.given("data.sample_packing_method");
  const bool in_order = lowering.on("data.sample_packing_sequentially", false);
  if (all_dummy(lowering)) {
    // nothing is packed
  } else if (in_order) {
    lowering.set("data.packing", "sequential", *lowering.given("data.sample_packing_sequentially"));
  } else if (method != nullptr) {
    lowering.set("data.packing", *method);
    if (const Node* const group = lowering.given("data.sample_packing_group_size");
        group != nullptr && method->text == "multipack")
      lowering.set("data.packing_group", *group);
  }
  if (const Node* const evaluation = lowering.given("data.eval_sample_packing");
      evaluation != nullptr && !lowering.on("data.eval_sample_packing", true))
    lowering.set("eval.packing", "none", *evaluation);
  const Node* const workers = lowering.given("data.dataloader_num_workers");
  const Node* const ahead = lowering.given("data.dataloader_prefetch_factor");
  if (workers != nullptr && workers->text == "0")
    lowering.set("data.prefetch", "0", *workers);
  else if (ahead != nullptr)
    lowering.set("data.prefetch", *ahead);
}

}  // namespace

void finish(Lowering& lowering) {
  lower_mesh(lowering);
  lower_length(lowering);
  lower_saving(lowering);
  lower_memory(lowering);
  lower_optimizer(lowering);
  lower_seeing(lowering);
  lower_data(lowering);
  lower_packing(lowering);
}

}  // namespace lockstep::xorl
