#include "exchange/remarks.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 20;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(most, names.size()));
  return join({names.begin(), names.begin() + shown}, ", ") +
         (names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

}  // namespace lockstep
