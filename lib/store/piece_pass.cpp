#include "store/piece_pass.hpp"

#include "base/error.hpp"

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

constexpr std::size_t most_threads = 5;            // one or two compute while the others wait for the storage
constexpr std::uint64_t chunk_bytes = 1 << 16;     // stays in a core's own cache while it is copied, hashed and fingerprinted
constexpr std::uint64_t direct_from = 1 << 16;     // bytes of a piece from which direct I/O pays

// A part of a piece: what one thread does at once.
struct Block {
  std::size_t piece = 0;
  std::size_t number = 0;                          // in its piece
  Hash128 hash;
  Fingerprint fingerprint;
  std::vector<std::byte> rest;                     // its last bytes as they were hashed, which cannot go around the page cache
};

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, Free>;

AlignedMemory block_of_memory() {
  AlignedMemory memory(static_cast<std::byte*>(std::aligned_alloc(page_bytes, block_bytes)));
  if (!memory) throw std::bad_alloc();
  return memory;
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
  void take(Block& block, AlignedMemory& bounce) const;
  void write(Block& block, std::span<const std::byte> bytes) const;
  void write_rests() const;

  std::span<const HeldPiece> pieces_;
  std::vector<Block> blocks_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;                               // guards failure_
  std::exception_ptr failure_;
};

// Blocks that are written around the page cache and merely fingerprinted ones take turns, in proportion: the one kind keeps the storage busy,
// the other the processor. Those that go through the cache come last, for each would wait until all writes around it are done.
Pass::Pass(std::span<const HeldPiece> pieces) : pieces_(pieces) {
  std::vector<Block> around, read, through;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    const std::size_t count = (pieces[piece].bytes.size() + block_bytes - 1) / block_bytes;
    std::vector<Block>& kind = !pieces[piece].place ? read : goes_around(pieces[piece]) ? around : through;
    for (std::size_t number = 0; number < count; ++number) kind.push_back({piece, number, {}, {}, {}});
  }
  std::size_t taken = 0;
  for (std::size_t i = 0; i < read.size(); ++i) {
    while (taken * read.size() < (i + 1) * around.size()) blocks_.push_back(around[taken++]);
    blocks_.push_back(read[i]);
  }
  blocks_.insert(blocks_.end(), around.begin() + static_cast<std::ptrdiff_t>(taken), around.end());
  blocks_.insert(blocks_.end(), through.begin(), through.end());
}

std::vector<PieceRecord> Pass::run() {
  std::uint64_t bytes = 0;
  for (const HeldPiece& piece : pieces_) bytes += piece.bytes.size();
  std::vector<std::jthread> helpers;
  try {
    while (helpers.size() + 1 < most_threads && (helpers.size() + 1) * block_bytes < bytes) helpers.emplace_back([this] { work(); });
  } catch (const std::system_error&) {   // the system gives no more threads: fewer do the same
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
  for (const Block& block : blocks_) {
    records[block.piece].fingerprint += block.fingerprint;
    if (pieces_[block.piece].place) records[block.piece].blocks[block.number] = block.hash;
  }
  return records;
}

void Pass::work() noexcept {
  try {
    AlignedMemory bounce;
    for (std::size_t i = next_++; i < blocks_.size(); i = next_++) take(blocks_[i], bounce);
  } catch (...) {
    next_ = blocks_.size();
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

// Memory that is not aligned for direct I/O is copied first; what is hashed is then the copy, so that no byte can change in between.
void Pass::take(Block& block, AlignedMemory& bounce) const {
  const HeldPiece& held = pieces_[block.piece];
  const std::uint64_t begin = block.number * block_bytes;
  const auto bytes = held.bytes.subspan(begin, std::min<std::uint64_t>(block_bytes, held.bytes.size() - begin));
  const auto element = static_cast<std::uint64_t>(size_of(held.piece.dtype));
  const bool copies = goes_around(held) && reinterpret_cast<std::uintptr_t>(bytes.data()) % held.place->part->direct_alignment() != 0;
  if (copies && !bounce) bounce = block_of_memory();
  StreamHash hash;
  for (std::uint64_t done = 0; done < bytes.size(); done += chunk_bytes) {
    auto chunk = bytes.subspan(done, std::min<std::uint64_t>(chunk_bytes, bytes.size() - done));
    if (copies) {
      std::memcpy(bounce.get() + done, chunk.data(), chunk.size());
      chunk = {bounce.get() + done, chunk.size()};
    }
    if (held.place) hash.add(chunk);
    block.fingerprint += fingerprint(held.piece.global, held.piece.dtype, held.piece.box, chunk, static_cast<std::int64_t>((begin + done) / element));
  }
  if (!held.place) return;
  block.hash = hash.digest();
  write(block, copies ? std::span<const std::byte>(bounce.get(), bytes.size()) : bytes);
}

void Pass::write(Block& block, std::span<const std::byte> bytes) const {
  const PiecePlace& place = *pieces_[block.piece].place;
  const std::uint64_t offset = place.offset + block.number * block_bytes;
  const std::uint64_t done = goes_around(pieces_[block.piece]) ? place.part->write_around(bytes, offset) : 0;
  const auto rest = bytes.subspan(done);
  if (done > 0 && rest.size() < page_bytes) {
    block.rest.assign(rest.begin(), rest.end());
  } else {
    place.part->write_through(rest, offset + done);
  }
}

void Pass::write_rests() const {
  for (const Block& block : blocks_) {
    if (block.rest.empty()) continue;
    const HeldPiece& held = pieces_[block.piece];
    held.place->part->write_through(block.rest, held.place->offset + held.bytes.size() - block.rest.size());
  }
}

}  // namespace

std::vector<PieceRecord> pass_over(std::span<const HeldPiece> pieces) {
  for (const HeldPiece& held : pieces)
    invariant(held.bytes.size() == bytes_of(held.piece), fmt::format("{} has the bytes of its box {}", held.piece.tensor, to_text(held.piece.box)));
  return Pass(pieces).run();
}

}  // namespace lockstep
