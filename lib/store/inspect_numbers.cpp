// The numbers of a checkpoint: those that are not finite, and how the values of a tensor spread.
#include "base/words.hpp"
#include "report/table.hpp"
#include "store/element_values.hpp"
#include "store/inspect.hpp"
#include "store/inspected.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep {

namespace {

// Row by row: the place of an element of a tensor by its number.
Shape place_of(std::int64_t number, const Shape& shape) {
  Shape place(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0; number /= shape[d]) place[d] = number % shape[d];
  return place;
}

}  // namespace

InspectAnswer find_nonfinite(const CheckpointReader& checkpoint) {
  InspectAnswer answer{ExitCode::done, "", {{"path", checkpoint.path().string()}, {"tensors", Json::array()}}};
  Table table({{"tensor"}, {"nan", Table::Align::right}, {"infinite", Table::Align::right}, {"first at"}});
  const std::vector<StoredTensor>& tensors = checkpoint.manifest().tensors;
  std::int64_t looked_at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout& layout = tensors[i].layout;
    if (is_values(tensors[i]) || !is_floating(layout.dtype)) continue;
    ++looked_at;
    std::int64_t number = 0, first = -1, nan = 0, infinite = 0;
    for_each_element(checkpoint, i, [&](std::span<const std::byte> bytes) {
      const double value = value_of(layout.dtype, bytes);
      if (!std::isfinite(value)) {
        if (first < 0) first = number;
        ++(std::isnan(value) ? nan : infinite);
      }
      ++number;
    });
    if (first < 0) continue;
    const Shape place = place_of(first, layout.global);
    table.add({full_name(tensors[i]), fmt::format("{}", nan), fmt::format("{}", infinite), to_text(place)});
    answer.json["tensors"].push_back(
        {{"name", full_name(tensors[i])}, {"nan", nan}, {"inf", infinite}, {"first", place}});
    answer.code = ExitCode::verdict;
  }
  answer.json["looked_at"] = looked_at;
  answer.text = answer.code == ExitCode::done
                    ? fmt::format("all elements of {} are finite\n", counted(looked_at, "tensor"))
                    : table.text();
  return answer;
}

InspectAnswer show_histogram(const CheckpointReader& checkpoint, const std::string& name) {
  constexpr std::size_t bins = 20, width = 50;
  const std::size_t number = find_number(checkpoint, name);
  const StoredTensor& tensor = checkpoint.manifest().tensors[number];
  Statistics statistics;
  for_each_element(checkpoint, number,
                   [&](std::span<const std::byte> bytes) { statistics.add(value_of(tensor.layout.dtype, bytes)); });
  const double least = statistics.min();
  const double step = (statistics.max() - least) / bins;
  std::array<std::int64_t, bins> counts{};
  for_each_element(checkpoint, number, [&](std::span<const std::byte> bytes) {
    const double value = value_of(tensor.layout.dtype, bytes);
    if (!std::isfinite(value)) return;
    const double bin = step > 0 ? (value - least) / step : 0;
    ++counts[std::min(static_cast<std::size_t>(std::max(bin, 0.0)), bins - 1)];  // the greatest lies in the last
  });
  const std::int64_t most = *std::ranges::max_element(counts);
  Table table({{"from", Table::Align::right}, {"elements", Table::Align::right}, {""}});
  Json edges = Json::array();
  for (std::size_t i = 0; i < bins; ++i) {
    const double edge = least + step * static_cast<double>(i);
    const auto bar =
        most == 0
            ? 0
            : static_cast<std::size_t>(std::lround(width * static_cast<double>(counts[i]) / static_cast<double>(most)));
    edges.push_back(edge);
    table.add({fmt::format("{:.4g}", edge), fmt::format("{}", counts[i]), std::string(bar, '#')});
  }
  edges.push_back(statistics.max());
  std::string text =
      fmt::format("{}  {} {}, {} to {}\n{}", full_name(tensor), name_of(tensor.layout.dtype),
                  to_text(known_shape(tensor.layout)), number_text(least), number_text(statistics.max()), table.text());
  if (const std::int64_t others = statistics.nan() + statistics.infinite(); others > 0)
    text += fmt::format("besides {} that are not finite\n", counted(others, "element"));
  return {ExitCode::done,
          std::move(text),
          {{"name", full_name(tensor)},
           {"edges", std::move(edges)},
           {"counts", counts},
           {"nan", statistics.nan()},
           {"inf", statistics.infinite()}}};
}

}  // namespace lockstep
