#include "checkpoint/shared_read.hpp"

#include "base/error.hpp"
#include "comm/operation.hpp"
#include "comm/together.hpp"
#include "comm/waiting.hpp"
#include "store/box_runs.hpp"
#include "store/read_ahead.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

// What the blocks have that just these ranks need.
struct Shared {
  std::uint64_t bytes = 0;  // of all
  std::uint64_t given = 0;  // of those that have an owner
};
using BySharers = std::map<std::vector<Rank>, Shared>;

// Who reads the next block that just these ranks need. Each gets as many bytes, in runs of blocks that follow each
// other, for a system fetches ahead of who reads a file from front to back. A run fits into half of what its owner
// holds: it has the next one in work while others take this one.
Rank next_owner(BySharers::value_type& sharers, std::uint64_t bytes) {
  constexpr std::uint64_t longest = blocks_in_work / 2 * block_bytes;
  auto& [ranks, shared] = sharers;
  const std::uint64_t rounds = (shared.bytes - 1) / (ranks.size() * longest) + 1;
  const std::uint64_t run = (shared.bytes - 1) / (ranks.size() * rounds) + 1;
  const std::uint64_t middle = shared.given + bytes / 2;
  shared.given += bytes;
  return ranks[middle / run % ranks.size()];
}

// A block that this rank needs, or reads for others.
struct NeededBlock {
  PieceBlock block;
  std::span<const std::size_t> wanted;  // numbers of the tensors that are read from the stored one
  BySharers::value_type* sharers = nullptr;
  Rank owner = 0;
};

// What of a block the ranks of a holding get: consecutive elements each, of the block (in_a) and of their box (in_b).
struct Share {
  std::size_t tensor = 0;
  std::size_t holding = 0;
  std::vector<BoxRun> runs;
  std::size_t bytes = 0;
};

// A share that another rank sends.
struct Arrival {
  Share share;
  Rank from = 0;
  NonBlocking::Call call = {};
  std::span<const std::byte> held = {};  // where it arrives; empty: in its place
};

struct Places {
  std::span<std::byte> box;  // of this rank; empty: it has none
  std::size_t element = 1;   // bytes
};

void put_in_place(const Share& share, const Places& places, std::span<const std::byte> bytes) {
  for (const BoxRun& run : share.runs) {
    const std::size_t length = static_cast<std::size_t>(run.length) * places.element;
    if (!places.box.empty())
      std::memcpy(places.box.data() + static_cast<std::size_t>(run.in_b) * places.element, bytes.data(), length);
    bytes = bytes.subspan(length);
  }
}

// One load of one rank. Every rank goes through the blocks in one order, that of the files: whoever reads a block
// that is due has handed over all before it, and who needs it has taken all before it. So none waits for ever, whatever
// little memory there is.
class SharedRead {
 public:
  SharedRead(Communicator& ranks, const CheckpointReader& reader, std::span<const SharedTensor> tensors)
      : ranks_(ranks), reader_(reader), tensors_(tensors) {}

  void plan();
  void start(int threads);  // from here on nothing fails but communication, until finish() tells
  void run();
  void finish() { ahead_->finish(); }

 private:
  void plan_stored(std::span<const std::size_t> wanted);
  const Box& region_of(std::size_t tensor, std::size_t holding) const;
  std::vector<Rank> ranks_that_need(const Box& part, std::span<const std::size_t> wanted) const;
  std::optional<Share> share_of(const NeededBlock& needed, std::size_t tensor, std::size_t holding) const;
  Places places_of(std::size_t tensor, const Box& box) const;
  bool hand_over();
  void send(const Share& share, std::span<const std::byte> block, std::span<std::byte>& packed);
  bool see_off();
  bool expect();
  bool take_in();
  bool waits_for_storage() const;

  Communicator& ranks_;
  const CheckpointReader& reader_;
  std::span<const SharedTensor> tensors_;
  std::vector<std::size_t> by_stored_;          // numbers of tensors, ordered by what they are read from
  std::vector<std::vector<Box>> regions_;       // by tensor and holding: rows of the stored shape; of views alone
  std::vector<std::vector<std::size_t>> mine_;  // by tensor: its holdings that this rank is one of
  BySharers shared_;
  std::vector<NeededBlock> blocks_;           // until they have owners
  std::vector<NeededBlock> own_, of_others_;  // in the order of the files
  std::size_t largest_ = 0;                   // bytes of a block
  std::size_t most_packed_ = 0;               // bytes that a block of this rank takes in packed form

