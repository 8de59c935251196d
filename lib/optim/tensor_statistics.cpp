#include "optim/tensor_statistics.hpp"

#include "base/error.hpp"
#include "layout/layout.hpp"
#include "optim/statistics_kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

namespace lockstep {

namespace {

Statistics measured(const at::Tensor& values) {
  const std::int64_t count = values.numel();
  const void* const first = values.const_data_ptr();
  switch (values.scalar_type()) {
    case at::kDouble: return statistics_of(static_cast<const double*>(first), count);
    case at::kFloat: return statistics_of(static_cast<const float*>(first), count);
    case at::kBFloat16: return statistics_of(static_cast<const Bf16*>(first), count);
    case at::kHalf: return statistics_of(static_cast<const Fp16*>(first), count);
    default: fail(ExitCode::bug, "weights and gradients cannot have the type {}", toString(values.scalar_type()));
  }
}

}  // namespace

TensorStatistics::TensorStatistics(const std::vector<LogicalTensor>& tensors) {
  for (const LogicalTensor& tensor : tensors) {
    places_.emplace(tensor.name, tensors_.size());
    tensors_.emplace_back(tensor.name, Statistics{});
  }
}

void TensorStatistics::add(const std::string& tensor, const at::Tensor& held, std::int64_t part, std::int64_t parts) {
  const std::int64_t begin = held.numel() * part / parts, end = held.numel() * (part + 1) / parts;
  tensors_[places_.at(tensor)].second.add(measured(held.view({-1}).narrow(0, begin, end - begin)));
}

void TensorStatistics::scale(double factor) {
  for (auto& [name, statistics] : tensors_) statistics.scale(factor);
}

// The mean of all comes first, so that sums of squares are around it: they lose no digits where it is large.
void TensorStatistics::sum_over(Communicator& world) {
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
