#include "reshard/filled_ahead.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

namespace lockstep {

std::uint64_t most_in_work(std::span<const Portion> portions, std::uint64_t memory) {
  std::uint64_t most = 0;
  for (std::size_t first = 0; first < portions.size(); ++first) {
    std::uint64_t sum = 0;
    for (std::size_t i = first; i < std::min(first + portions_in_work, portions.size()); ++i) {
      if (i > first && sum + portions[i].memory > memory) break;
      sum += portions[i].memory;
    }
    most = std::max(most, sum);
  }
  return most;
}

FilledAhead::FilledAhead(std::vector<Portion> portions, std::uint64_t memory,
                         std::function<void(std::size_t, std::span<std::byte>)> fill)
    : portions_(std::move(portions)), memory_(memory), fill_(std::move(fill)) {
  try {
    thread_.emplace([this] { work(); });
  } catch (const std::system_error&) {  // the system gives no more threads
  }
}

FilledAhead::~FilledAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  has_room_.notify_all();
}

FilledAhead::Pages FilledAhead::pages_of(std::uint64_t bytes) {
  Pages pages;
  {
    const std::lock_guard lock(mutex_);
    pages = std::exchange(spare_, {});
  }
  if (pages.room >= bytes) return pages;
  pages = {};
  const std::uint64_t room = rounded_up(bytes, page_bytes);
  pages = {std::unique_ptr<std::byte, FreeMemory>(static_cast<std::byte*>(std::aligned_alloc(page_bytes, room))), room};
  if (!pages.memory) throw std::bad_alloc();
  return pages;
}

FilledAhead::Pages FilledAhead::filled(std::size_t portion) {
  const std::uint64_t bytes = portions_[portion].bytes;
  if (bytes == 0) return {};
  Pages pages = pages_of(bytes);
  fill_(portion, {pages.memory.get(), bytes});
  return pages;
}

bool FilledAhead::may_fill() const {
  return filled_ == released_ ||
         (filled_ < released_ + portions_in_work && in_work_ + portions_[filled_].memory <= memory_);
}

void FilledAhead::work() {
  for (std::size_t portion = 0; portion < portions_.size(); ++portion) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return ends_ || may_fill(); });
    if (ends_) return;
    in_work_ += portions_[portion].memory;
    lock.unlock();
    Pages pages;
    std::exception_ptr failure;
    try {
      pages = filled(portion);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    if (!failure) {
      pages_.push_back(std::move(pages));
      ++filled_;
    }
    is_filled_.notify_all();
    if (failure) return;
  }
}

std::span<const std::byte> FilledAhead::next() {
  invariant(released_ < portions_.size(), "there is a portion left");
  if (!thread_ && filled_ == released_) {
    pages_.push_back(filled(released_));
    ++filled_;
  }
  std::unique_lock lock(mutex_);
  is_filled_.wait(lock, [this] { return filled_ > released_ || failure_; });
  if (filled_ == released_) std::rethrow_exception(failure_);
  return {pages_.front().memory.get(), portions_[released_].bytes};
}

void FilledAhead::release() {
  Pages pages;  // goes without the lock
  {
    const std::lock_guard lock(mutex_);
    pages = std::move(pages_.front());
    pages_.pop_front();
    if (thread_) in_work_ -= portions_[released_].memory;
    ++released_;
    if (pages.room > spare_.room && in_work_ + pages.room <= memory_) std::swap(pages, spare_);
  }
  has_room_.notify_one();
}

}  // namespace lockstep
