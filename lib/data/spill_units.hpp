// What a rank has tokenized, in units: consecutive blocks of its part of the corpus, each with a spill of its own,
// whose description appears when all of it is durable. A later job with the same work takes those that lie in its part,
// however many ranks it has. The spills: data/token_spill.hpp.
#pragma once

#include "corpus/bad_text.hpp"
#include "corpus/block_numbers.hpp"
#include "corpus/normal_hash.hpp"
#include "data/sample_shape.hpp"
#include "data/token_spill.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A file of which a unit has blocks, if it is plain.
struct UnitContent {
  std::uint64_t file = 0;
  ReadContent content;
};

struct SpillUnit {
  InputRange range;
  std::string name;                    // of its spill; empty: it has no blocks
  std::vector<TokenizedBlock> blocks;  // with their places within its spill
  std::int64_t empty_documents = 0;
  std::int64_t malformed_lines = 0;
  std::int64_t left_out = 0;    // Encoder::left_out of its texts
  std::vector<BadText> places;  // of what is malformed
  RecordCounts records;
  std::vector<UnitContent> contents;

  std::uint64_t tokens() const;
  std::uint64_t fragments() const;
};

class UnitStore {
 public:
  static constexpr std::uint64_t unit_blocks = 256;  // of 256 KiB: 64 MiB of a plain file

  /// Units of `files` in `folder`, which lists of files of another form do not share. `files` outlive it. Local.
  UnitStore(const Path& folder, const std::vector<InputFile>& files, int token_bytes);

  /// The units of `own`, in order: finished ones that earlier jobs have left, and between them those that are to be
  /// made, without a name. Reads what finished ones consist of, calling `alive`; damaged ones are passed over. Local.
  /// Throws Error(storage).
  std::vector<SpillUnit> plan(const InputRange& own, const std::function<void()>& alive) const;
  /// A name that no other spill in the folder has. Local.
  std::string new_name(const InputRange& range) const;
  /// Makes a unit one that is finished: its spill is durable, and has files of these hashes. Local. Throws
  /// Error(storage).
  void publish(const SpillUnit& unit, const std::vector<Hash128>& hashes) const;

 private:
  std::optional<SpillUnit> read(const Path& description, const std::function<void()>& alive) const;
  Path folder_;
  const std::vector<InputFile>& files_;
  BlockNumbers numbers_;
  std::string form_;  // of the list of files
};

/// Whether a folder has finished units that are worth keeping: of 64 MiB. Local. Throws Error(storage).
bool holds_full_units(const Path& folder);

}  // namespace lockstep
