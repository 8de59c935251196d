// How datasets share the samples of a run: their weights as integers, and whose turn each sample is. Pure arithmetic,
// the same whatever came before, so that it is known of any sample at once. Which sample of a dataset that is:
// data/sample_order.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Weights as they are used: dataset i has parts[i] of `whole` samples.
struct Proportions {
  static constexpr std::int64_t most = 1 << 24;  // of `whole`
  std::vector<std::int64_t> parts;               // above 0
  std::int64_t whole = 0;                        // their sum
  bool operator==(const Proportions&) const = default;
};

/// The proportions of such weights: exact ones where the weights are decimal fractions whose smallest common
/// denominator allows it, otherwise the nearest of Proportions::most parts. `names` say of which datasets they are.
/// Throws Error(usage) for a weight that is not above 0, or of which nothing would be left. Pure.
Proportions resolve_weights(std::span<const double> weights, std::span<const std::string> names);

/// Deals samples out to datasets: of the first n samples, for every n, each dataset has its share to within two.
///
/// The datasets are the leaves of a tree. A node deals its samples to its two sides, each share rounded, so that it
/// adds half a sample to what the node itself is off by. Of a node without a dataset heavier than all others together,
/// no side has more than two thirds: what it passes on of its own error is no more than that, and the errors that meet
/// at a leaf stay below two.
class Turns {
 public:
  explicit Turns(const Proportions& proportions);
  struct Turn {
    std::size_t dataset = 0;
    std::int64_t number = 0;  // samples that the dataset had before
  };
  Turn at(std::int64_t sample) const;
  /// How many of the first so many samples are of the dataset.
  std::int64_t taken(std::size_t dataset, std::int64_t samples) const;

 private:
  static constexpr std::size_t leaf = static_cast<std::size_t>(-1);
  struct Node {
    std::int64_t first_parts = 0, parts = 0;            // of its first side, of all of it
    std::size_t first = leaf, second = leaf;            // nodes; of a leaf both are none
    std::size_t dataset = 0, above = leaf;              // of a leaf; of all but the root
    std::int64_t of_first(std::int64_t samples) const;  // of its first so many samples
  };
  std::size_t make_node(std::vector<std::size_t> datasets, const Proportions& proportions, std::size_t above);
  std::vector<Node> nodes_;          // the root first
  std::vector<std::size_t> leaves_;  // by dataset
};

}  // namespace lockstep
