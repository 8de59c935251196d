#include "optim/tensor_statistics.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "layout/layout.hpp"
#include "tensor/arena.hpp"
#include "tensor/functions/dispatch.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <type_traits>

namespace lockstep {

namespace {

/// Numbers of 8 bytes that a Statistics has.
constexpr std::int64_t words = sizeof(Statistics) / sizeof(double);
static_assert(sizeof(Statistics) == words * sizeof(double) && std::is_trivially_copyable_v<Statistics>);

}  // namespace

TensorStatistics::TensorStatistics(const std::vector<LogicalTensor>& tensors) {
  for (const LogicalTensor& tensor : tensors) {
    places_.emplace(tensor.name, tensors_.size());
    tensors_.emplace_back(tensor.name, Statistics{});
  }
  measured_ = at::zeros({std::ssize(tensors_), words}, device_options(at::kDouble));
}

void TensorStatistics::add(const std::string& tensor, const at::Tensor& held, std::int64_t part, std::int64_t parts) {
  const std::int64_t begin = held.numel() * part / parts, end = held.numel() * (part + 1) / parts;
  const at::Tensor values = held.view({-1}).narrow(0, begin, end - begin);
  with_kernels(measured_.device().type(), values.scalar_type(), [&]<class T>(const Kernels<T>& on) {
    auto* const all = reinterpret_cast<Statistics*>(pointer<double>(measured_));
    on.add_statistics(pointer_to_read<T>(values), values.numel(), all + places_.at(tensor));
  });
  is_measured_ = true;
}

void TensorStatistics::collect() {
  if (!std::exchange(is_measured_, false)) return;
  std::vector<Statistics> measured(tensors_.size());
  read_region(region_of(measured_), std::as_writable_bytes(std::span(measured)));
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].second.add(measured[i]);
  measured_.zero_();
}

void TensorStatistics::scale(double factor) {
  collect();
  for (auto& [name, statistics] : tensors_) statistics.scale(factor);
}

// The mean of all comes first, so that sums of squares are around it: they lose no digits where it is large.
void TensorStatistics::sum_over(Communicator& world) {
  collect();
  std::vector<double> sums, extremes, squares;
  for (const auto& [name, mine] : tensors_) {
    const auto finite = static_cast<double>(mine.finite);
    sums.insert(sums.end(), {finite, static_cast<double>(mine.nan), static_cast<double>(mine.infinite),
                             static_cast<double>(mine.zeros), finite * mine.mean});
    const double none = -std::numeric_limits<double>::infinity();
    extremes.insert(extremes.end(), {mine.finite > 0 ? -mine.min : none, mine.finite > 0 ? mine.max : none});
  }
  world.all_reduce(sums, Reduce::sum);
  world.all_reduce(extremes, Reduce::max);
  const auto count_at = [&](std::size_t place) { return static_cast<std::int64_t>(sums[place]); };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Statistics& mine = tensors_[i].second;
    const double distance = sums[5 * i] > 0 ? mine.mean - sums[5 * i + 4] / sums[5 * i] : 0;
    squares.push_back(mine.squares + static_cast<double>(mine.finite) * distance * distance);
  }
  world.all_reduce(squares, Reduce::sum);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Statistics& all = tensors_[i].second;
    all = {.finite = count_at(5 * i),
           .nan = count_at(5 * i + 1),
           .infinite = count_at(5 * i + 2),
           .zeros = count_at(5 * i + 3)};
    if (all.finite == 0) continue;
    all.min = -extremes[2 * i];
    all.max = extremes[2 * i + 1];
    all.mean = sums[5 * i + 4] / sums[5 * i];
    all.squares = squares[i];
  }
}

Statistics TensorStatistics::whole() const {
  Statistics all;
  for (const auto& [name, statistics] : tensors_) all.add(statistics);
  return all;
}

void add_gradient(TensorStatistics& statistics, const Unit& unit, int part, int parts) {
  for (const auto& parameter : unit.parameters()) statistics.add(parameter->name(), parameter->gradient(), part, parts);
}

void add_weights(TensorStatistics& statistics, const Model& model, Rank rank) {
  for (const Parameter* parameter : model.parameters()) {
    const std::vector<Rank> holders = replicas_of(parameter->layout(), rank);
    const auto part = std::ranges::find(holders, rank) - holders.begin();
    statistics.add(parameter->name(), parameter->master(), part, std::ssize(holders));
  }
}

}  // namespace lockstep
