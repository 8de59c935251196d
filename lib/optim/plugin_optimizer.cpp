#include "optim/plugin_optimizer.hpp"

#include "base/error.hpp"
#include "optim/unit_stretches.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <type_traits>

namespace lockstep {

namespace {

PluginEntry<lockstep_optimizer> entry_of(OptimizerName rule) {
  return Plugins::opened().optimizers().at(plugin_index(rule).value());
}

template <class M>
auto update_of(const lockstep_optimizer& table) {
  if constexpr (std::is_same_v<M, double>)
    return table.update_f64;
  else
    return table.update_f32;
}

}  // namespace

std::vector<StateDescription> state_of_plugin(OptimizerName rule, DType master) {
  const PluginEntry<lockstep_optimizer> entry = entry_of(rule);
  if (master == DType::f64 && entry.table->update_f64 == nullptr)
    fail(ExitCode::usage, "the optimizer {} of {} cannot update fp64 weights: set precision.dtype fp32 or bf16",
         entry.table->name, entry.plugin->file());
  std::vector<StateDescription> state;
  for (const char* const* name = entry.table->states; *name != nullptr; ++name) state.push_back({*name, master});
  return state;
}

PluginOptimizer::PluginOptimizer(OptimizerName rule, const OptimizerOptions& options,
                                 const std::vector<Parameter*>& parameters)
    : Optimizer(options, parameters), rule_(entry_of(rule)) {}

void PluginOptimizer::update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const {
  std::atomic<const char*> failure = nullptr;  // of any thread
  with_master_type(unit, [&]<class M>(M) {
    const WeightsInWork<M> weights(unit);
    const M* const gradient = values_of<M>(unit.gradient()).data();
    std::array<M*, LOCKSTEP_MOST_STATES> states{};
    for (std::size_t i = 0; i < rule_buffers(unit); ++i) states.at(i) = buffer_of<M>(unit, i);
    const auto update = update_of<M>(*rule_.table);
    for_each_stretch(
        unit, settings_,
        [&](const ParameterSettings& settings) {
          return lockstep_update{.step = step, .lr = lr * settings.lr_scale, .weight_decay = settings.weight_decay};
        },
        [&](std::int64_t from, std::int64_t to, const lockstep_update& facts) {
          weights(from, to, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16*) {
            constexpr std::int64_t at_once = 2048;
            std::array<M, at_once> scaled;  // NOLINT: written before it is read
            for (std::int64_t at = begin; at < end; at += at_once) {
              const std::int64_t count = std::min(at_once, end - at);
              for (std::int64_t i = 0; i < count; ++i)
                scaled[static_cast<std::size_t>(i)] = gradient[at + i] * static_cast<M>(gradient_scale);
              std::array<M*, LOCKSTEP_MOST_STATES> here{};
              for (std::size_t i = 0; i < rule_buffers(unit); ++i) here.at(i) = states.at(i) + at;
              const char* const told =
                  update(rule_.plugin->values(), &facts, count, scaled.data(), weight + (at - begin), here.data());
              if (told != nullptr) failure = told;
            }
          });
        });
  });
  if (const char* const told = failure)
    fail(ExitCode::usage, "the optimizer {} of {}: {}", rule_.table->name, rule_.plugin->file(), told);
  unit.update_compute_copy();
}

}  // namespace lockstep
