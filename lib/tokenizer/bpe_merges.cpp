#include "tokenizer/bpe_merges.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

namespace lockstep {

namespace {
constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t longest_scan = 96;  // ids; beyond it the heap is faster

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}
}  // namespace

MergeTable::MergeTable(std::size_t merges) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(2 * merges, 2));
  slots_.resize(size);
  shift_ = 64 - std::bit_width(size - 1);
}

std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  std::size_t slot = pair * 0x9E3779B97F4A7C15u >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].pair != ~std::uint64_t{0}) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t pair = pair_of(left, right);
  slots_[slot_of(pair)] = {pair, merge};
}

const Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const Slot& slot = slots_[slot_of(pair_of(left, right))];
  return slot.pair == ~std::uint64_t{0} ? nullptr : &slot.merge;
}

void Merger::apply(std::vector<std::int32_t>& ids) {
  if (ids.size() <= longest_scan) {
    apply_by_scan(ids);
  } else {
    apply_by_heap(ids);
  }
}

void Merger::apply_by_scan(std::vector<std::int32_t>& ids) {
  const auto rank_at = [&](std::size_t i) {
    const Merge* const merge = i + 1 < ids.size() ? table_->find(ids[i], ids[i + 1]) : nullptr;
    return merge == nullptr ? no_rank : merge->rank;
  };
  ranks_.resize(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ranks_[i] = rank_at(i);
  while (ids.size() > 1) {
    const auto best = std::min_element(ranks_.begin(), ranks_.end());
    if (*best == no_rank) return;
    const auto i = static_cast<std::size_t>(best - ranks_.begin());
    ids[i] = table_->find(ids[i], ids[i + 1])->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks_.erase(best + 1);
    ranks_[i] = rank_at(i);
    if (i > 0) ranks_[i - 1] = rank_at(i - 1);
  }
}

void Merger::apply_by_heap(std::vector<std::int32_t>& ids) {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct Candidate {
    std::uint32_t rank;
    std::size_t left;
    std::uint64_t pair;  // of ids when it was found: another pair there now means it is out of date
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  std::vector<std::size_t> next(ids.size());
  std::vector<std::size_t> previous(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    next[i] = i + 1 < ids.size() ? i + 1 : none;
    previous[i] = i > 0 ? i - 1 : none;
  }
  std::vector<Candidate> candidates;
  const auto candidate_at = [&](std::size_t left) -> std::optional<Candidate> {
    if (left == none || next[left] == none) return std::nullopt;
    const Merge* const merge = table_->find(ids[left], ids[next[left]]);
    if (merge == nullptr) return std::nullopt;
    return Candidate{merge->rank, left, pair_of(ids[left], ids[next[left]])};
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (const auto candidate = candidate_at(i)) candidates.push_back(*candidate);
  }
  std::priority_queue<Candidate> queue({}, std::move(candidates));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const std::size_t right = ids[best.left] < 0 ? none : next[best.left];
    if (right == none || pair_of(ids[best.left], ids[right]) != best.pair) continue;
    ids[best.left] = table_->find(ids[best.left], ids[right])->id;
    ids[right] = -1;  // gone
    next[best.left] = next[right];
    if (next[right] != none) previous[next[right]] = best.left;
    if (const auto candidate = candidate_at(best.left)) queue.push(*candidate);
    if (const auto candidate = candidate_at(previous[best.left])) queue.push(*candidate);
  }
  std::erase(ids, -1);
}

}  // namespace lockstep
