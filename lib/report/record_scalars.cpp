#include "report/record_scalars.hpp"

#include "base/json.hpp"

#include <initializer_list>
#include <string>

namespace lockstep {

namespace {

/// Of all tensors every number that may change, of each those that draw as a curve.
Json scalars_of_statistics(const Json& record) {
  const std::string of = record.at("of").get<std::string>();
  Json scalars = Json::object();
  const auto add = [&](const std::string& group, const Json& numbers, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (numbers.at(name).is_number()) scalars[group + "/" + name] = numbers.at(name);
  };
  add(of, record, {"norm", "mean", "std", "min", "max", "zeros", "nonfinite"});
  for (const auto& [name, numbers] : record.at("tensors").items())
    add(of + "/" + name, numbers, {"norm", "mean", "std", "min", "max"});
  return scalars;
}

}  // namespace

Json scalars_of(const Json& record) {
  const std::string kind = record.at("kind").get<std::string>();
  if (kind == "statistics") return scalars_of_statistics(record);
  const Json set = record.value("name", Json());
  std::string prefix = (kind == "step" ? "train" : kind) + "/";
  if (kind == "eval" && set.is_string()) prefix += set.get<std::string>() + "_";
  Json scalars = Json::object();
  for (const auto& [name, value] : record.items())
    if (name != "step" && value.is_number()) scalars[prefix + (name == "lr" ? "learning_rate" : name)] = value;
  return scalars;
}

}  // namespace lockstep
