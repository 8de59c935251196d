// Selects the N documents with the lowest draws, over all ranks. It needs a few passes over the draws and keeps none of
// them in memory.
#pragma once

#include "comm/session.hpp"

#include <cstdint>
#include <functional>

namespace lockstep {

/// DrawThreshold selects the documents with a draw below `draw`, and the first `ties` of the corpus that have this
/// draw.
struct DrawThreshold {
  std::uint64_t draw = 0;
  std::int64_t ties = 0;         // selected documents with this draw
  std::int64_t ties_before = 0;  // documents with this draw that begin on lower ranks
};

/// Returns the selection of `count` documents, or of all documents if there are no more. `each` calls `use` with the
/// draws of the documents that begin on this rank, equal in each pass. Collective over the session's world.
DrawThreshold lowest_draws(
    Session& session, std::int64_t count,
    const std::function<void(const std::function<void()>& alive, const std::function<void(std::uint64_t)>& use)>& each);

}  // namespace lockstep
