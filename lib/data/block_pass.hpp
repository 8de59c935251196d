// One pass over a corpus by all ranks and their threads. Every rank reads all blocks, which is cheap, and works on
// every world-th of them. Ranks agree after each round, so that a failure anywhere ends the pass everywhere soon.
#pragma once

#include "base/error.hpp"
#include "comm/session.hpp"
#include "comm/together.hpp"
#include "corpus/block_reader.hpp"
#include "data/ordered_work.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct BlockPass {
  Session& session;
  const std::vector<InputFile>& files;
  std::string what;  // "tokenize": opens error messages
  LastCut last_cut;
  int threads = 1;                                    // of this rank
  std::function<void(std::uint64_t bytes)> progress;  // bytes of the input files that were read
};

/// Calls `consume` with the results of this rank's blocks in their order; returns the names of files that hold no text.
/// Ends with Error(verdict) on a request to stop. Collective over the session's world.
template <class Result>
std::vector<std::string> for_own_blocks(const BlockPass& pass,
                                        const typename OrderedWork<TextBlock, Result>::MakeWork& make_work,
                                        const std::function<void(Result&&)>& consume) {
  constexpr std::int64_t blocks_a_round = 256;  // of each rank
  Communicator& world = pass.session.world();
  const std::size_t most_pending = 2 * static_cast<std::size_t>(pass.threads) + 2;
  BlockReader reader(pass.files, pass.last_cut);
  OrderedWork<TextBlock, Result> work(pass.threads, make_work);
  const auto round = [&] {
    bool more = true;
    pass.session.enter(Phase::data);
    for (std::int64_t i = 0; more && i < blocks_a_round * world.size(); ++i) {
      end_if_stopped(pass.session);
      TextBlock block;
      more = reader.next(block);
      if (more && block.index % world.size() == world.rank()) work.give(std::move(block));
      if (work.pending() > most_pending) consume(work.take());
      pass.progress(reader.consumed());
    }
    while (work.pending() > 0) consume(work.take());
    return more;
  };
  for (bool more = true; more;) together(world, pass.what, [&] { more = round(); });
  return reader.empty_files();
}

}  // namespace lockstep
