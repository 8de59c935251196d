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

constexpr std::size_t most_threads = 3;            // one computes while the others wait for the storage
constexpr std::uint64_t chunk_bytes = 1 << 18;     // stays in a core's own cache while it is copied, hashed and fingerprinted
constexpr std::uint64_t direct_from = 1 << 20;     // bytes of a piece from which direct I/O pays

// A part of a piece: what one thread does at once.
struct Block {
  std::size_t piece = 0;
  std::size_t number = 0;                          // in its piece
  Hash128 hash;
  Fingerprint fingerprint;
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

class Pass {
 public:
  explicit Pass(std::span<const HeldPiece> pieces);
  std::vector<PieceRecord> run();

 private:
  void work() noexcept;
  void take(Block& block, AlignedMemory& bounce) const;

  std::span<const HeldPiece> pieces_;
  std::vector<Block> blocks_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;                               // guards failure_
  std::exception_ptr failure_;
};

// Written and merely fingerprinted blocks take turns, in proportion: the one kind keeps the storage busy, the other the processor.
Pass::Pass(std::span<const HeldPiece> pieces) : pieces_(pieces) {
  std::vector<Block> kinds[2];
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    const std::size_t count = (pieces[piece].bytes.size() + block_bytes - 1) / block_bytes;
    for (std::size_t number = 0; number < count; ++number) kinds[pieces[piece].place ? 0 : 1].push_back({piece, number, {}, {}});
  }
  std::size_t taken[2] = {0, 0};
  while (taken[0] + taken[1] < kinds[0].size() + kinds[1].size()) {
    const int kind = taken[0] * kinds[1].size() <= taken[1] * kinds[0].size() && taken[0] < kinds[0].size() ? 0 : 1;
    blocks_.push_back(kinds[kind][taken[kind]++]);
  }
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
  const std::uint64_t alignment = held.place && held.bytes.size() >= direct_from ? held.place->part->direct_alignment() : 0;
  const bool copies = alignment > 0 && reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0;
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
  held.place->part->write(copies ? std::span<const std::byte>(bounce.get(), bytes.size()) : bytes, held.place->offset + begin);
}

}  // namespace

std::vector<PieceRecord> pass_over(std::span<const HeldPiece> pieces) {
  for (const HeldPiece& held : pieces)
    invariant(held.bytes.size() == bytes_of(held.piece), fmt::format("{} has the bytes of its box {}", held.piece.tensor, to_text(held.piece.box)));
  return Pass(pieces).run();
}

}  // namespace lockstep
