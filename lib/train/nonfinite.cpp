#include "train/nonfinite.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "tensor/arena.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <cmath>
#include <vector>

namespace lockstep {

namespace {

std::string text_of(const SkippedStep& skipped) {
  return fmt::format("loss {} or gradient norm {} is not finite{}; {}", skipped.loss, skipped.gradient_norm,
                     skipped.first.empty() ? "" : ", first " + skipped.first,
                     skipped.in_backward ? "weights were updated in backward" : "no weight was changed");
}

/// A sum is finite if its terms are, but for sums beyond the type: one pass, where to look at each takes several. One
/// read for all tensors.
std::vector<double> sums_of(const std::vector<Parameter*>& parameters) {
  const at::Tensor sums = at::empty({std::ssize(parameters)}, device_options(at::kDouble));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    sums.select(0, static_cast<std::int64_t>(i)).copy_(parameters[i]->master().sum());
  return values_on_host(sums);
}

}  // namespace

bool overflows(const TrainConfig& config, const StepOutcome& outcome) {
  return scales_loss(config) && !outcome.updated && std::isfinite(outcome.loss);
}

EventRecord event_of(const ScaledStep& step) {
  const std::string what = step.outcome.updated
                               ? fmt::format("the loss scale rises from {} to {}", step.scale, step.next_scale)
                               : fmt::format(
                                     "gradients are not finite at loss scale {}: no weight was changed, and the "
                                     "scale falls to {}",
                                     step.scale, step.next_scale);
  return {.step = step.step,
          .name = "loss_scale",
          .message = what,
          .loss = step.outcome.loss,
          .grad_norm = step.outcome.gradient_norm,
          .loss_scale = step.next_scale};
}

void refuse_to_scale(const ScaledStep& step, double least) {
  throw AgreedError(
      Error(ExitCode::numerics,
            fmt::format("step {}: gradients overflow in fp16 at any loss scale: it falls from {} to {}, below "
                        "precision.min_scale {}",
                        step.step, step.scale, step.next_scale, least),
            "lower optimizer.lr, set optimizer.clip_norm, or train with --precision.dtype bf16, which needs no scale"),
      0);
}

EventRecord event_of(const SkippedStep& skipped) {
  return {.step = skipped.step,
          .name = "nonfinite_step",
          .message = fmt::format("{} ({} in a row)", text_of(skipped), skipped.in_a_row),
          .loss = skipped.loss,
          .grad_norm = skipped.gradient_norm,
          .in_a_row = skipped.in_a_row};
}

void require_finite_weights(const Model& model, std::int64_t step, Communicator& world) {
  together(world, fmt::format("the weights after step {}", step), [&] {
    const std::vector<double> sums = sums_of(model.parameters());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Parameter* const parameter = model.parameters()[i];
      if (std::isfinite(sums[i]) || at::isfinite(parameter->master()).all().item<bool>()) continue;
      throw Error(ExitCode::numerics, fmt::format("{} holds a value that is not finite", parameter->name()),
                  "start from other weights, or resume from an earlier checkpoint");
    }
  });
}

void refuse_to_go_on(const SkippedStep& skipped, OnNonfinite policy, const Model& model, Communicator& world) {
  const bool too_many = skipped.in_a_row >= skipped_steps_to_end;
  if (policy == OnNonfinite::stop || too_many) {
    const std::string before =
        too_many ? fmt::format(", nor by the {} before", counted(skipped.in_a_row - 1, "step")) : "";
    throw AgreedError(Error(ExitCode::numerics, fmt::format("step {}: {}{}", skipped.step, text_of(skipped), before),
                            "lower optimizer.lr, set optimizer.clip_norm, or look at the data of this step"),
                      0);
  }
  require_finite_weights(model, skipped.step, world);
}

}  // namespace lockstep
