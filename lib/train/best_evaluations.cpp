#include "train/best_evaluations.hpp"

#include "base/json.hpp"
#include "base/json_integer.hpp"

#include <algorithm>

namespace lockstep {

void rank_evaluation(BestEvaluations& best, const BestEvaluation& evaluation) {
  constexpr std::size_t most = 10;
  std::erase_if(best, [&](const BestEvaluation& one) { return one.step == evaluation.step; });
  best.insert(std::ranges::upper_bound(best, evaluation.loss, {}, &BestEvaluation::loss), evaluation);
  if (best.size() > most) best.pop_back();
}

std::string document_of(const BestEvaluations& best) {
  Json list = Json::array();
  for (const BestEvaluation& one : best) list.push_back({{"step", one.step}, {"loss", one.loss}});
  return to_text(list);
}

BestEvaluations best_evaluations_of(const Manifest& manifest) {
  BestEvaluations best;
  for (const auto& [name, text] : manifest.documents) {
    if (name != best_evaluations_document) continue;
    const Json list = parse_json(text, name);
    const bool well =
        list.is_array() && std::ranges::all_of(list, [](const Json& one) {
          return one.is_object() && one.contains("step") && one.contains("loss") && one.at("loss").is_number();
        });
    if (!well) fail(ExitCode::input, "the document {} is no list of steps and losses", name);
    for (const Json& one : list)
      best.push_back({integer_from<std::int64_t>(one.at("step"), "step"), one.at("loss").get<double>()});
  }
  return best;
}

}  // namespace lockstep
