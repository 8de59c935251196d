#include "dialects/deepspeed.hpp"

#include "base/text.hpp"
#include "dialects/dialect_hf.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

namespace lockstep::accelerate {

namespace {

/// A value with its key in the place, as problems name it.
Node with_key(const Node& value, const std::string& key) {
  Node named = value;
  named.origin += ": " + key;
  return named;
}

bool is_auto(const Node& value) { return value.kind == Node::Kind::null || value.text == "auto"; }

/// What is kept in host memory.
struct Offload {
  bool optimizer = false, weights = false;
  Node place = {};

  void take(bool Offload::* what, const Node& device, Lowering& lowering) {
    if (device.text == "none" || device.kind == Node::Kind::null) return;
    if (device.text != "cpu") return lowering.refuse(device, "state is kept in memory: cpu or none");
    this->*what = true;
    place = device;
  }
  void lower(Lowering& lowering) const {
    if (optimizer && weights) return hf::offload({"optimizer", "shards"}, place, lowering);
    if (optimizer) hf::offload({"optimizer"}, place, lowering);
    if (weights) hf::offload({"shards"}, place, lowering);
  }
};

void lower_stage(const Node& stage, Lowering& lowering) {
  if (stage.text == "0") return lowering.set("parallel.dp_shard", "1", stage);
  if (stage.text != "1" && stage.text != "2" && stage.text != "3")
    return lowering.refuse(stage, "it must be 0, 1, 2 or 3");
  lowering.set("parallel.dp_shard", "auto", stage);
  lowering.set("parallel.dp_replicate", "1", stage);
  lowering.set("parallel.zero", stage);
}

void lower_zero(const Node& zero, Lowering& lowering) {
  Offload offload;
  for (const auto& [key, value] : zero.entries) {
    const Node here = with_key(value, "zero_optimization." + key);
    if (key == "stage" && !is_auto(value)) lower_stage(here, lowering);
    const Node* const device = value.kind == Node::Kind::map ? value.find("device") : nullptr;
    if (device == nullptr) continue;  // sizes of buckets and the like
    const Node named = with_key(*device, "zero_optimization." + key + ".device");
    if (key == "offload_optimizer") offload.take(&Offload::optimizer, named, lowering);
    if (key == "offload_param") offload.take(&Offload::weights, named, lowering);
  }
  offload.lower(lowering);
}

void lower_optimizer(const Node& optimizer, Lowering& lowering) {
  if (const Node* const type = optimizer.find("type")) {
    const std::string name = lower_ascii(type->text);
    if (name == "adamw" || name == "adam" || name == "sgd" || name == "lion")
      lowering.set("optimizer.name", name == "adam" ? "adamw" : name, with_key(*type, "optimizer.type"));
    else
      lowering.refuse(with_key(*type, "optimizer.type"), "it must be AdamW, Adam, Lion or SGD");
  }
  const Node* const parameters = optimizer.find("params");
  if (parameters == nullptr) return;
  static constexpr std::array<std::pair<const char*, const char*>, 4> names{
      {{"lr", "optimizer.lr"},
       {"betas", "optimizer.betas"},
       {"eps", "optimizer.eps"},
       {"weight_decay", "optimizer.weight_decay"}}};
  for (const auto& [theirs, ours] : names)
    if (const Node* const value = parameters->find(theirs); value != nullptr && !is_auto(*value))
      lowering.set(ours, with_key(*value, fmt::format("optimizer.params.{}", theirs)));
}

/// The content of DeepSpeed's own file. Values "auto" are those of the Trainer.
void lower_file(const Node& document, Lowering& lowering) {
  static constexpr std::array<std::pair<const char*, const char*>, 4> names{
      {{"train_batch_size", "train.global_batch"},
       {"train_micro_batch_size_per_gpu", "train.micro_batch"},
       {"gradient_accumulation_steps", "train.accumulation"},
       {"gradient_clipping", "optimizer.clip_norm"}}};
  for (const auto& [theirs, ours] : names)
    if (const Node* const value = document.find(theirs); value != nullptr && !is_auto(*value))
      lowering.set(ours, with_key(*value, theirs));
  for (const char* type : {"bf16", "fp16"}) {
    const Node* const section = document.find(type);
    const Node* const enabled = section == nullptr ? nullptr : section->find("enabled");
    if (enabled != nullptr && flag_word(enabled->text).value_or(false))
      lowering.set("precision.dtype", type, with_key(*enabled, fmt::format("{}.enabled", type)));
  }
  if (const Node* const zero = document.find("zero_optimization")) lower_zero(*zero, lowering);
  if (const Node* const optimizer = document.find("optimizer")) lower_optimizer(*optimizer, lowering);
  const Node* const schedule = document.find("scheduler");
  const Node* const parameters = schedule == nullptr ? nullptr : schedule->find("params");
  if (parameters == nullptr) return;
  for (const auto& [key, value] : parameters->entries)
    if (!is_auto(value))
      lowering.refuse(with_key(value, "scheduler.params." + key), "set lr_scheduler_type and warmup_steps instead");
}

void lower_named_file(const Node& path, Lowering& lowering) {
  if (const std::optional<Node> document = lowering.file(path)) lower_file(*document, lowering);
}

/// Accelerate's section: its defaults give way to what the Trainer's keys set.
void lower_section(const Node& section, Lowering& lowering) {
  Offload offload;
  const auto set_unless_given = [&](const char* option, const Node& value) {
    if (!lowering.is_set(option) && !is_auto(value)) lowering.set(option, value);
  };
  for (const auto& [key, value] : section.entries) {
    if (value.kind == Node::Kind::null) continue;
    if (key == "zero_stage") {
      lower_stage(value, lowering);
    } else if (key == "offload_optimizer_device") {
      offload.take(&Offload::optimizer, value, lowering);
    } else if (key == "offload_param_device") {
      offload.take(&Offload::weights, value, lowering);
    } else if (key == "gradient_accumulation_steps") {
      set_unless_given("train.accumulation", value);
    } else if (key == "gradient_clipping") {
      set_unless_given("optimizer.clip_norm", value);
    } else if (key == "deepspeed_config_file") {
      lower_named_file(value, lowering);
    } else if (key == "zero3_save_16bit_model" && flag_word(value.text).value_or(false)) {
      lowering.set("checkpoint.export_at_end", "true", value);
    }
  }
  offload.lower(lowering);
}

}  // namespace

void lower_deepspeed(Lowering& lowering) {
  const Node* const named = lowering.given("deepspeed");
  if (named != nullptr && named->kind == Node::Kind::map)
    lower_file(*named, lowering);
  else if (named != nullptr)
    lower_named_file(*named, lowering);
  const Node* const type = lowering.given("distributed_type");
  const Node* const section = lowering.given("deepspeed_config");
  if (section != nullptr && (type == nullptr || type->text == "DEEPSPEED")) lower_section(*section, lowering);
}

}  // namespace lockstep::accelerate
