// The merges of a byte-pair encoding, and their application to one piece of text. The pair of lowest rank is always
// merged first, from left to right. Learning merges: tokenizer/bpe_trainer.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

struct Merge {
  std::uint32_t rank = 0;
  std::int32_t id = 0;  // of the joined token
};

/// Maps a pair of ids to its merge: a flat hash table, read by many threads.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges);
  /// A later merge of the same pair replaces the earlier one.
  void insert(std::int32_t left, std::int32_t right, Merge merge);
  const Merge* find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t pair = ~std::uint64_t{0};
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t pair) const;
  std::vector<Slot> slots_;
  int shift_ = 0;
};

/// Applies merges in place until none applies. O(n²) with a small constant for short pieces, O(n log n) for long ones.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(&table) {}
  void apply(std::vector<std::int32_t>& ids);

 private:
  void apply_by_scan(std::vector<std::int32_t>& ids);
  void apply_by_heap(std::vector<std::int32_t>& ids);

  const MergeTable* table_;
  std::vector<std::uint32_t> ranks_;  // of the pair that starts at each id, while scanning
};

}  // namespace lockstep
