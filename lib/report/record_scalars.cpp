#include "report/record_scalars.hpp"

#include "base/json.hpp"

#include <string>

namespace lockstep {

Json scalars_of(const Json& record) {
  const std::string kind = record.at("kind").get<std::string>();
  const Json set = record.value("name", Json());
  const std::string group = kind == "eval" && set.is_string() ? kind + "/" + set.get<std::string>() : kind;
  Json scalars = Json::object();
  for (const auto& [name, value] : record.items())
    if (name != "step" && value.is_number()) scalars[group + "/" + name] = value;
  return scalars;
}

}  // namespace lockstep