  std::optional<ReadAhead> ahead_;
  std::size_t next_own_ = 0;
  std::unique_ptr<std::byte[]> packed_;               // by place of the block that is in work
  std::deque<std::vector<NonBlocking::Call>> sends_;  // by block that was handed over and is not released
  std::size_t next_expected_ = 0;                     // of the blocks of others
  std::deque<Arrival> expected_;                      // not under way yet: there was no room
  std::deque<Arrival> arrivals_;                      // under way
  std::size_t arrival_count_ = 0;                     // that were ever under way
  std::unique_ptr<std::byte[]> arrived_;              // by place of the arrival
};

void SharedRead::plan() {
  by_stored_.resize(tensors_.size());
  std::iota(by_stored_.begin(), by_stored_.end(), std::size_t{0});
  std::ranges::stable_sort(by_stored_, {}, [&](std::size_t tensor) { return tensors_[tensor].stored; });
  for (const SharedTensor& tensor : tensors_) {
    const Shape& stored = reader_.manifest().tensors.at(tensor.stored).layout.global;
    regions_.emplace_back();
    mine_.emplace_back();
    for (std::size_t i = 0; i < tensor.holdings.size(); ++i) {
      const Holding& holding = tensor.holdings[i];
      invariant(!empty(holding.box) && contains(whole(tensor.as), holding.box), "what is needed lies in its tensor");
      if (tensor.as != stored) regions_.back().push_back(rows_in_view(holding.box, tensor.as, stored));
      if (std::ranges::binary_search(holding.ranks, ranks_.rank())) mine_.back().push_back(i);
    }
  }
  for (std::size_t first = 0, end = 0; first < by_stored_.size(); first = end) {
    const auto stored = [&](std::size_t at) { return tensors_[by_stored_[at]].stored; };
    while (end < by_stored_.size() && stored(end) == stored(first)) ++end;
    plan_stored(std::span(by_stored_).subspan(first, end - first));
  }
  const auto place = [](const NeededBlock& needed) {
    const IndexedPiece& piece = *needed.block.piece;
    return std::tuple(piece.file, piece.record.offset, needed.block.number);
  };
  std::ranges::sort(blocks_, {}, place);
  for (NeededBlock& needed : blocks_) {
    const std::size_t bytes = reader_.block_size(*needed.block.piece, needed.block.number);
    needed.owner = next_owner(*needed.sharers, bytes);
    const bool own = needed.owner == ranks_.rank();
    (own ? own_ : of_others_).push_back(needed);
    largest_ = std::max(largest_, bytes);
    if (own) most_packed_ = std::max(most_packed_, bytes * needed.wanted.size());
  }
  blocks_.clear();
}

void SharedRead::plan_stored(std::span<const std::size_t> wanted) {
  const std::size_t number = tensors_[wanted.front()].stored;
  std::set<const IndexedPiece*> pieces;
  for (const std::size_t tensor : wanted)
    for (const std::size_t holding : mine_[tensor])
      for (const IndexedPiece* piece : reader_.pieces_with(number, region_of(tensor, holding))) pieces.insert(piece);
  const auto size = static_cast<std::size_t>(size_of(reader_.manifest().tensors[number].layout.dtype));
  for (const IndexedPiece* piece : pieces) {
    for (std::size_t block = 0; block < piece->record.blocks.size(); ++block) {
      const std::size_t bytes = reader_.block_size(*piece, block);
      const Box part = box_around(piece->box, static_cast<std::int64_t>(block * block_bytes / size),
                                  static_cast<std::int64_t>(bytes / size));
      const std::vector<Rank> needed_by = ranks_that_need(part, wanted);
      if (!std::ranges::binary_search(needed_by, ranks_.rank())) continue;
      const auto sharers = shared_.try_emplace(needed_by).first;
      sharers->second.bytes += bytes;
      blocks_.push_back({{piece, block}, wanted, &*sharers, 0});
    }
  }
}

const Box& SharedRead::region_of(std::size_t tensor, std::size_t holding) const {
  return regions_[tensor].empty() ? tensors_[tensor].holdings[holding].box : regions_[tensor][holding];
}

