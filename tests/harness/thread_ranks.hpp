// Ranks as threads of one process: enough of a communicator to test agreement among ranks, with any number of them and
// without a launcher.
#pragma once

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/local_work.hpp"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {

/// Messages that were sent and not yet received, by sender and receiver.
class Mail {
 public:
  void put(std::pair<int, int> way, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    letters_[way].emplace_back(bytes.begin(), bytes.end());
  }
  bool take(std::pair<int, int> way, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    std::deque<std::vector<std::byte>>& letters = letters_[way];
    if (letters.empty()) return false;
    invariant(letters.front().size() == bytes.size(), "a message has the length that its receiver expects");
    std::ranges::copy(letters.front(), bytes.begin());
    letters.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters_;
};

/// Non-blocking calls: only send and receive between two ranks. Messages from one rank must be received in the order of
/// their receive calls.
class ThreadCalls final : public NonBlocking {
 public:
  ThreadCalls(std::shared_ptr<Mail> mail, int rank, int size) : mail_(std::move(mail)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }
  Call send(std::span<const std::byte> bytes, int peer, Message) override {
    mail_->put({rank_, peer}, bytes);
    return {};
  }
  Call receive(std::span<std::byte> bytes, int peer, Message) override {
    receives_.push_back({peer, bytes});
    return {receives_.size()};
  }
  Call all_gather(std::span<const std::byte>, std::span<std::byte>) override { return none(); }
  Call broadcast(std::span<std::byte>, int) override { return none(); }
  Call barrier() override { return none(); }
  bool ended(std::span<Call> calls) override {
    for (Call& call : calls) {
      if (call.handle == 0) continue;
      const auto& [peer, bytes] = receives_[call.handle - 1];
      if (!mail_->take({peer, rank_}, bytes)) return false;
      call.handle = 0;
    }
    return true;
  }
  void agree_on_reading() override {}

 private:
  static Call none() { fail(ExitCode::bug, "ranks that are threads have no such call"); }
  std::shared_ptr<Mail> mail_;
  int rank_, size_;
  std::string name_ = "world";
  std::vector<std::pair<int, std::span<std::byte>>> receives_;
};

class ThreadRanks final : public Communicator {
 public:
  struct Shared {
    explicit Shared(int size) : barrier(size), texts(static_cast<std::size_t>(size)) {}
    std::barrier<> barrier;
    std::vector<std::string> texts;
    std::shared_ptr<Mail> mail = std::make_shared<Mail>();
  };
  ThreadRanks(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)), rank_(rank), calls_(shared_->mail, rank, static_cast<int>(shared_->texts.size())) {}
  NonBlocking& calls() override { return calls_; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_->texts.size()); }
  const std::string& name() const override { return name_; }
  void barrier() override {
    LocalWork::forbid_collective("a collective");
    shared_->barrier.arrive_and_wait();
  }
  std::vector<std::string> all_gather(const std::string& bytes) override {
    shared_->texts[static_cast<std::size_t>(rank_)] = bytes;
    barrier();
    std::vector<std::string> result = shared_->texts;
    barrier();
    return result;
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    const auto all = all_gather(rank_ == root ? std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())
                                              : std::string());
    std::memcpy(bytes.data(), all[static_cast<std::size_t>(root)].data(), bytes.size());
  }
  void all_reduce(std::span<std::byte> bytes, DType dtype, Reduce reduce) override {
    const auto all = all_gather(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      if (dtype == DType::f64) {
        combine<double>(all, at, reduce, bytes);
      } else if (dtype == DType::i64) {
        combine<std::int64_t>(all, at, reduce, bytes);
      } else {
        combine<std::uint64_t>(all, at, reduce, bytes);
      }
    }
  }
  std::vector<std::string> gather(const std::string& bytes, int root) override {
    std::vector<std::string> all = all_gather(bytes);
    return rank_ == root ? all : std::vector<std::string>{};
  }
  /// The first rank of a colour creates the shared state, and gives the others its address.
  std::unique_ptr<Communicator> split(int colour, const std::string& name) override {
    const std::vector<std::string> colours = all_gather(std::to_string(colour));
    std::vector<int> members;
    for (std::size_t rank = 0; rank < colours.size(); ++rank)
      if (colours[rank] == std::to_string(colour)) members.push_back(static_cast<int>(rank));
    std::shared_ptr<Shared> made;
    std::string address(sizeof(void*), '\0');
    if (members.front() == rank_) {
      made = std::make_shared<Shared>(static_cast<int>(members.size()));
      const std::shared_ptr<Shared>* const pointer = &made;
      std::memcpy(address.data(), &pointer, sizeof pointer);
    }
    const std::shared_ptr<Shared>* theirs = nullptr;
    std::memcpy(&theirs, all_gather(address)[static_cast<std::size_t>(members.front())].data(), sizeof theirs);
    const std::shared_ptr<Shared> mine = *theirs;
    barrier();  // until all ranks have copied it
    const auto rank = static_cast<int>(std::ranges::find(members, rank_) - members.begin());
    auto part = std::make_unique<ThreadRanks>(mine, rank);
    part->name_ = name;
    return part;
  }
  using Communicator::all_reduce;
  using Communicator::broadcast;

 private:
  template <class Value>
  static void combine(const std::vector<std::string>& all, std::size_t at, Reduce reduce, std::span<std::byte> out) {
    Value result{};
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      Value value{};
      std::memcpy(&value, all[rank].data() + at, sizeof value);
      if (rank == 0) {
        result = value;
      } else if (reduce == Reduce::sum) {
        result += value;
      } else {
        result = reduce == Reduce::min ? std::min(result, value) : std::max(result, value);
      }
    }
    std::memcpy(out.data() + at, &result, sizeof result);
  }
  std::shared_ptr<Shared> shared_;
  int rank_;
  ThreadCalls calls_;
  std::string name_ = "world";
};

/// Runs `work` on `size` ranks at once and returns each rank's exception, or null.
inline std::vector<std::exception_ptr> attempt_on_ranks(int size, const std::function<void(Communicator&)>& work) {
  const auto shared = std::make_shared<ThreadRanks::Shared>(size);
  std::vector<std::exception_ptr> problems(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(shared, rank);
      try {
        work(ranks);
      } catch (...) {
        problems[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return problems;
}

/// Runs `work` on `size` ranks at once and throws the first exception.
inline void on_ranks(int size, const std::function<void(Communicator&)>& work) {
  for (const std::exception_ptr& problem : attempt_on_ranks(size, work)) {
    if (problem) std::rethrow_exception(problem);
  }
}

}  // namespace lockstep::test
