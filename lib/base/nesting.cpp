#include "base/nesting.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

void refuse_deep_nesting(std::string_view text, const std::string& origin) {
  constexpr int deepest = 64;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth <= deepest) continue;
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n');
      fail(ExitCode::input, "{}: line {}: values nest deeper than {} levels", origin, line, deepest);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace lockstep
