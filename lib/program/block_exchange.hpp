// What ranks that share a block say to each other in the middle of its computation. A block declares it, programs
// print, verify and simulate it, and the trace of an execution must equal it.
#pragma once

#include "base/rounding.hpp"
#include "layout/dtype.hpp"
#include "layout/mesh.hpp"
#include "layout/sequence.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

/// One collective among the ranks along axes, over rows of a micro-batch that a rank has: a row is a token.
struct BlockExchange {
  enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, shift } kind{};
  std::vector<AxisName> axes = {tensor_axis};
  DType dtype = DType::f32;
  std::int64_t row_bytes = 0;  // that each rank puts in for a row
  std::int64_t first_row = 0;  // of those that it is about
  std::int64_t rows = 0;       // of the largest micro-batch
  int shares = 1;              // ranks that have the rows between them, of which each puts in its own
  bool of_samples = false;     // not of rows: it is about samples of the micro-batch
  bool in_training = false;    // alone: where nothing is trained it is left out
  bool at_most = false;        // where rows go decides how much it is: no more than this, or nothing
  std::int64_t repeats = 0;    // of at_most: together with neighbours that say as much, so often or less, or never
  bool operator==(const BlockExchange&) const = default;

  /// What each rank puts in where it has so many rows of a micro-batch of so many samples; 0: then it is left out.
  std::int64_t bytes_of(std::int64_t tokens, std::int64_t samples) const {
    const std::int64_t all = of_samples ? samples : tokens;
    return divided_up(std::clamp<std::int64_t>(all - first_row, 0, rows), std::int64_t{shares}) * row_bytes;
  }
  std::int64_t bytes() const { return divided_up(rows, std::int64_t{shares}) * row_bytes; }
};
constexpr std::string_view name_of(BlockExchange::Kind kind) {
  switch (kind) {
    case BlockExchange::Kind::all_reduce: return "all_reduce";
    case BlockExchange::Kind::all_gather: return "all_gather";
    case BlockExchange::Kind::reduce_scatter: return "reduce_scatter";
    case BlockExchange::Kind::all_to_all: return "all_to_all_v";
    case BlockExchange::Kind::shift: return "shift";
  }
  return "unknown";
}

/// Those of a block, in order.
struct BlockExchanges {
  std::vector<BlockExchange> forward;
  std::vector<BlockExchange> backward;        // or of its first half
  std::vector<BlockExchange> recompute = {};  // of a program: those of the forward that its repetition says again
  bool operator==(const BlockExchanges&) const = default;
};

/// The axes that these are along, in one order. Those of experts are other factors of the ranks than the rest: where
/// one is along them, all.
inline std::vector<AxisName> axes_of(const std::vector<BlockExchange>& exchanges) {
  std::vector<AxisName> axes;
  const auto along = [&](const AxisName& axis) {
    return std::ranges::any_of(exchanges, [&](const BlockExchange& exchange) {
      return std::ranges::find(exchange.axes, axis) != exchange.axes.end();
    });
  };
  if (along(expert_axis)) return {expert_replica_axis, expert_shard_axis, expert_axis};  // all ranks of the stage
  for (const AxisName& axis : {ring_axis, ulysses_axis, tensor_axis, key_replica_axis})
    if (along(axis)) axes.push_back(axis);
  return axes;
}

}  // namespace lockstep
