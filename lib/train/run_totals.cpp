#include "train/run_totals.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"

#include <algorithm>
#include <limits>

namespace lockstep {

namespace {

/// Numbers that are not finite are null in JSON.
double number_from(const Json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number())
    fail(ExitCode::input, "the document {} has {} for a number", run_totals_document, to_text(value));
  return value.get<double>();
}

RunTotals parse_totals(const Json& json) {
  const Json& timed = json.at("timed");
  const Json& peak = timed.at("peak_flops");
  return {.wall_s = number_from(json.at("wall_s")),
          .samples = integer_from<std::int64_t>(json.at("samples"), "samples"),
          .losses = integer_from<std::int64_t>(json.at("losses"), "losses"),
          .loss_sum = number_from(json.at("loss_sum")),
          .timed = {.steps = integer_from<std::int64_t>(timed.at("steps"), "steps"),
                    .samples = integer_from<std::int64_t>(timed.at("samples"), "samples"),
                    .tokens = integer_from<std::int64_t>(timed.at("tokens"), "tokens"),
                    .seconds = number_from(timed.at("seconds")),
                    .peak_flops = peak.is_null() ? std::nullopt : std::optional(number_from(peak))}};
}

}  // namespace

RunTotals operator+(const RunTotals& a, const RunTotals& b) {
  return {.wall_s = a.wall_s + b.wall_s,
          .samples = a.samples + b.samples,
          .losses = a.losses + b.losses,
          .loss_sum = a.loss_sum + b.loss_sum,
          .timed = a.timed + b.timed};
}

std::string document_of(const RunTotals& totals) {
  const TimedSteps& timed = totals.timed;
  return to_text(Json{{"wall_s", totals.wall_s},
                      {"samples", totals.samples},
                      {"losses", totals.losses},
                      {"loss_sum", totals.loss_sum},
                      {"timed",
                       {{"steps", timed.steps},
                        {"samples", timed.samples},
                        {"tokens", timed.tokens},
                        {"seconds", timed.seconds},
                        {"peak_flops", timed.peak_flops ? Json(*timed.peak_flops) : Json(nullptr)}}}});
}

std::optional<RunTotals> run_totals_of(const Manifest& manifest) {
  const auto found =
      std::ranges::find(manifest.documents, run_totals_document, &std::pair<std::string, std::string>::first);
  if (found == manifest.documents.end()) return std::nullopt;
  try {
    return parse_totals(parse_json(found->second, run_totals_document));
  } catch (const Json::exception& error) {
    fail(ExitCode::input, "the document {} is malformed: {}", run_totals_document, error.what());
  }
}

}  // namespace lockstep
