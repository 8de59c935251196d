// Mixtures of datasets: their weights as integers, and the dataset that each sample comes from. Pure arithmetic without
// state, so the dataset of any sample is known at once. The sample within its dataset: data/sample_order.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Proportions are the weights in use: dataset i contributes parts[i] of every `whole` samples.
struct Proportions {
  static constexpr std::int64_t most = 1 << 24;  // limit of `whole`
  std::vector<std::int64_t> parts;               // each above 0
  std::int64_t whole = 0;                        // their sum
  bool operator==(const Proportions&) const = default;
};

/// Returns the proportions of these weights. They are exact if the weights are decimal fractions whose smallest common
/// denominator allows it, otherwise rounded to fractions of Proportions::most. `names` are those of the datasets, for
/// messages. Throws Error(usage) for a weight that is not above 0 or that would be rounded to 0. Pure.
Proportions resolve_weights(std::span<const double> weights, std::span<const std::string> names);

/// Assigns samples to datasets: among the first n samples, for every n, each dataset has its share to within two.
///
/// The datasets are the leaves of a tree. A node distributes its samples to its two sides. Each share is rounded, which
/// adds at most half a sample to the node's own error. If no dataset of a node is heavier than all others together,
/// neither side has more than two thirds of the node. A side then inherits at most two thirds of the node's error, and
/// the sum of errors at a leaf stays below two.
class MixtureSchedule {
 public:
  explicit MixtureSchedule(const Proportions& proportions);
  struct Slot {
    std::size_t dataset = 0;
    std::int64_t number = 0;  // earlier samples of this dataset
  };
  Slot at(std::int64_t sample) const;
  /// Returns the number of samples of `dataset` among the first `samples`.
  std::int64_t taken(std::size_t dataset, std::int64_t samples) const;

 private:
  static constexpr std::size_t leaf = static_cast<std::size_t>(-1);
  struct Node {
    std::int64_t first_parts = 0, parts = 0;            // of its first side; of the node
    std::size_t first = leaf, second = leaf;            // nodes; `leaf` if the node is a leaf
    std::size_t dataset = 0, above = leaf;              // of a leaf; parent, `leaf` for the root
    std::int64_t of_first(std::int64_t samples) const;  // samples of the first side among these
  };
  std::size_t make_node(std::vector<std::size_t> datasets, const Proportions& proportions, std::size_t above);
  std::vector<Node> nodes_;          // the root first
  std::vector<std::size_t> leaves_;  // by dataset
};

}  // namespace lockstep
