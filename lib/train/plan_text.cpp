// What --dry-run prints and a run says at its start, from the plan alone. Memory is read off the slots of the verified programs.
#include "base/text.hpp"
#include "program/memory.hpp"
#include "report/table.hpp"
#include "train/train_plan.hpp"

#include <fmt/format.h>

namespace lockstep {

namespace {

std::string axes_text(const Mesh& mesh) {
  std::vector<std::string> parts;
  for (const Axis& axis : mesh.axes) parts.push_back(fmt::format("{}={}", axis.name, axis.size));
  return join(parts, " × ");
}

std::string share_text(const TrainConfig& config, const TrainPlan& plan) {
  const std::int64_t most = share_of(config.train.global_batch, plan.ranks, 0).count;
  const std::int64_t least = share_of(config.train.global_batch, plan.ranks, plan.ranks - 1).count;
  const std::string each = most == least ? fmt::format("{}", most) : fmt::format("{} or {}", most, least);
  return fmt::format("{} samples = {} ranks × {}, in {} micro-batch{} of at most {}", config.train.global_batch, plan.ranks, each, plan.accumulation,
                     plan.accumulation == 1 ? "" : "es", plan.micro_batch);
}

/// Bytes that a checkpoint's parts hold: master weights and moments.
std::int64_t checkpoint_bytes(const TrainPlan& plan) {
  std::int64_t bytes = 0;
  for (const UnitPlan& unit : plan.model.units) bytes += unit.master_bytes + unit.optimizer_bytes;
  return bytes;
}

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

}  // namespace

std::string describe_plan(const TrainConfig& config, const TrainPlan& plan) {
  const HfConfig& model = plan.architecture.config;
  const std::int64_t tokens = config.train.global_batch * config.data.sequence_length;
  const double step_flops = plan.flops_per_token * static_cast<double>(tokens);
  const double epochs = static_cast<double>(config.train.max_steps * config.train.global_batch) / static_cast<double>(plan.samples_per_epoch);
  Table table({{"", Table::Align::left}, {"", Table::Align::left}});
  table.add({"mesh", fmt::format("{} rank{}: {}", plan.ranks, plan.ranks == 1 ? "" : "s", axes_text(plan.mesh))});
  table.add({"model", fmt::format("{}: {} layers, {} channels, {} heads ({} for keys and values), vocabulary {}", model.family == Family::gpt2 ? "gpt2" : "llama",
                                  model.layers, model.channels, model.heads, model.kv_heads, model.vocabulary)});
  table.add({"parameters", fmt::format("{} ({} in matrix products)", human_count(static_cast<double>(parameter_count(plan.architecture))),
                                       human_count(static_cast<double>(matmul_parameter_count(plan.architecture))))});
  table.add({"data", fmt::format("{} tokens, {} samples of {} tokens an epoch; {} steps are {:.2f} epochs", human_count(static_cast<double>(plan.training->tokens())),
                                 plan.samples_per_epoch, config.data.sequence_length, config.train.max_steps, epochs)});
  table.add({"step", share_text(config, plan)});
  table.add({"FLOPs", fmt::format("{}FLOP a step, {}FLOP in all ({}FLOP a token: 6N + 12·L·H·D·T)", human_count(step_flops),
                                  human_count(step_flops * static_cast<double>(config.train.max_steps)), human_count(plan.flops_per_token))});
  const MemoryUse memory = memory_of(plan.programs.train.classes.front());
  table.add({"memory of a rank", bytes_text(memory.peak_bytes)});
  for (const auto& [kind, bytes] : memory.bytes) table.add({fmt::format("  {}", name_of(kind)), bytes_text(bytes)});
  table.add({"checkpoint", fmt::format("{}, written by {} rank{}", bytes_text(checkpoint_bytes(plan)), plan.ranks, plan.ranks == 1 ? "" : "s")});
  if (plan.evaluation_rounds > 0) {
    const std::int64_t batches = plan.evaluation_rounds * plan.programs.eval.micro_batches;
    table.add({"evaluation", fmt::format("{} micro-batches a rank", batches)});
  }
  return table.text();
}

}  // namespace lockstep
