// AdamW with decoupled weight decay (Loshchilov and Hutter, 2019), as torch.optim.AdamW computes it. One pass over a
// unit's flat buffers applies the clip factor and updates moments, weights and bf16 copy.
#pragma once

#include "optim/optimizer.hpp"

#include <cstdint>

namespace lockstep {

class AdamW final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  /// The bias corrections are 1 − β^(step + 1).
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;
};

}  // namespace lockstep
