// Reads blocks of a checkpoint ahead, in the order in which one thread takes them. A few threads read and check them,
// so that the storage is never idle and several processors hash. Only one thread reads at a time, because the system
// prefetches for sequential reads. One block at a time, without threads: store/checkpoint_reader.hpp.
#pragma once

#include "store/checkpoint_reader.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace lockstep {

struct PieceBlock {
  const IndexedPiece* piece = nullptr;
  std::size_t number = 0;  // within the piece
};

/// One thread calls all members and takes the blocks. Local.
class ReadAhead {
 public:
  /// Begins to read. At most `room` blocks, each of at most `largest` bytes, are held at a time; their memory is
  /// allocated when this returns. The reader outlives the object. Throws std::bad_alloc, std::system_error.
  ReadAhead(const CheckpointReader& reader, std::vector<PieceBlock> blocks, std::size_t room, std::size_t largest,
            int threads);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  const std::vector<PieceBlock>& blocks() const { return blocks_; }
  std::size_t room() const { return room_; }
  std::size_t released() const { return released_; }
  /// Returns whether bytes(block) would return without waiting.
  bool is_read(std::size_t block) const;
  /// Waits for one of the next `room` blocks that are not released. If it or an earlier block cannot be read, its bytes
  /// are undefined and finish() throws. A taker on which others depend still takes all blocks.
  std::span<const std::byte> bytes(std::size_t block) const;
  /// Releases the first block that is held.
  void release();
  /// Throws the exception of the first block that failed. All blocks must be released.
  void finish();

 private:
  void work();
  std::span<std::byte> place_of(std::size_t block) const;
  const CheckpointReader& reader_;
  std::vector<PieceBlock> blocks_;
  std::size_t room_;
  std::size_t largest_;
  std::unique_ptr<std::byte[]> memory_;
  std::mutex storage_;  // for reading threads; guards the next member
  OpenPart part_;
  mutable std::mutex mutex_;  // guards the following members; locked after storage_
  mutable std::condition_variable is_read_, has_room_;
  std::vector<bool> read_;    // by place
  std::size_t next_ = 0;      // next block that a thread takes
  std::size_t released_ = 0;  // written only by the taker
  bool ends_ = false;
  std::size_t failed_ = 0;  // the first block that could not be read, if there is a failure
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  // last member: they end before the others are destroyed
};

}  // namespace lockstep
