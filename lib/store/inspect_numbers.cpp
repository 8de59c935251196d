// The numbers of a checkpoint: those that are not finite, how the values of a tensor spread, and how far two tensors
// are apart.
#include "base/statistics.hpp"
#include "base/words.hpp"
#include "report/histogram.hpp"
#include "report/table.hpp"
#include "store/element_values.hpp"
#include "store/inspect.hpp"
#include "store/inspected.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

Shape place_of_element(std::int64_t number, const Shape& shape) {
  Shape place(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0; number /= shape[d]) place[d] = number % shape[d];
  return place;
}

TensorDistance distance_of(const CheckpointReader& a, std::size_t in_a, const CheckpointReader& b, std::size_t in_b) {
  const DType dtype = a.manifest().tensors[in_a].layout.dtype;
  const auto size = static_cast<std::size_t>(size_of(dtype));
  TensorBlocks blocks_a(a, in_a), blocks_b(b, in_b);
  std::span<const std::byte> left, right;  // layouts may differ, and with them the blocks
  TensorDistance distance;
  double sum = 0, sum_a = 0;
  while (true) {
    if (left.empty()) left = blocks_a.next();
    if (right.empty()) right = blocks_b.next();
    if (left.empty() || right.empty()) break;
    const double value = value_of(dtype, left), other = value_of(dtype, right);
    if (std::isfinite(value)) sum_a += value * value;
    if (!std::ranges::equal(left.first(size), right.first(size))) {
      if (!distance.first) distance.first = distance.elements;
      ++distance.different;
      const double apart = std::abs(value - other);
      if (std::isfinite(apart)) {
        distance.max_abs = std::max(distance.max_abs, apart);
        sum += apart * apart;
      } else {
        ++distance.nonfinite;
      }
    }
    ++distance.elements;
    left = left.subspan(size);
    right = right.subspan(size);
  }
  distance.norm = std::sqrt(sum);
  distance.norm_a = std::sqrt(sum_a);
  return distance;
}

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
    const Shape place = place_of_element(first, layout.global);
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

InspectAnswer show_histogram(const CheckpointReader& checkpoint, const std::string& name, const Path& picture) {
  constexpr std::size_t bins = 20, width = 50;
  const std::size_t number = find_number(checkpoint, name);
  const StoredTensor& tensor = checkpoint.manifest().tensors[number];
  Statistics statistics;
  for_each_element(checkpoint, number,
                   [&](std::span<const std::byte> bytes) { statistics.add(value_of(tensor.layout.dtype, bytes)); });
  Histogram histogram = empty_histogram(statistics.min, statistics.max, bins);
  for_each_element(checkpoint, number, [&](std::span<const std::byte> bytes) {
    const double value = value_of(tensor.layout.dtype, bytes);
    if (std::isfinite(value)) count_into(histogram, value);
  });
  const std::int64_t most = *std::ranges::max_element(histogram.counts);
  Table table({{"from", Table::Align::right}, {"elements", Table::Align::right}, {""}});
  for (std::size_t i = 0; i < bins; ++i) {
    const double part = static_cast<double>(histogram.counts[i]) / static_cast<double>(std::max<std::int64_t>(most, 1));
    table.add({fmt::format("{:.4g}", histogram.edges[i]), fmt::format("{}", histogram.counts[i]),
               std::string(static_cast<std::size_t>(std::lround(width * part)), '#')});
  }
  const std::string title =
      fmt::format("{}  {} {}, {} to {}", full_name(tensor), name_of(tensor.layout.dtype),
                  to_text(known_shape(tensor.layout)), number_text(statistics.min), number_text(statistics.max));
  InspectAnswer answer{ExitCode::done,
                       title + "\n" + table.text(),
                       {{"name", full_name(tensor)},
                        {"edges", histogram.edges},
                        {"counts", histogram.counts},
                        {"nan", statistics.nan},
                        {"inf", statistics.infinite}}};
  if (const std::int64_t others = statistics.nan + statistics.infinite; others > 0)
    answer.text += fmt::format("not counted: {} that are not finite\n", counted(others, "element"));
  if (!picture.empty()) {
    publish_file(picture, histogram_svg({title, "value", "elements"}, histogram));
    answer.json["picture"] = picture.string();
    answer.text += fmt::format("plot written to {}\n", picture.string());
  }
  return answer;
}

}  // namespace lockstep
