// Units of tokenized text: consecutive blocks of a rank's part of the corpus, each unit with a spill of its own. The
// description of a unit is written once its spill is durable. A later job with the same work reuses the units that lie
// in its parts, with any number of ranks. The spills: prepare/token_spill.hpp.
#pragma once

#include "prepare/normal_hash.hpp"
#include "prepare/sample_shape.hpp"
#include "prepare/token_spill.hpp"
#include "readers/bad_text.hpp"
#include "readers/block_numbers.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// UnitContent is the content of a plain file that a unit has blocks of.
struct UnitContent {
  std::uint64_t file = 0;
  ReadContent content;
};

struct SpillUnit {
  InputRange range;
  std::string name;                    // of its spill; empty: not made yet, or without blocks
  std::vector<TokenizedBlock> blocks;  // with their positions in the spill
  std::int64_t empty_documents = 0;
  std::int64_t malformed_lines = 0;
  std::int64_t left_out = 0;    // sum of Encoder::left_out over its texts
  std::vector<BadText> places;  // of malformed text
  RecordCounts records;
  std::vector<UnitContent> contents;

  std::uint64_t tokens() const;
  std::uint64_t fragments() const;
};

class UnitStore {
 public:
  static constexpr std::uint64_t unit_blocks = 256;  // blocks of 256 KiB: 64 MiB of a plain file

  /// Units of `files` in `folder`. Units of a list of files with other sizes or kinds are ignored. `files` must outlive
  /// it. Local.
  UnitStore(const Path& folder, const std::vector<InputFile>& files, int token_bytes);

  /// Returns the units of `own`, in order: finished units of earlier jobs, and between them units without a name that
  /// are to be made. Verifies the hashes of finished units, calling `alive`; damaged ones are skipped. Local. Throws
  /// Error(storage).
  std::vector<SpillUnit> plan(const InputRange& own, const std::function<void()>& alive) const;
  /// Returns a name that no other spill in the folder has. Local.
  std::string new_name(const InputRange& range) const;
  /// Marks a unit as finished: its spill is durable and its files have these hashes. Local. Throws Error(storage).
  void publish(const SpillUnit& unit, const std::vector<Hash128>& hashes) const;

 private:
  std::optional<SpillUnit> read(const Path& description, const std::function<void()>& alive) const;
  Path folder_;
  const std::vector<InputFile>& files_;
  BlockNumbers numbers_;
  std::string form_;  // hash of the sizes and kinds of the files
};

/// Returns whether a folder has finished units worth keeping, of at least unit_blocks blocks. Local. Throws
/// Error(storage).
bool holds_full_units(const Path& folder);

}  // namespace lockstep
