#include "tokenizer/byte_trie.hpp"

#include <utility>

namespace lockstep {

void ByteTrie::insert(std::string_view text, std::int32_t number) {
  std::uint32_t node = 0;
  for (const char c : text) {
    const std::uint64_t from = std::uint64_t{node} << 8 | static_cast<std::uint8_t>(c);
    node = edges_[place_of(from)].to;
    if (node != 0) continue;
    if (2 * numbers_.size() > edges_.size()) grow();
    node = static_cast<std::uint32_t>(numbers_.size());
    edges_[place_of(from)] = {from, node};
    numbers_.push_back(none);
  }
  numbers_[node] = number;
}

void ByteTrie::grow() {
  const std::vector<Edge> before = std::exchange(edges_, std::vector<Edge>(2 * edges_.size()));
  --shift_;
  for (const Edge& edge : before) {
    if (edge.to != 0) edges_[place_of(edge.from)] = edge;
  }
}

}  // namespace lockstep
