#include "store/best_evaluations.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"

#include <algorithm>

namespace lockstep {

namespace {

double cost_of(const BestBy& by, double value) { return *by.higher ? -value : value; }

}  // namespace

std::string to_text(const BestBy& by) { return fmt::format("{} {}", *by.higher ? "highest" : "lowest", by.metric); }

void rank_evaluation(BestEvaluations& best, const BestEvaluation& evaluation) {
  constexpr std::size_t most = 10;
  const auto cost = [&](const BestEvaluation& one) { return cost_of(best.by, one.value); };
  std::vector<BestEvaluation>& ranked = best.ranked;
  std::erase_if(ranked, [&](const BestEvaluation& one) { return one.step == evaluation.step; });
  ranked.insert(std::ranges::upper_bound(ranked, cost(evaluation), {}, cost), evaluation);
  if (ranked.size() > most) ranked.pop_back();
}

bool is_better(const BestEvaluations& best, double value) {
  return best.ranked.empty() || cost_of(best.by, value) < cost_of(best.by, best.ranked.front().value);
}

std::string document_of(const BestEvaluations& best) {
  Json list = Json::array();
  for (const BestEvaluation& one : best.ranked) {
    list.push_back({{"step", one.step}, {"loss", one.loss}});
    if (best.by == BestEvaluations().by) continue;
    list.back().update(
        {{"metric", best.by.metric}, {"better", *best.by.higher ? "higher" : "lower"}, {"value", one.value}});
  }
  return to_text(list);
}

BestEvaluations best_evaluations_of(const Manifest& manifest) {
  BestEvaluations best;
  for (const auto& [name, text] : manifest.documents) {
    if (name != best_evaluations_document) continue;
    const Json list = parse_json(text, name);
    const bool well = list.is_array() && std::ranges::all_of(list, [](const Json& one) {
                        return one.is_object() && one.contains("step") && one.contains("loss") &&
                               one.at("loss").is_number() &&
                               (!one.contains("metric") || (one.at("metric").is_string() && one.contains("better") &&
                                                            one.contains("value") && one.at("value").is_number()));
                      });
    if (!well) fail(ExitCode::input, "the document {} is not a list of steps and losses", name);
    for (const Json& one : list) {
      const auto step = integer_from<std::int64_t>(one.at("step"), "step");
      const double loss = one.at("loss").get<double>();
      best.ranked.push_back({step, loss, one.contains("metric") ? one.at("value").get<double>() : loss});
      if (one.contains("metric")) best.by = {one.at("metric").get<std::string>(), one.at("better") == "higher"};
    }
  }
  return best;
}

BestBy metric_of_run(const Path& run) {
  for (const CheckpointEntry& entry : newest_first(list_checkpoints(run))) {
    try {
      if (const BestEvaluations best = best_evaluations_of(read_manifest(entry.path)); !best.ranked.empty())
        return best.by;
    } catch (const Error&) {
      continue;  // whether it is damaged is for its reader to say
    }
  }
  return BestEvaluations().by;
}

}  // namespace lockstep
