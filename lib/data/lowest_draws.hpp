// Which documents are the N of the lowest draws, over all ranks: a few passes over these, none of which is kept.
#pragma once

#include "comm/session.hpp"

#include <cstdint>
#include <functional>

namespace lockstep {

/// Documents with a lower draw than this, and of those with this draw the first ones in the corpus.
struct LowestDraws {
  std::uint64_t draw = 0;
  std::int64_t ties = 0;         // with this draw, that belong to them
  std::int64_t ties_before = 0;  // with this draw, that begin on the ranks before
};

/// `each` gives the draws of the documents that begin on this rank, the same at each call. Collective over the
/// session's world. All documents if there are no more than `count`.
LowestDraws lowest_draws(
    Session& session, std::int64_t count,
    const std::function<void(const std::function<void()>& alive, const std::function<void(std::uint64_t)>& use)>& each);

}  // namespace lockstep
