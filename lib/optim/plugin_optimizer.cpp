#include "optim/plugin_optimizer.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "optim/unit_stretches.hpp"
#include "tensor/arena.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

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

/// Elements of a device that are on the host at once.
constexpr std::int64_t elements_at_once = 1 << 22;

/// Elements [begin, end) of the flat buffers of a unit in host memory: the buffers themselves, or copies of those of a
/// device.
template <class M>
class PartOnHost {
 public:
  PartOnHost(const Unit& unit, std::int64_t begin, std::int64_t end, std::size_t states) : begin_(begin), end_(end) {
    gradient_ = part_of<M>(unit.gradient(), false);
    if (unit.is_short())
      weights_.short_weights = part_of<Bf16>(unit.master(), true);
    else
      weights_.master = part_of<M>(unit.master(), true);
    if (const at::Tensor rest = compensation_of(unit); rest.defined())
      weights_.compensation = part_of<Bf16>(rest, true);
    for (std::size_t i = 0; i < states; ++i) states_.at(i) = part_of<M>(unit.state()[i], true);
  }
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  const M* gradient() const { return gradient_; }
  const UpdatedWeights<M>& weights() const { return weights_; }
  const std::array<M*, LOCKSTEP_MOST_STATES>& states() const { return states_; }
  void write_back() const {
    for (const Copy& copy : copies_)
      if (copy.changes) write_region(std::span<const std::byte>(copy.bytes), copy.home);
  }

 private:
  struct Copy {
    Region home;
    std::vector<std::byte> bytes;
    bool changes;
  };
  template <class T>
  T* part_of(const at::Tensor& buffer, bool changes) {
    const Region whole = region_of(buffer);
    const Region part = lockstep::part_of(whole, static_cast<std::size_t>(begin_) * sizeof(T),
                                          static_cast<std::size_t>(end_ - begin_) * sizeof(T));
    if (is_host_memory(part)) return reinterpret_cast<T*>(part.pointer);
    Copy& copy = copies_.emplace_back(Copy{part, std::vector<std::byte>(part.bytes), changes});
    read_region(part, copy.bytes);
    return reinterpret_cast<T*>(copy.bytes.data());
  }

  std::int64_t begin_, end_;
  std::deque<Copy> copies_;
  const M* gradient_ = nullptr;
  UpdatedWeights<M> weights_;
  std::array<M*, LOCKSTEP_MOST_STATES> states_{};
};

template <class M>
void update_part(const PluginEntry<lockstep_optimizer>& rule, const PartOnHost<M>& part,
                 const std::vector<Stretch<lockstep_update>>& stretches, M gradient_scale,
                 std::atomic<const char*>& failure) {
  std::vector<Stretch<lockstep_update>> own;  // from the start of the part
  for (const Stretch<lockstep_update>& stretch : stretches) {
    const std::int64_t from = std::max(part.begin(), stretch.begin), to = std::min(part.end(), stretch.end);
    if (from < to) own.push_back({from - part.begin(), to - part.begin(), stretch.factors});
  }
  const auto update = update_of<M>(*rule.table);
  const WeightsInWork<M> weights(part.weights());
  for_each_stretch(
      own, part.end() - part.begin(), [&](std::int64_t from, std::int64_t to, const lockstep_update& facts) {
        weights(from, to, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16*) {
          constexpr std::int64_t at_once = 2048;
          std::array<M, at_once> scaled;  // NOLINT: written before it is read
          for (std::int64_t at = begin; at < end; at += at_once) {
            const std::int64_t count = std::min(at_once, end - at);
            for (std::int64_t i = 0; i < count; ++i)
              scaled[static_cast<std::size_t>(i)] = part.gradient()[at + i] * gradient_scale;
            std::array<M*, LOCKSTEP_MOST_STATES> here{};
            for (std::size_t i = 0; i < here.size(); ++i)
              if (part.states().at(i) != nullptr) here.at(i) = part.states().at(i) + at;
            const char* const told =
                update(rule.plugin->values(), &facts, count, scaled.data(), weight + (at - begin), here.data());
            if (told != nullptr) failure = told;
          }
        });
      });
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
    const auto stretches = stretches_of(unit, settings_, [&](const ParameterSettings& settings) {
      return lockstep_update{.step = step, .lr = lr * settings.lr_scale, .weight_decay = settings.weight_decay};
    });
    const bool on_host = unit.master().device().is_cpu();
    const std::int64_t at_once = on_host ? unit.length() : elements_at_once;
    for (std::int64_t begin = 0; begin < unit.length(); begin += at_once) {
      PartOnHost<M> part(unit, begin, std::min(begin + at_once, unit.length()), rule_buffers(unit));
      update_part(rule_, part, stretches, static_cast<M>(gradient_scale), failure);
      part.write_back();
    }
  });
  if (const char* const told = failure)
    fail(ExitCode::usage, "the optimizer {} of {}: {}", rule_.table->name, rule_.plugin->file(), told);
  unit.update_compute_copy();
}

}  // namespace lockstep
