// Shared parts of the answers of checkpoint-inspect: names, texts and elements of the inspected state. The questions:
// store/inspect.hpp.
#pragma once

#include "store/checkpoint_reader.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace lockstep {

std::string pattern_text(const StoredComponent& component);  // "per_group(dp_replicate)"
std::string layout_text(const Layout& layout);               // "dim 0 over dp_shard; on pp 1", "whole"
std::string number_text(double value);
/// Returns the number of the tensor called `name`: a full name, or a weight's own name or alias. Throws Error(input)
/// with the nearest name.
std::size_t find_number(const CheckpointReader& checkpoint, const std::string& name);
/// Calls `visit` with the bytes of each element of a tensor, in order. Needs memory for a block and for some rows.
void for_each_element(const CheckpointReader& checkpoint, std::size_t number,
                      const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace lockstep
