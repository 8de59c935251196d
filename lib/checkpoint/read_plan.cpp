#include "checkpoint/read_plan.hpp"

#include "base/error.hpp"
#include "layout/box_runs.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

// Who reads the next block that just the same ranks need. Each gets as many bytes, in runs of blocks that follow each
// other, for a system fetches ahead of who reads a file from front to back. A run fits into half of what its owner
// holds: it has the next one in work while others take this one.
Rank next_owner(SharedBytes& shared, std::uint64_t bytes) {
  constexpr std::uint64_t longest = blocks_in_work / 2 * block_bytes;
  const std::span<const Rank> ranks = shared.readers;
  const std::uint64_t rounds = (shared.bytes - 1) / (ranks.size() * longest) + 1;
  const std::uint64_t run = (shared.bytes - 1) / (ranks.size() * rounds) + 1;
  const std::uint64_t middle = shared.given + bytes / 2;
  shared.given += bytes;
  return ranks[middle / run % ranks.size()];
}

}  // namespace

std::int64_t bytes_in_work(int ranks, std::int64_t largest) {
  const std::int64_t kinds = ranks > 1 ? 3 : 1;  // without others nothing is packed and nothing arrives
  return kinds * static_cast<std::int64_t>(blocks_in_work) * std::min(largest, static_cast<std::int64_t>(block_bytes));
}

ReadPlan::ReadPlan(const CheckpointReader& reader, std::span<const SharedTensor> tensors, Rank rank,
                   const FileAccess& access)
    : reader_(reader),
      tensors_(tensors),
      rank_(rank),
      by_stored_(tensors.size()),
      kind_of_(tensors.size(), nullptr),
      readers_(access.readers) {
  for (std::size_t file = 0; file < readers_.size(); ++file)
    if (std::ranges::binary_search(readers_[file], rank)) readable_.push_back(file);
  std::iota(by_stored_.begin(), by_stored_.end(), std::size_t{0});
  std::ranges::stable_sort(by_stored_, {}, [&](std::size_t tensor) { return tensors_[tensor].stored; });
  for (const SharedTensor& tensor : tensors_) {
    boxes_.emplace_back();
    if (tensor.layout != nullptr) {
      const Box box = box_of(*tensor.layout, rank);
      if (!empty(box)) boxes_.back().push_back(box);
    }
    for (const Holding& holding : tensor.holdings)
      if (std::ranges::binary_search(holding.ranks, rank)) boxes_.back().push_back(holding.box);
    for (const Box& box : boxes_.back())
      invariant(!empty(box) && contains(whole(tensor.as), box), "a box to read lies in its tensor");
  }
  for (std::size_t first = 0, end = 0; first < by_stored_.size(); first = end) {
    const auto stored = [&](std::size_t at) { return tensors_[by_stored_[at]].stored; };
    while (end < by_stored_.size() && stored(end) == stored(first)) ++end;
    plan_stored(std::span(by_stored_).subspan(first, end - first));
  }
  choose_owners();
}

// All blocks that the rank needs, or may read for others, are of others as long as they have no owner.
void ReadPlan::plan_stored(std::span<const std::size_t> wanted) {
  std::set<const IndexedPiece*> pieces;
  for (const std::size_t tensor : wanted)
    for (const Box& box : boxes_[tensor])
      for (const IndexedPiece* piece : reader_.pieces_with(tensors_[tensor].stored, region_of(tensor, box)))
        pieces.insert(piece);
  for (const std::size_t file : readable_)
    for (const IndexedPiece& piece :
         std::ranges::equal_range(reader_.pieces_in(file), tensors_[wanted.front()].stored, {}, &IndexedPiece::tensor))
      pieces.insert(&piece);
  for (const IndexedPiece* piece : pieces) {
    for (std::size_t number = 0; number < piece->record.blocks.size(); ++number) {
      const PieceBlock block{piece, number};
      std::vector<const Holding*> holdings;
      for (const std::size_t tensor : wanted) std::ranges::copy(holdings_with(block, tensor), back_inserter(holdings));
      std::vector<Rank> united;
      for (std::size_t i = 0; holdings.size() > 1 && i < holdings.size(); ++i)
        united.insert(united.end(), holdings[i]->ranks.begin(), holdings[i]->ranks.end());
      std::ranges::sort(united);
      united.erase(std::unique(united.begin(), united.end()), united.end());
      const std::vector<Rank>& ranks = holdings.size() == 1 ? holdings.front()->ranks : united;
      const bool is_needed_here = std::ranges::binary_search(ranks, rank_);
      if (ranks.empty() || (!is_needed_here && readable_.empty())) continue;
      SharedBytes& shared = shared_bytes(ranks, piece->file);
      shared.bytes += reader_.block_size(*piece, number);
      of_others_.push_back({block, wanted, &shared, is_needed_here, 0});
    }
  }
}

