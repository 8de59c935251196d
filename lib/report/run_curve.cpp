#include "report/run_curve.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// The record of a line, or null: a line that is damaged costs its own point of the curve, no more.
Json record_of(const std::string& line) {
  try {
    return parse_json(line, "record");
  } catch (const Error&) {
    return {};
  }
}

/// A point behind those that a resumed run has gone back from.
void add_point(std::vector<Series>& series, const std::string& name, Series::Point point) {
  const auto known = std::ranges::find(series, name, &Series::name);
  Series& target = known == series.end() ? series.emplace_back(Series{name, {}}) : *known;
  while (!target.points.empty() && target.points.back().x >= point.x) target.points.pop_back();
  target.points.push_back(point);
}

}  // namespace

std::vector<Series> loss_series(const Path& run) {
  const Path path = run / "records.jsonl";
  std::vector<Series> series;
  const std::vector<std::string> lines = split(read_file(path), '\n');
  // The last one lacks its newline: a record that a killed run could not finish.
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const Json record = record_of(lines[i]);
    const auto member = [&](const char* key) { return record.is_object() ? record.value(key, Json()) : Json(); };
    const Json kind = member("kind");
    const Json step = member("step");
    const Json loss = member("loss");
    if (!step.is_number() || !loss.is_number()) continue;
    if (kind == "step") add_point(series, "training", {step.get<double>(), loss.get<double>()});
    const Json set = member("name");
    if (kind == "eval")
      add_point(series, set.is_string() ? set.get<std::string>() : "validation",
                {step.get<double>(), loss.get<double>()});
  }
  return series;
}

CurveLabels loss_labels() { return {.title = "loss", .x = "step", .y = "nats per token"}; }

}  // namespace lockstep
