#include "comm/phase.hpp"

#include <array>
#include <utility>

namespace lockstep {

namespace {
constexpr std::array<std::pair<Phase, std::string_view>, 23> names = {{
    {Phase::start_up, "start-up"},
    {Phase::data, "data"},
    {Phase::gather, "gather"},
    {Phase::forward, "forward"},
    {Phase::backward, "backward"},
    {Phase::reduction, "reduction"},
    {Phase::norm, "norm"},
    {Phase::optimizer, "optimizer"},
    {Phase::average, "average"},
    {Phase::heartbeat, "heartbeat"},
    {Phase::callback, "callback"},
    {Phase::statistics, "statistics"},
    {Phase::evaluation, "evaluation"},
    {Phase::sample, "sample"},
    {Phase::save_plan, "save.plan"},
    {Phase::save_stage, "save.stage"},
    {Phase::save_write, "save.write"},
    {Phase::save_seal, "save.seal"},
    {Phase::save_commit, "save.commit"},
    {Phase::save_promote, "save.promote"},
    {Phase::load, "load"},
    {Phase::shutdown, "shutdown"},
    {Phase::lane, "lane"},
}};
}  // namespace

std::string_view name_of(Phase phase) {
  for (const auto& [value, name] : names) {
    if (value == phase) return name;
  }
  return "unknown";
}

std::optional<Phase> parse_phase(std::string_view name) {
  for (const auto& [value, known] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::string phase_names() {
  std::string text;
  for (const auto& [value, name] : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace lockstep
