#include "options/option.hpp"

#include <algorithm>

namespace lockstep {

const Option* Declaration::find(std::string_view path) const {
  const auto found = std::ranges::find_if(options_, [&](const Option& option) { return option.path == path; });
  return found == options_.end() ? nullptr : &*found;
}

std::string text_of(const OnResume& rule) {
  if (!rule.never.empty()) return "cannot change on resume: " + std::string(rule.never);
  if (!rule.is_fixed()) return {};
  std::string text = "fixed on resume";
  if (!rule.as.empty()) text += ", as " + std::string(rule.as);
  if (!rule.when.empty()) text += ", " + std::string(rule.when);
  return text;
}

void refuse_form(const std::string& text, const std::string& form) {
  fail(ExitCode::usage, "\"{}\" is not of the form {}", text, form);
}

}  // namespace lockstep
