// Blocks of a checkpoint in the order in which one taker wants them: a few threads read and check them before they are
// asked for, so that the storage always has something to do and hashing takes several processors. They read one after
// the other, for a system fetches ahead of who reads a file from front to back. One block at a time, without threads:
// store/checkpoint_reader.hpp.
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

/// Members are for the one thread that takes the blocks. Local.
class ReadAhead {
 public:
  /// Begins to read. At most `room` blocks, each of at most `largest` bytes, are held at a time; the memory is there
  /// when this returns. The reader outlives the object. Throws std::bad_alloc, std::system_error.
  ReadAhead(const CheckpointReader& reader, std::vector<PieceBlock> blocks, std::size_t room, std::size_t largest,
            int threads);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  const std::vector<PieceBlock>& blocks() const { return blocks_; }
  std::size_t room() const { return room_; }
  std::size_t released() const { return released_; }
  /// Whether bytes(block) would not wait.
  bool is_read(std::size_t block) const;
  /// Waits for a block, one of the next `room` that are not released. Where it or one before it cannot be read, these
  /// bytes mean nothing, and finish() throws: a taker that others depend on takes all blocks nevertheless.
  std::span<const std::byte> bytes(std::size_t block) const;
  /// The first block that is held is needed no more.
  void release();
  /// When all are released: throws what the first block that failed threw.
  void finish();

 private:
  void work();
  std::span<std::byte> place_of(std::size_t block) const;
  const CheckpointReader& reader_;
  std::vector<PieceBlock> blocks_;
  std::size_t room_;
  std::size_t largest_;
  std::unique_ptr<std::byte[]> memory_;
  std::mutex storage_;  // for who reads: guards the next
  OpenPart part_;
  mutable std::mutex mutex_;  // guards what follows; taken behind the other
  mutable std::condition_variable is_read_, has_room_;
  std::vector<bool> read_;    // by place
  std::size_t next_ = 0;      // that a thread takes
  std::size_t released_ = 0;  // written by the taker alone
  bool ends_ = false;
  std::size_t failed_ = 0;  // the first block that could not be read, where there is a failure
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  // last: they end before the rest goes
};

}  // namespace lockstep
