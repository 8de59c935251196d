// Keys of xorl that have a meaning only together: mesh, length of a run, saves, recomputation, memory, optimizer,
// records, datasets and packing. The table of all keys: dialect_xorl.cpp.
#pragma once

#include "dialects/lowering.hpp"

namespace lockstep::xorl {

inline constexpr const char* no_distillation = "a model is trained on labels, not on another model";

/// Whether a number is zero, as text.
inline bool is_zero(const Node& value) { return value.text == "0" || value.text == "0.0"; }

/// Translates the keys that have a meaning only together.
void finish(Lowering& lowering);

}  // namespace lockstep::xorl
