// One pass over a corpus by all ranks and their threads. Each rank reads its own consecutive part and processes the
// blocks in it. The threads: prepare/ordered_work.hpp.
#pragma once

#include "base/error.hpp"
#include "comm/long_work.hpp"
#include "comm/session.hpp"
#include "prepare/gather_values.hpp"
#include "prepare/input_contents.hpp"
#include "prepare/ordered_work.hpp"
#include "readers/bad_text.hpp"
#include "readers/block_reader.hpp"

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
  std::string what;  // the first words of error messages, such as "tokenize"
  LastCut last_cut;
  int threads = 1;  // on this rank
  // called with the bytes of the files that this rank has read so far
  std::function<void(std::uint64_t bytes)> progress;
  // the parts of `files` that this rank reads; not set: this rank's share of all files
  std::optional<std::vector<InputPart>> parts = {};
};

/// ReadInput describes the input that a pass has read; all ranks have equal values.
struct ReadInput {
  std::vector<ReadContent> contents;  // by file
  std::vector<std::string> warnings;  // BlockReader::warnings
  std::uint64_t bytes = 0;            // of the input that all ranks together have read; copies excluded
};

/// Calls `consume` with the results of this rank's blocks, in the order of the blocks. Ranks have consecutive parts of
/// the corpus. Collective over the session's world. Ends with Error(verdict) on a stop request. Throws Error(input)
/// "FILE:LINE: …" for a BadText that the reader or the work throws.
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
