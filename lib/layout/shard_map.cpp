#include "layout/shard_map.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

using Range = std::pair<std::int64_t, std::int64_t>;  // begin and end

void check_ranges(std::vector<Range> ranges, std::int64_t length, const char* buffer) {
  std::ranges::sort(ranges);
  std::int64_t end = 0;
  for (const auto& [first, last] : ranges) {
    if (first < end) fail(ExitCode::bug, "two pieces of a shard map contain element {} of a {}", first, buffer);
    end = last;
  }
  if (end > length)
    fail(ExitCode::bug, "a piece of a shard map ends at {} in a {} of {} elements", end, buffer, length);
}

}  // namespace

void check(const ShardMap& map) {
  std::vector<Range> whole;
  for (const std::vector<ShardPiece>& pieces : map.pieces) {
    std::vector<Range> shard;
    for (const ShardPiece& piece : pieces) {
      if (piece.length < 0 || piece.whole < 0 || piece.shard < 0)
        fail(ExitCode::bug, "a piece of a shard map has {} elements at {} of the whole and {} of the shard",
             piece.length, piece.whole, piece.shard);
      if (piece.length == 0) continue;
      whole.emplace_back(piece.whole, piece.whole + piece.length);
      shard.emplace_back(piece.shard, piece.shard + piece.length);
    }
    check_ranges(std::move(shard), map.shard_length, "shard");
  }
  check_ranges(std::move(whole), map.whole_length, "whole buffer");
}

std::int64_t owned_elements(const ShardMap& map) {
  std::int64_t sum = 0;
  for (const std::vector<ShardPiece>& pieces : map.pieces)
    for (const ShardPiece& piece : pieces) sum += piece.length;
  return sum;
}

std::int64_t ShardPortions::next(std::int64_t length, std::vector<ShardPiece>& into) {
  into.clear();
  std::int64_t count = 0;
  while (count < length && piece_ < pieces_->size()) {
    const ShardPiece& piece = (*pieces_)[piece_];
    const std::int64_t part = std::min(length - count, piece.length - taken_);
    if (part > 0) into.push_back({piece.whole + taken_, piece.shard + taken_, part});
    count += part;
    taken_ += part;
    if (taken_ == piece.length) {
      ++piece_;
      taken_ = 0;
    }
  }
  return count;
}

}  // namespace lockstep