SharedBytes& ReadPlan::shared_bytes(const std::vector<Rank>& needed_by, std::size_t file) {
  std::vector<Rank> readers;
  if (!readers_.empty()) {
    std::ranges::set_intersection(needed_by, readers_[file], back_inserter(readers));
    if (readers.empty()) readers = readers_[file];
  }
  auto& [needing, by_readers] = *shared_.try_emplace(needed_by).first;
  auto& [may_read, shared] = *by_readers.try_emplace(std::move(readers)).first;
  shared.readers = may_read.empty() ? needing : may_read;
  return shared;
}

void ReadPlan::choose_owners() {
  const auto place = [](const NeededBlock& needed) {
    const IndexedPiece& piece = *needed.block.piece;
    return std::tuple(piece.file, piece.record.offset, needed.block.number);
  };
  std::ranges::sort(of_others_, {}, place);
  for (NeededBlock& needed : of_others_) {
    const std::size_t bytes = reader_.block_size(*needed.block.piece, needed.block.number);
    needed.owner = next_owner(*needed.shared, bytes);
    if (needed.owner == rank_ || needed.is_needed_here) largest_ = std::max(largest_, bytes);
    if (needed.owner != rank_) continue;
    own_.push_back(needed);
    most_packed_ = std::max(most_packed_, bytes * needed.wanted.size());
  }
  std::erase_if(of_others_, [&](const NeededBlock& needed) { return needed.owner == rank_ || !needed.is_needed_here; });
}

// Rows of the stored tensor.
Box ReadPlan::region_of(std::size_t tensor, const Box& box) const {
  const Shape& stored = reader_.manifest().tensors.at(tensors_[tensor].stored).layout.global;
  return tensors_[tensor].as == stored ? box : rows_in_view(box, tensors_[tensor].as, stored);
}

Box ReadPlan::box_around_block(const PieceBlock& block) const {
  const auto size = static_cast<std::size_t>(size_of(reader_.manifest().tensors[block.piece->tensor].layout.dtype));
  return box_around(block.piece->box, static_cast<std::int64_t>(block.number * block_bytes / size),
                    static_cast<std::int64_t>(reader_.block_size(*block.piece, block.number) / size));
}

const Holding& ReadPlan::holding_of(std::size_t tensor, Rank rank) {
  const Layout& layout = *tensors_[tensor].layout;
  Kind*& kind = kind_of_[tensor];
  if (kind == nullptr) {  // neighbours mostly share a layout, and the ranks of a holding cost a pass over them
    const auto same = std::ranges::find_if(kinds_, [&](const Kind& other) { return *other.layout == layout; });
    kind = same == kinds_.end() ? &kinds_.emplace_back(Kind{&layout, {}}) : &*same;
  }
  const auto [entry, is_new] = kind->holdings.try_emplace(rank);
  if (is_new) entry->second = {box_of(layout, rank), replicas_of(layout, rank)};
  return entry->second;
}

// Whoever looks at a box comes to the same, be it its holder or not: of a view both the rows that the block has in the
// view and those that the box has in the stored tensor have to meet the other.
std::vector<const Holding*> ReadPlan::holdings_with(const PieceBlock& block, std::size_t tensor) {
  const SharedTensor& wanted = tensors_[tensor];
  const Shape& stored = reader_.manifest().tensors.at(wanted.stored).layout.global;
  const Box part = box_around_block(block);
  const Box seen = wanted.as == stored ? part : rows_in_view(part, stored, wanted.as);
  std::vector<const Holding*> result;
  const auto add = [&](const Holding& holding) {
    if (!empty(intersect(holding.box, seen)) && !empty(intersect(region_of(tensor, holding.box), part)))
      result.push_back(&holding);
  };
  if (wanted.layout != nullptr)
    for (const Rank rank : holders_meeting(*wanted.layout, seen)) add(holding_of(tensor, rank));
  for (const Holding& holding : wanted.holdings) add(holding);
  return result;
}

}  // namespace lockstep
