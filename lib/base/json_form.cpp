#include "base/json_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace lockstep {

std::string form_problem(const nlohmann::json::exception& error) {
  constexpr int wrong_type = 302;
  constexpr int no_such_key = 403;
  const std::string_view said = error.what();
  if (error.id == no_such_key) {
    const std::size_t begin = std::min(said.find('\''), said.size());
    return fmt::format("the key {} is missing", said.substr(begin, said.rfind('\'') + 1 - begin));
  }
  constexpr std::string_view before = "type must be ";
  constexpr std::string_view between = ", but is ";
  const std::size_t must = said.find(before);
  const std::size_t is = said.find(between);
  if (error.id != wrong_type || must == std::string_view::npos || is == std::string_view::npos)
    return "a value has the wrong form";
  const std::size_t expected = must + before.size();
  return fmt::format("a value is {} where {} is expected", said.substr(is + between.size()),
                     said.substr(expected, is - expected));
}

}  // namespace lockstep
