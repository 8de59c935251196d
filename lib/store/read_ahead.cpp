#include "store/read_ahead.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

ReadAhead::ReadAhead(const CheckpointReader& reader, std::vector<PieceBlock> blocks, std::size_t room,
                     std::size_t largest, int threads)
    : reader_(reader),
      blocks_(std::move(blocks)),
      room_(std::clamp<std::size_t>(blocks_.size(), 1, room)),
      largest_(largest),
      memory_(std::make_unique_for_overwrite<std::byte[]>(room_ * largest)),
      read_(room_, false) {
  const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), blocks_.size());
  try {
    while (threads_.size() < wanted) threads_.emplace_back([this] { work(); });
  } catch (...) {  // the system gives no more threads: fewer do the same
    if (threads_.empty()) throw;
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  has_room_.notify_all();
}

std::span<std::byte> ReadAhead::place_of(std::size_t block) const {
  const PieceBlock& wanted = blocks_[block];
  return {memory_.get() + block % room_ * largest_, reader_.block_size(*wanted.piece, wanted.number)};
}

// Of blocks that fail it is the first one that counts: all before it were taken before, so it is the same each time.
void ReadAhead::work() {
  while (true) {
    std::unique_lock storage(storage_);
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return ends_ || next_ == blocks_.size() || next_ < released_ + room_; });
    if (ends_ || next_ == blocks_.size()) return;
    const std::size_t block = next_++;
    std::exception_ptr failure;
    if (!failure_) {
      lock.unlock();
      const PieceBlock& wanted = blocks_[block];
      try {
        reader_.fetch_block(*wanted.piece, wanted.number, part_, place_of(block));
        storage.unlock();
        reader_.check_block(*wanted.piece, wanted.number, place_of(block));
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
    }
    if (failure && (!failure_ || block < failed_)) {
      failure_ = failure;
      failed_ = block;
    }
    read_[block % room_] = true;
    is_read_.notify_all();
  }
}

bool ReadAhead::is_read(std::size_t block) const {
  const std::lock_guard lock(mutex_);
  return block < released_ + room_ && read_[block % room_];
}

std::span<const std::byte> ReadAhead::bytes(std::size_t block) const {
  invariant(block >= released_ && block < released_ + room_ && block < blocks_.size(),
            "a block is taken while there is room for it");
  std::unique_lock lock(mutex_);
  is_read_.wait(lock, [&] { return read_[block % room_]; });
  return place_of(block);
}

void ReadAhead::release() {
  {
    const std::lock_guard lock(mutex_);
    read_[released_ % room_] = false;
    ++released_;
  }
  has_room_.notify_one();
}

void ReadAhead::finish() {
  const std::lock_guard lock(mutex_);
  invariant(released_ == blocks_.size(), "all blocks are taken before the reading is over");
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace lockstep
