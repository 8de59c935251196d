#include "store/piece_pass.hpp"

#include "base/error.hpp"
#include "base/free_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace lockstep {

namespace {

constexpr std::size_t most_threads = 5;  // one or two compute while the others wait for the storage
constexpr std::uint64_t chunk_bytes =
    1 << 16;  // stays in a core's own cache while it is copied, hashed and fingerprinted
constexpr std::uint64_t direct_from = 1 << 16;  // bytes of a piece from which direct I/O pays

constexpr std::uint64_t longest_stretch = block_bytes + block_bytes / 2;

// A part of a piece: what one thread does at once. One block, or the last two where the last is short: short writes
// keep the storage less busy.
struct Stretch {
  std::size_t piece = 0;
  std::uint64_t begin = 0;  // bytes of the piece before it: whole blocks
  std::uint64_t bytes = 0;
  std::vector<Hash128> blocks;  // their hashes
  Fingerprint fingerprint;
  std::vector<std::byte> rest;  // its last bytes as they were hashed, which cannot go around the page cache
};

using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;

AlignedMemory stretch_of_memory() {
  AlignedMemory memory(static_cast<std::byte*>(std::aligned_alloc(page_bytes, longest_stretch)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

std::vector<Stretch> stretches_of(std::size_t piece, std::uint64_t bytes) {
  std::vector<Stretch> stretches;
  for (std::uint64_t begin = 0; begin < bytes; begin += stretches.back().bytes) {
    const std::uint64_t left = bytes - begin;
    stretches.push_back({piece, begin, left <= longest_stretch ? left : block_bytes, {}, {}, {}});
  }
  return stretches;
}

bool goes_around(const HeldPiece& held) {
  return held.place && held.bytes.size() >= direct_from && held.place->part->direct_alignment() > 0;
}

class Pass {
 public:
  explicit Pass(std::span<const HeldPiece> pieces);
  std::vector<PieceRecord> run();

 private:
  void work() noexcept;
  void take(Stretch& stretch, AlignedMemory& bounce) const;
  void add_block(Stretch& stretch, std::uint64_t begin, std::byte* copy) const;
  void write(Stretch& stretch, std::span<const std::byte> bytes) const;
  void write_rests() const;

  std::span<const HeldPiece> pieces_;
  std::vector<Stretch> stretches_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // guards failure_
  std::exception_ptr failure_;
};

// What is written around the page cache and what is merely fingerprinted take turns, in proportion: the one kind keeps
// the storage busy, the other the processor. What goes through the cache comes last, for each such write would wait
// until all writes around it are done.
Pass::Pass(std::span<const HeldPiece> pieces) : pieces_(pieces) {
  std::vector<Stretch> around, read, through;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    std::vector<Stretch>& kind = !pieces[piece].place ? read : goes_around(pieces[piece]) ? around : through;
    for (Stretch& stretch : stretches_of(piece, pieces[piece].bytes.size())) kind.push_back(std::move(stretch));
  }
  std::size_t taken = 0;
  for (std::size_t i = 0; i < read.size(); ++i) {
    while (taken * read.size() < (i + 1) * around.size()) stretches_.push_back(around[taken++]);
    stretches_.push_back(read[i]);
  }
  stretches_.insert(stretches_.end(), around.begin() + static_cast<std::ptrdiff_t>(taken), around.end());
  stretches_.insert(stretches_.end(), through.begin(), through.end());
}

std::vector<PieceRecord> Pass::run() {
  std::uint64_t bytes = 0;
  for (const HeldPiece& piece : pieces_) bytes += piece.bytes.size();
  std::vector<std::jthread> helpers;
  try {
    while (helpers.size() + 1 < most_threads && (helpers.size() + 1) * block_bytes < bytes)
      helpers.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // the system gives no more threads: fewer do the same
  }
  work();
  helpers.clear();
  if (failure_) std::rethrow_exception(failure_);
  write_rests();
  std::vector<PieceRecord> records(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].place) continue;
    records[i].offset = pieces_[i].place->offset;
    records[i].blocks.resize((pieces_[i].bytes.size() + block_bytes - 1) / block_bytes);
  }
  for (const Stretch& stretch : stretches_) {
    PieceRecord& record = records[stretch.piece];
    record.fingerprint += stretch.fingerprint;
    std::copy(stretch.blocks.begin(), stretch.blocks.end(),
              record.blocks.begin() + static_cast<std::ptrdiff_t>(stretch.begin / block_bytes));
  }
  return records;
}

void Pass::work() noexcept {
  try {
    AlignedMemory bounce;
    for (std::size_t i = next_++; i < stretches_.size(); i = next_++) take(stretches_[i], bounce);
  } catch (...) {
    next_ = stretches_.size();
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

// Memory that is not aligned for direct I/O is copied first; what is hashed is then the copy, so that no byte can
// change in between.
void Pass::take(Stretch& stretch, AlignedMemory& bounce) const {
  const HeldPiece& held = pieces_[stretch.piece];
  const auto bytes = held.bytes.subspan(stretch.begin, stretch.bytes);
  const bool copies =
      goes_around(held) && reinterpret_cast<std::uintptr_t>(bytes.data()) % held.place->part->direct_alignment() != 0;
  if (copies && !bounce) bounce = stretch_of_memory();
  for (std::uint64_t done = 0; done < stretch.bytes; done += block_bytes)
    add_block(stretch, stretch.begin + done, copies ? bounce.get() + done : nullptr);
  if (held.place) write(stretch, copies ? std::span<const std::byte>(bounce.get(), bytes.size()) : bytes);
}

// The block of the piece that begins there; copied first if there is a place for the copy.
void Pass::add_block(Stretch& stretch, std::uint64_t begin, std::byte* copy) const {
  const HeldPiece& held = pieces_[stretch.piece];
  const auto bytes = held.bytes.subspan(begin, std::min<std::uint64_t>(block_bytes, held.bytes.size() - begin));
  const auto element = static_cast<std::uint64_t>(size_of(held.piece.dtype));
  StreamHash hash;
  for (std::uint64_t done = 0; done < bytes.size(); done += chunk_bytes) {
    auto chunk = bytes.subspan(done, std::min<std::uint64_t>(chunk_bytes, bytes.size() - done));
    if (copy != nullptr) {
      std::memcpy(copy + done, chunk.data(), chunk.size());
      chunk = {copy + done, chunk.size()};
    }
    if (held.place) hash.add(chunk);
    stretch.fingerprint += fingerprint(held.piece.global, held.piece.dtype, held.piece.box, chunk,
                                       static_cast<std::int64_t>((begin + done) / element));
  }
  if (held.place) stretch.blocks.push_back(hash.digest());
}

void Pass::write(Stretch& stretch, std::span<const std::byte> bytes) const {
  const PiecePlace& place = *pieces_[stretch.piece].place;
  const std::uint64_t offset = place.offset + stretch.begin;
  const std::uint64_t done = goes_around(pieces_[stretch.piece]) ? place.part->write_around(bytes, offset) : 0;
  const auto rest = bytes.subspan(done);
  if (done > 0 && rest.size() < page_bytes) {
    stretch.rest.assign(rest.begin(), rest.end());
  } else {
    place.part->write_through(rest, offset + done);
  }
}

void Pass::write_rests() const {
  for (const Stretch& stretch : stretches_) {
    if (stretch.rest.empty()) continue;
    const PiecePlace& place = *pieces_[stretch.piece].place;
    place.part->write_through(stretch.rest, place.offset + stretch.begin + stretch.bytes - stretch.rest.size());
  }
}

}  // namespace

std::vector<PieceRecord> pass_over(std::span<const HeldPiece> pieces) {
  for (const HeldPiece& held : pieces)
    invariant(held.bytes.size() == bytes_of(held.piece),
              fmt::format("{} has the bytes of its box {}", held.piece.tensor, to_text(held.piece.box)));
  return Pass(pieces).run();
}

}  // namespace lockstep
