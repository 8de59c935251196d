// Shared parts of the answers of checkpoint-inspect: names, texts and elements of the inspected state. The questions:
// store/inspect.hpp.
#pragma once

#include "store/checkpoint_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

std::string pattern_text(const StoredComponent& component);  // "per_group(dp_replicate)"
std::string layout_text(const Layout& layout);               // "dim 0 over dp_shard; on pp 1", "whole"
std::string number_text(double value);
/// Returns the number of the tensor called `name`: a full name, or a weight's own name or alias. Throws Error(input)
/// with a name that it may mean.
std::size_t find_number(const CheckpointReader& checkpoint, const std::string& name);

/// TensorBlocks reads a tensor in order, some rows at a time. It needs memory for a block and for these rows.
class TensorBlocks {
 public:
  /// `checkpoint` must outlive it.
  TensorBlocks(const CheckpointReader& checkpoint, std::size_t number);
  /// Returns the bytes of the next elements, valid until the next call; empty at the end. Throws Error(input) or
  /// Error(storage) as CheckpointReader::read does.
  std::span<const std::byte> next();

 private:
  const CheckpointReader& checkpoint_;
  std::size_t number_;
  Box all_;
  std::size_t element_bytes_;
  std::int64_t rows_ = 0;
  std::int64_t at_once_ = 0;  // rows
  std::int64_t row_ = 0;      // the next one
  std::vector<std::byte> bytes_;
};

/// TensorDistance says how far two tensors of one type and number of elements are apart.
struct TensorDistance {
  std::int64_t elements = 0;               // of each
  std::int64_t different = 0;              // elements with other bits
  std::optional<std::int64_t> first = {};  // the first of them, row by row
  std::int64_t nonfinite = 0;              // of the different ones: the difference is not finite
  double max_abs = 0;                      // largest finite difference
  double norm = 0;                         // square root of the sum of squares of the finite differences
  double norm_a = 0;                       // the same of the finite elements of the first tensor
};
/// Reads both tensors. Throws as TensorBlocks::next does.
TensorDistance distance_of(const CheckpointReader& a, std::size_t in_a, const CheckpointReader& b, std::size_t in_b);
/// Returns the place of an element of a tensor by its number, row by row. Pure.
Shape place_of_element(std::int64_t number, const Shape& shape);

/// Calls `visit` with the bytes of each element of a tensor, in order.
void for_each_element(const CheckpointReader& checkpoint, std::size_t number,
                      const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace lockstep
