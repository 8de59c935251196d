#include "train/evaluated_metrics.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

struct MetricFacts {
  BestMetric metric;
  const char* name;  // in manifests, behind the name of the set
  bool higher;       // values are better
  double EvalRecord::* value;
};

constexpr MetricFacts all_metrics[] = {{BestMetric::loss, "loss", false, &EvalRecord::loss},
                                       {BestMetric::perplexity, "perplexity", false, &EvalRecord::perplexity},
                                       {BestMetric::accuracy, "accuracy", true, &EvalRecord::accuracy}};

std::string name_of(const MetricFacts& facts, const std::string& set) { return fmt::format("{}_{}", set, facts.name); }

}  // namespace

BestBy best_by(const CheckpointOptions& options, const std::string& set) {
  const auto* const facts = std::ranges::find(all_metrics, options.best_metric, &MetricFacts::metric);
  switch (options.best_direction) {
    case BestDirection::automatic: return {name_of(*facts, set), facts->higher};
    case BestDirection::lower: return {name_of(*facts, set), false};
    case BestDirection::higher: return {name_of(*facts, set), true};
  }
  fail(ExitCode::bug, "unknown BestDirection {}", static_cast<int>(options.best_direction));
}

std::vector<Metric> metrics_of(const EvalRecord& evaluation, const CheckpointOptions& options, const std::string& set) {
  const BestBy by = best_by(options, set);
  std::vector<Metric> metrics;
  for (const MetricFacts& facts : all_metrics)
    if (const double value = evaluation.*facts.value; std::isfinite(value))
      metrics.push_back({name_of(facts, set), value, by.metric == name_of(facts, set) ? *by.higher : facts.higher});
  return metrics;
}

}  // namespace lockstep
