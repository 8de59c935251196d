#include "checkpoint/shared_read.hpp"

#include "base/error.hpp"
#include "comm/operation.hpp"
#include "comm/together.hpp"
#include "comm/waiting.hpp"
#include "device/device.hpp"
#include "layout/box_runs.hpp"
#include "store/read_ahead.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

// What of a block the ranks of a holding get: consecutive elements each, of the block (in_a) and of their box (in_b).
struct Share {
  std::size_t tensor = 0;
  const Box* box = nullptr;
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
  Region box;               // of this rank; empty: it has none
  std::size_t element = 1;  // bytes
  Region of(const BoxRun& run) const {
    return part_of(box, static_cast<std::size_t>(run.in_b) * element, static_cast<std::size_t>(run.length) * element);
  }
};

void put_in_place(const Share& share, const Places& places, std::span<const std::byte> bytes) {
  for (const BoxRun& run : share.runs) {
    const std::size_t length = static_cast<std::size_t>(run.length) * places.element;
    if (places.box.bytes > 0) write_region(bytes.first(length), places.of(run));
    bytes = bytes.subspan(length);
  }
}

// One load of one rank. Every rank goes through the blocks in one order, that of the files: whoever reads a block
// that is due has handed over all before it, and who needs it has taken all before it. So none waits for ever, whatever
// little memory there is.
class SharedRead {
 public:
  SharedRead(Communicator& ranks, const CheckpointReader& reader, std::span<const SharedTensor> tensors,
             const FileAccess& access)
      : ranks_(ranks), reader_(reader), tensors_(tensors), access_(access) {}

  void plan() { plan_.emplace(reader_, tensors_, ranks_.rank(), access_); }
  void start(int threads);  // from here on nothing fails but communication, until finish() tells
  void run();
  void finish() { ahead_->finish(); }

 private:
  std::optional<Share> share_of(const NeededBlock& needed, std::size_t tensor, const Box& box) const;
  Places places_of(std::size_t tensor, const Box& box) const;
  bool hand_over();
  void send(const Share& share, std::span<const Rank> to, std::span<const std::byte> block,
            std::span<std::byte>& packed);
  bool see_off();
  bool expect();
  bool take_in();
  bool waits_for_storage() const;

