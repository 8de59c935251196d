#include "engine/anomaly.hpp"

#include "architecture/units.hpp"
#include "base/error.hpp"
#include "base/json.hpp"

#include <ATen/ops/isfinite.h>

#include <cmath>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

/// A sum is finite if its terms are, but for sums beyond the type: one pass, where to look at each takes several.
bool is_finite(const at::Tensor& tensor) {
  return tensor.numel() == 0 || std::isfinite(tensor.sum().item<double>()) || at::isfinite(tensor).all().item<bool>();
}

std::string_view name_of(Anomaly::Pass pass) {
  switch (pass) {
    case Anomaly::Pass::forward: return "forward";
    case Anomaly::Pass::backward:
    case Anomaly::Pass::gradient: return "backward";
  }
  fail(ExitCode::bug, "unknown Anomaly::Pass {}", static_cast<int>(pass));
}

}  // namespace

void AnomalySearch::find(Anomaly::Pass pass, int micro_batch, int order, std::string what) {
  if (!found_) found_ = Anomaly{.pass = pass, .micro_batch = micro_batch, .order = order, .what = std::move(what)};
}

void AnomalySearch::look_at_forward(const Block& block, int index, int micro_batch, const at::Tensor& output) {
  if (found_ || is_finite(output)) return;
  for (const LogicalTensor& tensor : block.description().tensors) {
    const at::Tensor& weight = model_.parameter(tensor.name).compute();
    if (weight.defined() && !is_finite(weight))
      return find(Anomaly::Pass::forward, micro_batch, index, "the weight " + tensor.name);
  }
  find(Anomaly::Pass::forward, micro_batch, index, "the output of " + block_name(block.description()));
}

void AnomalySearch::look_at_backward(const Block& block, int index, int micro_batch, const at::Tensor& gradient) {
  if (found_ || !gradient.defined() || is_finite(gradient)) return;
  find(Anomaly::Pass::backward, micro_batch, -index, "the gradient of the input of " + block_name(block.description()));
}

void AnomalySearch::look_at_gradient(const Unit& unit, int micro_batch) {
  if (found_ || !unit.local_gradient().defined()) return;
  for (const auto& parameter : unit.parameters())
    if (parameter->local_gradient().defined() && !is_finite(parameter->local_gradient()))
      return find(Anomaly::Pass::gradient, micro_batch, 0, "the gradient of " + parameter->name());
}

std::string first_of(const std::optional<Anomaly>& found, Communicator& world) {
  Json mine;
  if (found) mine = {static_cast<int>(found->pass), found->micro_batch, found->order, found->what};
  std::optional<std::tuple<int, int, int, int>> first;  // and the rank
  std::string what;
  int rank = 0;
  for (const std::string& told : world.all_gather(to_text(mine))) {
    const Json anomaly = parse_json(told, "anomaly of a rank");
    if (!anomaly.is_null()) {
      const std::tuple key(anomaly[0].get<int>(), anomaly[1].get<int>(), anomaly[2].get<int>(), rank);
      if (!first || key < *first) {
        first = key;
        what = anomaly[3].get<std::string>();
      }
    }
    ++rank;
  }
  if (!first) return "";
  const auto [pass, micro_batch, order, owner] = *first;
  return fmt::format("{} in {} of micro-batch {} on rank {}", what, name_of(static_cast<Anomaly::Pass>(pass)),
                     micro_batch, owner);
}

}  // namespace lockstep
