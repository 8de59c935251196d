#include "data/shard_verifier.hpp"

#include "comm/together.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {

struct ShardVerifier::State {
  int part = 0;
  int parts = 1;
  std::map<const TokenStream*, std::vector<bool>> in_use;  // of the thread that trains

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<std::pair<const TokenStream*, std::int64_t>> waiting;
  bool busy = false;
  std::exception_ptr problem;  // the first
  std::atomic<bool> given_up{false};
  std::thread thread;  // once there is work

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return given_up || !waiting.empty(); });
      if (given_up) return;
      const auto [stream, shard] = waiting.front();
      waiting.pop_front();
      busy = true;
      lock.unlock();
      std::exception_ptr found;
      try {
        stream->verify_shard(shard, [&] { return given_up.load(); });
      } catch (...) {
        found = std::current_exception();
      }
      lock.lock();
      if (!problem) problem = found;
      busy = false;
      changed.notify_all();
    }
  }

  void enqueue(const TokenStream& stream, std::int64_t shard) {
    const std::lock_guard lock(mutex);
    waiting.emplace_back(&stream, shard);
    if (!thread.joinable()) thread = std::thread([this] { work(); });
    changed.notify_all();
  }

  /// True if nothing is left to check, or so much is wrong that nothing needs to be.
  bool wait(std::chrono::seconds most) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, most, [&] { return problem || (waiting.empty() && !busy); });
  }
};

ShardVerifier::ShardVerifier() : ShardVerifier(1, 1) {}  // the second of one part: no shard

ShardVerifier::ShardVerifier(int part, int parts) : state_(std::make_unique<State>()) {
  state_->part = part;
  state_->parts = parts;
}

ShardVerifier::~ShardVerifier() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->given_up = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

void ShardVerifier::use(const TokenStream& stream, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  std::vector<bool>& in_use = state_->in_use[&stream];
  in_use.resize(static_cast<std::size_t>(stream.shards()));
  for (std::int64_t shard = stream.shard_at(begin); shard <= stream.shard_at(end - 1); ++shard) {
    if (in_use[static_cast<std::size_t>(shard)]) continue;
    in_use[static_cast<std::size_t>(shard)] = true;
    if (shard % state_->parts == state_->part) state_->enqueue(stream, shard);
  }
}

bool ShardVerifier::uses_all(const TokenStream& stream) const {
  const auto found = state_->in_use.find(&stream);
  return found != state_->in_use.end() && std::ranges::find(found->second, false) == found->second.end();
}

void ShardVerifier::check() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->problem) std::rethrow_exception(state_->problem);
}

void ShardVerifier::settle(Session& session) {
  Communicator& world = session.world();
  constexpr std::chrono::seconds round{5};  // so that the deadline starts again on ranks that wait for others
  for (std::int64_t unfinished = 1; unfinished > 0;) {
    session.enter(Phase::data, session.step());
    std::int64_t mine = 0;
    together(world, "verify the data", [&] {
      mine = state_->wait(round) ? 0 : 1;
      check();
    });
    unfinished = world.all_reduce(mine, Reduce::sum);
  }
}

}  // namespace lockstep