  Communicator& ranks_;
  const CheckpointReader& reader_;
  std::span<const SharedTensor> tensors_;
  const FileAccess& access_;
  std::optional<ReadPlan> plan_;
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

void SharedRead::start(int threads) {
  std::vector<PieceBlock> blocks;
  for (const NeededBlock& needed : plan_->own()) blocks.push_back(needed.block);
  if (ranks_.size() > 1) {
    packed_ = std::make_unique_for_overwrite<std::byte[]>(blocks_in_work * plan_->most_packed());
    arrived_ = std::make_unique_for_overwrite<std::byte[]>(blocks_in_work * plan_->largest());
  }
  constexpr int least_threads = 2;  // one hashes while the other waits for the storage
  ahead_.emplace(reader_, std::move(blocks), blocks_in_work, plan_->largest(), std::max(threads, least_threads));
}

void SharedRead::run() {
  Backoff backoff;
  while (next_own_ < plan_->own().size() || !sends_.empty() || next_expected_ < plan_->of_others().size() ||
         !expected_.empty() || !arrivals_.empty()) {
    bool moved = hand_over();
    moved |= see_off();
    moved |= expect();
    moved |= take_in();
    if (moved) {
      backoff.moved();
    } else if (const double sleep_s = backoff.next_sleep_s(Backoff::Caller::waits); sleep_s > 0) {
      std::optional<Waiting> waiting;
      if (!waits_for_storage()) waiting.emplace();
      std::this_thread::sleep_for(std::chrono::duration<double>(sleep_s));
    }
  }
}

bool SharedRead::waits_for_storage() const {
  return next_own_ < plan_->own().size() && next_own_ < ahead_->released() + ahead_->room();
}

// Nothing if the box has none of it.
std::optional<Share> SharedRead::share_of(const NeededBlock& needed, std::size_t tensor, const Box& box) const {
  const SharedTensor& wanted = tensors_[tensor];
  const IndexedPiece& piece = *needed.block.piece;
  const Layout& stored = reader_.manifest().tensors[wanted.stored].layout;
  const std::int64_t size = size_of(stored.dtype);
  const std::int64_t first = static_cast<std::int64_t>(needed.block.number * block_bytes) / size;
  const std::int64_t count = static_cast<std::int64_t>(reader_.block_size(piece, needed.block.number)) / size;
  const Box part = plan_->box_around_block(needed.block);
  Share share{tensor, &box, {}, 0};
  for (const BoxRun& run : runs_between(part, piece.box, stored.global, box, wanted.as)) {
    const std::int64_t begin = std::max(run.in_a, first), end = std::min(run.in_a + run.length, first + count);
    if (begin >= end) continue;
    share.runs.push_back({begin - first, run.in_b + begin - run.in_a, end - begin});
    share.bytes += static_cast<std::size_t>((end - begin) * size);
  }
  return share.bytes == 0 ? std::nullopt : std::optional(std::move(share));
}

Places SharedRead::places_of(std::size_t tensor, const Box& box) const {
  const SharedTensor& wanted = tensors_[tensor];
  const auto local = std::ranges::find(wanted.local, box, &StateRegion::box);
  return {local == wanted.local.end() ? Region() : local->memory,
          static_cast<std::size_t>(size_of(reader_.manifest().tensors[wanted.stored].layout.dtype))};
}

bool SharedRead::hand_over() {
  if (next_own_ == plan_->own().size() || next_own_ == ahead_->released() + ahead_->room()) return false;
  if (ranks_.size() > 1 && !ahead_->is_read(next_own_)) return false;
  const NeededBlock& needed = plan_->own()[next_own_];
  const std::span<const std::byte> block = ahead_->bytes(next_own_);
  std::span<std::byte> packed;
  if (packed_) packed = {packed_.get() + next_own_ % ahead_->room() * plan_->most_packed(), plan_->most_packed()};
  sends_.emplace_back();
  for (const std::size_t tensor : needed.wanted) {
    for (const Holding* holding : plan_->holdings_with(needed.block, tensor))
      if (const auto share = share_of(needed, tensor, holding->box)) send(*share, holding->ranks, block, packed);
  }
  ++next_own_;
  return true;
}

// To all that need it, this rank among them. What is not consecutive in the block is packed.
void SharedRead::send(const Share& share, std::span<const Rank> to, std::span<const std::byte> block,
                      std::span<std::byte>& packed) {
  const Places places = places_of(share.tensor, *share.box);
  const auto part = [&](const BoxRun& run) {
    return block.subspan(static_cast<std::size_t>(run.in_a) * places.element,
                         static_cast<std::size_t>(run.length) * places.element);
  };
  if (std::ranges::binary_search(to, ranks_.rank()) && places.box.bytes > 0)
    for (const BoxRun& run : share.runs) write_region(part(run), places.of(run));
  std::span<const std::byte> message;
  for (const Rank rank : to) {
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
    while (expected_.empty() && next_expected_ < plan_->of_others().size()) {
      const NeededBlock& needed = plan_->of_others()[next_expected_++];
      for (const std::size_t tensor : needed.wanted)
        for (const Box& box : plan_->boxes(tensor))
          if (auto share = share_of(needed, tensor, box)) expected_.push_back({std::move(*share), needed.owner});
    }
    if (expected_.empty()) break;
    Arrival arrival = std::move(expected_.front());
    expected_.pop_front();
    const Share& share = arrival.share;
    const Places places = places_of(share.tensor, *share.box);
    const bool consecutive = share.runs.back().in_b + share.runs.back().length - share.runs.front().in_b ==
                             static_cast<std::int64_t>(share.bytes / places.element);
    std::span<std::byte> into;
    if (consecutive && places.box.bytes > 0 && is_host_memory(places.box)) {
      into = host_bytes(places.box)
                 .subspan(static_cast<std::size_t>(share.runs.front().in_b) * places.element, share.bytes);
    } else {
      into = {arrived_.get() + arrival_count_ % blocks_in_work * plan_->largest(), share.bytes};
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
    if (!arrival.held.empty()) put_in_place(share, places_of(share.tensor, *share.box), arrival.held);
    arrivals_.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace

void read_together(Communicator& ranks, const CheckpointReader& reader, std::span<const SharedTensor> tensors,
                   int threads, std::string_view what, const FileAccess& access) {
  SharedRead shared(ranks, reader, tensors, access);
  together(ranks, what, [&] {
    shared.plan();
    shared.start(threads);
  });
  shared.run();
  together(ranks, what, [&] { shared.finish(); });
}

void share_tables(Communicator& ranks, const CheckpointReader& reader, const FileAccess& access,
                  std::string_view what) {
  std::string mine;
  const auto each = [&](const auto& act) {
    for (std::size_t file = 0; file < access.readers.size(); ++file)
      if (std::ssize(access.readers[file]) < ranks.size() && reader.manifest().files[file].path != index_file)
        act(file);
  };
  together(ranks, what, [&] {
    each([&](std::size_t file) {
      if (access.readers[file].front() == ranks.rank()) mine += reader.table_bytes(file);
    });
  });
  if (access.readers.empty()) return;
  const std::vector<std::string> told = ranks.all_gather(mine);
  std::vector<std::size_t> taken(told.size(), 0);
  each([&](std::size_t file) {
    std::size_t bytes = 0;
    for (const ByteRange& column : reader.manifest().files[file].table) bytes += column.bytes;
    const auto teller = static_cast<std::size_t>(access.readers[file].front());
    if (!std::ranges::binary_search(access.readers[file], ranks.rank()))
      reader.take_table(file, told[teller].substr(taken[teller], bytes));
    taken[teller] += bytes;
  });
}

}  // namespace lockstep
