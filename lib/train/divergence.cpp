#include "train/divergence.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace lockstep {

namespace {

double mean_of_last(const std::vector<double>& losses, std::int64_t count) {
  return std::accumulate(losses.end() - count, losses.end(), 0.0) / static_cast<double>(count);
}

/// The two means that are compared; nothing before both are of as many losses as they should.
std::optional<std::pair<double, double>> means_of(const DivergenceOptions& options, const LossHistory& history) {
  if (options.detector == DivergenceDetector::averages) {
    if (!history.few || !history.many) return std::nullopt;
    return std::pair(*history.few, *history.many);
  }
  if (std::ssize(history.last) < options.many) return std::nullopt;
  return std::pair(mean_of_last(history.last, options.few), mean_of_last(history.last, options.many));
}

}  // namespace

void count_loss(const DivergenceOptions& options, const std::string& of, double loss, LossHistory& history) {
  if (!options.detector || !std::isfinite(loss)) return;
  const bool averages = options.detector == DivergenceDetector::averages;
  const std::string counted = fmt::format("{} of {}", averages ? "averages" : "windows", of);
  if (!history.of.empty() && history.of != counted) history = {};
  history.of = counted;
  if (!averages) {
    history.last.push_back(loss);
    if (std::ssize(history.last) > options.many)
      history.last.erase(history.last.begin(), history.last.end() - options.many);
    return;
  }
  const auto follow = [&](std::optional<double>& average, std::int64_t losses) {
    const double before = average.value_or(loss);
    average = before + (loss - before) / static_cast<double>(losses);
  };
  follow(history.few, options.few);
  follow(history.many, options.many);
}

std::optional<double> rise_of(const DivergenceOptions& options, const LossHistory& history) {
  if (!options.detector) return std::nullopt;
  const auto means = means_of(options, history);
  return means ? std::optional(means->first - means->second) : std::nullopt;
}

bool has_diverged(const DivergenceOptions& options, const LossHistory& history) {
  const std::optional<double> rise = rise_of(options, history);
  return rise && *rise >= options.threshold;
}

std::string divergence_text(const DivergenceOptions& options, const LossHistory& history) {
  const auto [few, many] = means_of(options, history).value();
  return fmt::format("the {} has diverged: its mean is {:.4f} over {}, but {:.4f} over {}, {:.4f} less",
                     options.of == DivergenceLoss::eval_loss ? "validation loss" : "loss", few, options.few, many,
                     options.many, few - many);
}

}  // namespace lockstep
