// One pass over a corpus by all ranks and their threads: each rank reads parts of its own and works on their blocks.
#pragma once

#include "base/error.hpp"
#include "comm/session.hpp"
#include "corpus/bad_text.hpp"
#include "corpus/block_reader.hpp"
#include "data/gather_values.hpp"
#include "data/input_contents.hpp"
#include "data/long_work.hpp"
#include "data/ordered_work.hpp"

#include <cstdint>
#include <functional>
#include <optional>
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
  std::function<void(std::uint64_t bytes)> progress;  // bytes of the files that this rank has read
  std::optional<std::vector<InputPart>> parts = {};   // of them, what this rank reads here; absent: all of its part
};

/// What a pass found out about the input, the same on all ranks.
struct ReadInput {
  std::vector<ReadContent> contents;  // by file
  std::vector<std::string> warnings;  // BlockReader::warnings
  std::uint64_t bytes = 0;            // that were read of the input, by all ranks; not of copies
};

/// Calls `consume` with the results of this rank's blocks in their order. Ranks have consecutive parts of the corpus.
/// Ends with Error(verdict) on a request to stop; throws Error(input) "FILE:LINE: …" for BadText that reading or work
/// throws. Collective over the session's world.
template <class Result>
ReadInput for_own_blocks(const BlockPass& pass, const typename OrderedWork<TextBlock, Result>::MakeWork& make_work,
                         const std::function<void(Result&&)>& consume) {
  Communicator& world = pass.session.world();
  ReadInput own;
  long_work_together(pass.session, pass.what, [&](const std::function<void()>& alive) {
    const std::size_t most_pending = 2 * static_cast<std::size_t>(pass.threads) + 2;
    try {
      BlockReader reader(pass.files, pass.parts ? *pass.parts : parts_of_rank(pass.files, world.rank(), world.size()),
                         pass.last_cut);
      OrderedWork<TextBlock, Result> work(pass.threads, make_work);
      for (TextBlock block; reader.next(block); block = {}) {
        alive();
        work.give(std::move(block));
        if (work.pending() > most_pending) consume(work.take());
        pass.progress(reader.consumed());
      }
      while (work.pending() > 0) {
        alive();
        consume(work.take());
      }
      own = {reader.contents(), reader.warnings(), reader.input_consumed()};
    } catch (const BadText& bad) {
      LineCounter lines(alive);
      throw error_of(bad, lines);
    }
  });
  ReadInput all;
  all.bytes = static_cast<std::uint64_t>(world.all_reduce(static_cast<std::int64_t>(own.bytes), Reduce::sum));
  all.warnings = gather_texts(world, own.warnings);
  all.contents = gather_contents(world, own.contents);
  return all;
}

}  // namespace lockstep
