// Maps texts to numbers and finds the texts that are prefixes of a given text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

class ByteTrie {
 public:
  static constexpr std::int32_t none = -1;

  /// Inserts `text`, or replaces its number. Numbers are not negative.
  void insert(std::string_view text, std::int32_t number);

  /// Calls `found` with the length and number of each inserted text that `text` begins with, the shortest first.
  template <class Found>
  void for_each_head(std::string_view text, const Found& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<std::uint8_t>(text[i]));
      if (node == 0) return;
      if (numbers_[node] != none) found(i + 1, numbers_[node]);
    }
  }

  struct Match {
    std::size_t size = 0;
    std::int32_t number = none;
  };
  /// The longest inserted text that `text` begins with; its number is `none` if there is none.
  Match longest(std::string_view text) const {
    Match match;
    for_each_head(text, [&](std::size_t size, std::int32_t number) { match = {size, number}; });
    return match;
  }

 private:
  // Edges are kept in a flat hash table: the node and byte they leave by, and where they lead. Node 0 is the root.
  struct Edge {
    std::uint64_t from = ~std::uint64_t{0};
    std::uint32_t to = 0;
  };
  std::size_t place_of(std::uint64_t from) const {
    std::size_t place = from * 0x9E3779B97F4A7C15u >> shift_;
    while (edges_[place].from != from && edges_[place].to != 0) place = (place + 1) & (edges_.size() - 1);
    return place;
  }
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const {
    return edges_[place_of(std::uint64_t{node} << 8 | byte)].to;
  }
  void grow();

  std::vector<Edge> edges_ = std::vector<Edge>(64);
  int shift_ = 64 - 6;
  std::vector<std::int32_t> numbers_ = {none};  // by node
};

}  // namespace lockstep
