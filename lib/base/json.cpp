#include "base/json.hpp"

#include "base/error.hpp"
#include "base/nesting.hpp"

#include <algorithm>

namespace lockstep {

Json parse_json(std::string_view text, const std::string& origin) {
  refuse_deep_nesting(text, origin);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view before = text.substr(0, std::min(error.byte > 0 ? error.byte - 1 : 0, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t last = before.rfind('\n');
    const std::size_t column = before.size() - (last == std::string_view::npos ? 0 : last + 1) + 1;
    fail(ExitCode::input, "{}: line {}, column {}: not valid JSON", origin, line, column);
  } catch (const nlohmann::json::out_of_range&) {
    fail(ExitCode::input, "{}: a number is too large", origin);
  }
}

std::string to_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep
