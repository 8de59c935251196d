#include "config/option.hpp"

#include <algorithm>

namespace lockstep {

const Option* Declaration::find(std::string_view path) const {
  const auto found = std::ranges::find_if(options_, [&](const Option& option) { return option.path == path; });
  return found == options_.end() ? nullptr : &*found;
}

}  // namespace lockstep
