#include "report/run_curve.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

#include <map>

namespace lockstep {

std::vector<Series> loss_series(const Path& run) {
  const Path path = run / "records.jsonl";
  std::map<std::string, std::map<double, double>> losses;
  const std::vector<std::string> lines = split(read_file(path), '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool last = i + 1 == lines.size();   // without its newline: a record that a killed run could not finish
    if (lines[i].empty() || last) continue;
    const Json record = parse_json(lines[i], fmt::format("{}:{}", path.string(), i + 1));
    const std::string kind = record.value("kind", "");
    if ((kind != "step" && kind != "eval") || !record.contains("loss") || !record["loss"].is_number()) continue;
    losses[kind][record.at("step").get<double>()] = record["loss"].get<double>();
  }
  std::vector<Series> series;
  for (const auto& [kind, name] : {std::pair("step", "training"), std::pair("eval", "validation")}) {
    if (!losses.contains(kind)) continue;
    Series one{.name = name, .points = {}};
    for (const auto& [step, loss] : losses[kind]) one.points.push_back({step, loss});
    series.push_back(std::move(one));
  }
  return series;
}

CurveLabels loss_labels() { return {.title = "loss", .x = "step", .y = "nats a token"}; }

}  // namespace lockstep
