#include "data/mixture.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

/// The weights as whole numbers without a common factor, if they are decimal fractions of few digits.
std::optional<Proportions> exact_proportions(std::span<const double> weights) {
  constexpr double most_digits = 1e15;  // a product beyond it is no exact integer
  for (double scale = 1; scale <= 1e12; scale *= 10) {
    Proportions proportions;
    for (const double weight : weights) {
      const double scaled = std::round(weight * scale);
      if (scaled > most_digits || scaled / scale != weight) break;
      proportions.parts.push_back(static_cast<std::int64_t>(scaled));
    }
    if (proportions.parts.size() != weights.size()) continue;
    std::int64_t common = 0;
    for (const std::int64_t part : proportions.parts) common = std::gcd(common, part);
    for (std::int64_t& part : proportions.parts) {
      part /= common;
      if (part > Proportions::most) return std::nullopt;
      proportions.whole += part;
    }
    if (proportions.whole > Proportions::most) return std::nullopt;
    return proportions;
  }
  return std::nullopt;
}

/// Of as many parts as there may be: each share rounded down, and what is left to those that lost most.
Proportions nearest_proportions(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Proportions proportions{.parts = {}, .whole = Proportions::most};
  std::vector<std::pair<double, std::size_t>> lost;
  std::int64_t left = proportions.whole;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / sum * static_cast<double>(proportions.whole);
    const auto part = static_cast<std::int64_t>(share);
    proportions.parts.push_back(part);
    lost.emplace_back(static_cast<double>(part) - share, i);
    left -= part;
  }
  std::ranges::sort(lost);
  for (std::size_t i = 0; left > 0; ++i, --left) ++proportions.parts[lost[i % lost.size()].second];
  const std::int64_t common =
      std::accumulate(proportions.parts.begin(), proportions.parts.end(), proportions.whole,
                      [](std::int64_t factor, std::int64_t part) { return std::gcd(factor, part); });
  for (std::int64_t& part : proportions.parts) part /= common;
  proportions.whole /= common;
  return proportions;
}

}  // namespace

Proportions resolve_weights(std::span<const double> weights, std::span<const std::string> names) {
  invariant(weights.size() == names.size() && !weights.empty(), "each dataset needs one weight");
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!(weights[i] > 0) || !std::isfinite(weights[i]))
      throw Error(ExitCode::usage,
                  fmt::format("the weight of the dataset {} is {}: it must be above 0", names[i], weights[i]),
                  "leave out a dataset that is not to be sampled");
  if (const auto exact = exact_proportions(weights)) return *exact;
  Proportions proportions = nearest_proportions(weights);
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (proportions.parts[i] == 0)
      throw Error(ExitCode::usage,
                  fmt::format("the weight of the dataset {}, {}, rounds to 0: shares are rounded to multiples of 1/{}",
                              names[i], weights[i], Proportions::most),
                  "give it a larger weight, or leave the dataset out");
  return proportions;
}

std::int64_t MixtureSchedule::Node::of_first(std::int64_t samples) const {
  const std::int64_t periods = samples / parts, rest = samples % parts;
  return periods * first_parts + (2 * rest * first_parts + parts) / (2 * parts);
}

MixtureSchedule::MixtureSchedule(const Proportions& proportions) : leaves_(proportions.parts.size()) {
  invariant(
      !proportions.parts.empty() && std::ranges::min(proportions.parts) > 0 && proportions.whole <= Proportions::most &&
          std::accumulate(proportions.parts.begin(), proportions.parts.end(), std::int64_t{0}) == proportions.whole,
      "the parts of proportions must be above 0 and add up to the whole");
  std::vector<std::size_t> datasets(proportions.parts.size());
  std::iota(datasets.begin(), datasets.end(), std::size_t{0});
  std::ranges::stable_sort(datasets, std::greater{}, [&](std::size_t dataset) { return proportions.parts[dataset]; });
  make_node(std::move(datasets), proportions, leaf);
}

// `datasets` come the heaviest first. Each goes to the side that is lighter so far: where none is heavier than all
// others together, neither side then has more than two thirds.
std::size_t MixtureSchedule::make_node(std::vector<std::size_t> datasets, const Proportions& proportions,
                                       std::size_t above) {
  const std::size_t node = nodes_.size();
  nodes_.push_back({.above = above});
  std::vector<std::size_t> first, second;
  std::int64_t first_parts = 0, second_parts = 0;
  for (const std::size_t dataset : datasets) {
    const bool to_first = first_parts <= second_parts;
    (to_first ? first : second).push_back(dataset);
    (to_first ? first_parts : second_parts) += proportions.parts[dataset];
  }
  nodes_[node].first_parts = first_parts;
  nodes_[node].parts = first_parts + second_parts;
  if (datasets.size() == 1) {
    nodes_[node].dataset = datasets.front();
    leaves_[datasets.front()] = node;
    return node;
  }
  const std::size_t first_node = make_node(std::move(first), proportions, node);
  nodes_[node].first = first_node;
  const std::size_t second_node = make_node(std::move(second), proportions, node);
  nodes_[node].second = second_node;
  return node;
}

MixtureSchedule::Slot MixtureSchedule::at(std::int64_t sample) const {
  std::size_t at = 0;
  while (nodes_[at].first != leaf) {
    const Node& node = nodes_[at];
    const std::int64_t before = node.of_first(sample);
    const bool is_first = node.of_first(sample + 1) > before;
    sample = is_first ? before : sample - before;
    at = is_first ? node.first : node.second;
  }
  return {nodes_[at].dataset, sample};
}

std::int64_t MixtureSchedule::taken(std::size_t dataset, std::int64_t samples) const {
  std::vector<std::size_t> path;  // from the root down
  for (std::size_t at = leaves_[dataset]; at != leaf; at = nodes_[at].above) path.push_back(at);
  for (std::size_t depth = path.size() - 1; depth > 0; --depth) {
    const Node& node = nodes_[path[depth]];
    const std::int64_t of_first = node.of_first(samples);
    samples = path[depth - 1] == node.first ? of_first : samples - of_first;
  }
  return samples;
}

}  // namespace lockstep
