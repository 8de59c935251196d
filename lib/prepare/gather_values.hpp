// Gathers values of all ranks on all ranks: trivially copyable values, lists of them, and texts.
#pragma once

#include "base/json.hpp"
#include "comm/communicator.hpp"

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

/// Returns the value of each rank, in rank order. Collective.
template <class Value>
std::vector<Value> gather_values(Communicator& ranks, const Value& own) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> values;
  for (const std::string& part : ranks.all_gather(std::string(reinterpret_cast<const char*>(&own), sizeof own)))
    std::memcpy(&values.emplace_back(), part.data(), sizeof own);
  return values;
}

/// Returns the lists of all ranks, concatenated in rank order. Collective.
template <class Value>
std::vector<Value> gather_lists(Communicator& ranks, const std::vector<Value>& own) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> all;
  for (const std::string& part :
       ranks.all_gather(std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Value)))) {
    const std::size_t before = all.size();
    all.resize(before + part.size() / sizeof(Value));
    if (!part.empty()) std::memcpy(&all[before], part.data(), part.size());
  }
  return all;
}

/// Returns the texts of all ranks, concatenated in rank order. Collective.
inline std::vector<std::string> gather_texts(Communicator& ranks, const std::vector<std::string>& own) {
  std::vector<std::string> texts;
  for (const std::string& part : ranks.all_gather(to_text(Json(own)))) {
    for (const Json& text : parse_json(part, "texts")) texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace lockstep