std::vector<Rank> SharedRead::ranks_that_need(const Box& part, std::span<const std::size_t> wanted) const {
  std::vector<Rank> result;
  for (const std::size_t tensor : wanted) {
    for (std::size_t i = 0; i < tensors_[tensor].holdings.size(); ++i) {
      if (empty(intersect(region_of(tensor, i), part))) continue;
      const std::vector<Rank>& ranks = tensors_[tensor].holdings[i].ranks;
      result.insert(result.end(), ranks.begin(), ranks.end());
    }
  }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

void SharedRead::start(int threads) {
  std::vector<PieceBlock> blocks;
  for (const NeededBlock& needed : own_) blocks.push_back(needed.block);
  if (ranks_.size() > 1) {
    packed_ = std::make_unique_for_overwrite<std::byte[]>(blocks_in_work * most_packed_);
    arrived_ = std::make_unique_for_overwrite<std::byte[]>(blocks_in_work * largest_);
  }
  constexpr int least_threads = 2;  // one hashes while the other waits for the storage
  ahead_.emplace(reader_, std::move(blocks), blocks_in_work, largest_, std::max(threads, least_threads));
}

void SharedRead::run() {
  Backoff backoff;
  while (next_own_ < own_.size() || !sends_.empty() || next_expected_ < of_others_.size() || !expected_.empty() ||
         !arrivals_.empty()) {
    bool moved = hand_over();
    moved |= see_off();
    moved |= expect();
    moved |= take_in();
    if (moved) {
      backoff.moved();
    } else if (const double sleep_s = backoff.next_sleep_s(Backoff::Beside::waits); sleep_s > 0) {
      std::optional<Waiting> waiting;
      if (!waits_for_storage()) waiting.emplace();
      std::this_thread::sleep_for(std::chrono::duration<double>(sleep_s));
    }
  }
}

bool SharedRead::waits_for_storage() const {
  return next_own_ < own_.size() && next_own_ < ahead_->released() + ahead_->room();
}

// Nothing if the ranks of the holding need none of it.
std::optional<Share> SharedRead::share_of(const NeededBlock& needed, std::size_t tensor, std::size_t holding) const {
  const SharedTensor& wanted = tensors_[tensor];
  const IndexedPiece& piece = *needed.block.piece;
  const Layout& stored = reader_.manifest().tensors[wanted.stored].layout;
  const std::int64_t size = size_of(stored.dtype);
  const std::int64_t first = static_cast<std::int64_t>(needed.block.number * block_bytes) / size;
  const std::int64_t count = static_cast<std::int64_t>(reader_.block_size(piece, needed.block.number)) / size;
  const Box part = box_around(piece.box, first, count);
  const Box region = intersect(part, region_of(tensor, holding));
  if (empty(region)) return std::nullopt;
  Share share{tensor, holding, {}, 0};
  const auto add = [&](std::int64_t in_piece, std::int64_t in_box, std::int64_t length) {
    const std::int64_t begin = std::max(in_piece, first), end = std::min(in_piece + length, first + count);
    if (begin >= end) return;
    share.runs.push_back({begin - first, in_box + begin - in_piece, end - begin});
    share.bytes += static_cast<std::size_t>((end - begin) * size);
  };
  const Box& box = wanted.holdings[holding].box;
  if (wanted.as == stored.global) {
    for_each_run(region, piece.box, box, [&](const BoxRun& run) { add(run.in_a, run.in_b, run.length); });
  } else {  // views have the order of their elements in common
    std::vector<BoxRun> runs;
    for_each_run(box, whole(wanted.as), box, [&](const BoxRun& run) { runs.push_back(run); });
    auto next = runs.begin();
    for_each_run(part, whole(stored.global), piece.box, [&](const BoxRun& run) {
      const std::int64_t end = run.in_a + run.length;
      while (next != runs.end() && next->in_a + next->length <= run.in_a) ++next;
      for (auto it = next; it != runs.end() && it->in_a < end; ++it) {
        const std::int64_t from = std::max(run.in_a, it->in_a), to = std::min(end, it->in_a + it->length);
        add(run.in_b + from - run.in_a, it->in_b + from - it->in_a, to - from);
      }
    });
  }
  return share.bytes == 0 ? std::nullopt : std::optional(std::move(share));
}

Places SharedRead::places_of(std::size_t tensor, const Box& box) const {
  const SharedTensor& wanted = tensors_[tensor];
  const auto local = std::ranges::find(wanted.local, box, &StateBox::box);
  return {local == wanted.local.end() ? std::span<std::byte>() : local->bytes,
          static_cast<std::size_t>(size_of(reader_.manifest().tensors[wanted.stored].layout.dtype))};
}

bool SharedRead::hand_over() {
  if (next_own_ == own_.size() || next_own_ == ahead_->released() + ahead_->room()) return false;
  if (ranks_.size() > 1 && !ahead_->is_read(next_own_)) return false;
  const NeededBlock& needed = own_[next_own_];
  const std::span<const std::byte> block = ahead_->bytes(next_own_);
  std::span<std::byte> packed;
  if (packed_) packed = {packed_.get() + next_own_ % ahead_->room() * most_packed_, most_packed_};
  sends_.emplace_back();
  for (const std::size_t tensor : needed.wanted) {
    for (std::size_t holding = 0; holding < tensors_[tensor].holdings.size(); ++holding)
      if (const auto share = share_of(needed, tensor, holding)) send(*share, block, packed);
  }
  ++next_own_;
  return true;
}

// To all that need it, this rank among them. What is not consecutive in the block is packed.
void SharedRead::send(const Share& share, std::span<const std::byte> block, std::span<std::byte>& packed) {
  const Holding& holding = tensors_[share.tensor].holdings[share.holding];
  const Places places = places_of(share.tensor, holding.box);
  const auto part = [&](const BoxRun& run) {
    return block.subspan(static_cast<std::size_t>(run.in_a) * places.element,
                         static_cast<std::size_t>(run.length) * places.element);
  };
  if (std::ranges::binary_search(holding.ranks, ranks_.rank()) && !places.box.empty()) {
    for (const BoxRun& run : share.runs) {
      const std::span<const std::byte> bytes = part(run);
      std::memcpy(places.box.data() + static_cast<std::size_t>(run.in_b) * places.element, bytes.data(), bytes.size());
    }
  }
  std::span<const std::byte> message;
  for (const Rank rank : holding.ranks) {
    if (rank == ranks_.rank()) continue;
    if (message.empty() && share.runs.back().in_a + share.runs.back().length - share.runs.front().in_a ==
                               static_cast<std::int64_t>(share.bytes / places.element)) {
      message = block.subspan(static_cast<std::size_t>(share.runs.front().in_a) * places.element, share.bytes);
    } else if (message.empty()) {
      std::byte* out = packed.data();
      for (const BoxRun& run : share.runs) out = std::ranges::copy(part(run), out).out;
      message = packed.first(share.bytes);
      packed = packed.subspan(share.bytes);
    }
    sends_.back().push_back(ranks_.calls().send(message, rank));
  }
}

// Blocks whose messages have all arrived make room for others.
bool SharedRead::see_off() {
  bool moved = false;
  while (!sends_.empty() && (sends_.front().empty() || ranks_.calls().ended(sends_.front()))) {
    sends_.pop_front();
    ahead_->release();
    moved = true;
  }
  return moved;
}

bool SharedRead::expect() {
  bool moved = false;
  while (arrivals_.size() < blocks_in_work) {
    while (expected_.empty() && next_expected_ < of_others_.size()) {
      const NeededBlock& needed = of_others_[next_expected_++];
      for (const std::size_t tensor : needed.wanted)
        for (const std::size_t holding : mine_[tensor])
          if (auto share = share_of(needed, tensor, holding)) expected_.push_back({std::move(*share), needed.owner});
    }
    if (expected_.empty()) break;
    Arrival arrival = std::move(expected_.front());
    expected_.pop_front();
    const Share& share = arrival.share;
    const Places places = places_of(share.tensor, tensors_[share.tensor].holdings[share.holding].box);
    const bool consecutive = share.runs.back().in_b + share.runs.back().length - share.runs.front().in_b ==
                             static_cast<std::int64_t>(share.bytes / places.element);
    std::span<std::byte> into;
    if (consecutive && !places.box.empty()) {
      into = places.box.subspan(static_cast<std::size_t>(share.runs.front().in_b) * places.element, share.bytes);
    } else {
      into = {arrived_.get() + arrival_count_ % blocks_in_work * largest_, share.bytes};
      arrival.held = into;
    }
    ++arrival_count_;
    arrival.call = ranks_.calls().receive(into, arrival.from);
    arrivals_.push_back(std::move(arrival));
    moved = true;
  }
  return moved;
}

bool SharedRead::take_in() {
  bool moved = false;
  while (!arrivals_.empty() && ranks_.calls().ended({&arrivals_.front().call, 1})) {
    const Arrival& arrival = arrivals_.front();
    const Share& share = arrival.share;
    if (!arrival.held.empty())
      put_in_place(share, places_of(share.tensor, tensors_[share.tensor].holdings[share.holding].box), arrival.held);
    arrivals_.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace

void read_together(Communicator& ranks, const CheckpointReader& reader, std::span<const SharedTensor> tensors,
                   int threads, std::string_view what) {
  SharedRead shared(ranks, reader, tensors);
  together(ranks, what, [&] {
    shared.plan();
    shared.start(threads);
  });
  shared.run();
  together(ranks, what, [&] { shared.finish(); });
}

}  // namespace lockstep
