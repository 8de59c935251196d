// A small byte-level BPE with random merges, written as tokenizer.json, and its ids by the definition: scan for the
// pair of lowest rank, join its leftmost occurrence, repeat.
#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "tokenizer/byte_level.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

struct MadeBpe {
  std::vector<std::string> tokens;                                       // bytes, by id
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> joined;  // in order of rank: the id grows with the rank

  /// `merges` merges over `alphabet`, so that texts over it join much.
  MadeBpe(const std::string& alphabet, int merges, unsigned seed) {
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    std::set<std::string> known(tokens.begin(), tokens.end());
    std::vector<std::int32_t> usable;
    for (const char c : alphabet) usable.push_back(static_cast<std::uint8_t>(c));
    std::mt19937 random(seed);
    while (static_cast<int>(joined.size()) < merges) {
      const auto left = usable[random() % usable.size()];
      const auto right = usable[random() % usable.size()];
      const std::string token = tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)];
      if (token.size() > 12 || !known.insert(token).second) continue;
      joined[{left, right}] = static_cast<std::int32_t>(tokens.size());
      usable.push_back(static_cast<std::int32_t>(tokens.size()));
      tokens.push_back(token);
    }
  }

  std::vector<std::int32_t> ids_of_piece(const std::string& piece) const {
    std::vector<std::int32_t> ids;
    for (const char c : piece) ids.push_back(static_cast<std::uint8_t>(c));
    while (true) {
      std::size_t best = ids.size();
      std::int32_t id = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = joined.find({ids[i], ids[i + 1]});
        if (found != joined.end() && (best == ids.size() || found->second < id)) {
          best = i;
          id = found->second;
        }
      }
      if (best == ids.size()) return ids;
      ids[best] = id;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }

  Json tokenizer_json(bool use_regex) const {
    Json vocabulary = Json::object();
    for (std::size_t id = 0; id < tokens.size(); ++id) vocabulary[to_byte_level(tokens[id])] = id;
    std::vector<std::pair<std::int32_t, Json>> ranked;
    for (const auto& [pair, id] : joined) {
      ranked.emplace_back(id, Json{to_byte_level(tokens[static_cast<std::size_t>(pair.first)]),
                                   to_byte_level(tokens[static_cast<std::size_t>(pair.second)])});
    }
    std::ranges::sort(ranked, {}, [](const auto& entry) { return entry.first; });
    Json merges = Json::array();
    for (const auto& [rank, merge] : ranked) merges.push_back(merge);
    return {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}}},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
  }
};

}  // namespace lockstep::test
