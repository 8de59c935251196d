// The exchanges of ranks in the middle of a block's computation (tensor, context or expert parallelism). A block
// declares them. Programs print, verify and simulate them, and the trace of an execution (program/trace.hpp) must equal
// them.
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

/// One collective among the ranks along `axes`, over the rows of a micro-batch. A row is a token.
struct BlockExchange {
  enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, shift } kind{};
  std::vector<AxisName> axes = {tensor_axis};
  DType dtype = DType::f32;
  std::int64_t row_bytes = 0;  // contributed by each rank for a row
  std::int64_t first_row = 0;  // the first row of a micro-batch that takes part
  std::int64_t rows = 0;       // rows of the largest micro-batch that take part
  int shares = 1;              // ranks that split these rows; each contributes its own
  bool of_samples = false;     // counts samples of the micro-batch instead of rows
  bool in_training = false;    // only in training
  bool at_most = false;        // the routing of tokens decides the size: bytes() is an upper bound, 0 is possible
  // With at_most: this exchange and its neighbours of equal `repeats` form a round that runs 0 to `repeats` times. 0:
  // the exchange runs once.
  std::int64_t repeats = 0;
  bool operator==(const BlockExchange&) const = default;

  /// Bytes that each rank contributes for a micro-batch of `tokens` rows and `samples` samples. With 0 bytes the
  /// exchange does not take place.
  std::int64_t bytes_of(std::int64_t tokens, std::int64_t samples) const {
    const std::int64_t all = of_samples ? samples : tokens;
    return ceil_div(std::clamp<std::int64_t>(all - first_row, 0, rows), std::int64_t{shares}) * row_bytes;
  }
  std::int64_t bytes() const { return ceil_div(rows, std::int64_t{shares}) * row_bytes; }
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

/// The exchanges of a block, in order.
struct BlockExchanges {
  std::vector<BlockExchange> forward;
  std::vector<BlockExchange> backward;  // of the backward, or of its first half
  // Of a program: the exchanges of the forward that its recomputation repeats.
  std::vector<BlockExchange> recompute = {};
  bool operator==(const BlockExchanges&) const = default;
};

/// The axes of these exchanges, in a fixed order. Expert axes factor the ranks of a stage differently from the other
/// axes: if an exchange is along the expert axis, the result is all expert axes, that is, all ranks of the stage.
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
