#include "cuda_on_host/grid.hpp"

#include "cuda/stream.hpp"
#include "cuda_on_host/fiber.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace on_host {

namespace {

constexpr unsigned warp = 32;

enum class Stop { runs, barrier, shuffle, ended };

struct Thread {
  Fiber fiber;
  Stop stop = Stop::runs;
  std::source_location where;
  unsigned shuffles = 0;
  // The words of a shuffle stay until the second next one, when all lanes have read them.
  std::array<std::uint64_t, 2> words{};
};

/// Filled with 0xff: NaN for floating-point numbers.
std::vector<std::byte> poisoned(std::size_t bytes) { return std::vector<std::byte>(bytes, std::byte{0xff}); }

std::mt19937 orders;
std::int64_t last_blocks = std::numeric_limits<std::int64_t>::max();

struct Grid {
  std::int64_t blocks = 0, block = 0;
  unsigned threads = 0, thread = 0;
  const std::function<void()>* body = nullptr;
  std::map<const void*, std::vector<std::byte>> shared;
  std::vector<std::byte> dynamic;
  std::string failure;
};
Grid grid;
std::vector<Thread> pool;  // their stacks are used again

void leave(Stop stop, const std::source_location& where) {
  pool[grid.thread].stop = stop;
  pool[grid.thread].where = where;
  leave_fiber();
}

void run_thread() {
  (*grid.body)();
  leave(Stop::ended, std::source_location::current());
}

[[noreturn]] void fail(const std::string& what) {
  pool.clear();  // stacks with frames that nobody leaves
  throw std::runtime_error("block " + std::to_string(grid.block) + " of " + std::to_string(grid.blocks) + ": " + what);
}

/// Whether threads [begin, end) have stopped so, all at one place.
bool all_at(Stop stop, unsigned begin, unsigned end) {
  const std::source_location& first = pool[begin].where;
  if (pool[begin].stop != stop) return false;
  return std::all_of(pool.begin() + begin, pool.begin() + end, [&](const Thread& thread) {
    return thread.stop == stop && thread.where.line() == first.line() && thread.where.column() == first.column();
  });
}

bool release(unsigned begin, unsigned end, Stop stop) {
  if (!all_at(stop, begin, end)) return false;
  for (unsigned t = begin; t < end; ++t) pool[t].stop = Stop::runs;
  return true;
}

[[noreturn]] void explain_deadlock() {
  std::map<std::string, int> places;
  for (unsigned t = 0; t < grid.threads; ++t) {
    const Thread& thread = pool[t];
    if (thread.stop == Stop::ended)
      ++places["have ended"];
    else
      ++places["wait at " + std::string(thread.where.file_name()) + ":" + std::to_string(thread.where.line())];
  }
  std::ostringstream text;
  for (const auto& [place, count] : places) text << count << " threads " << place << "; ";
  fail(text.str() + "they wait for ever");
}

/// Lets each thread of a warp run to its next barrier or shuffle, in a drawn order. Returns whether it can go on.
bool run_warp(unsigned first) {
  std::array<unsigned, warp> lanes{};
  std::iota(lanes.begin(), lanes.end(), first);
  std::shuffle(lanes.begin(), lanes.end(), orders);
  for (const unsigned t : lanes) {
    if (pool[t].stop != Stop::runs) continue;
    grid.thread = t;
    pool[t].fiber.resume();
    if (!grid.failure.empty()) fail(grid.failure);
  }
  return release(first, first + warp, Stop::shuffle);
}

void run_block() {
  grid.shared.clear();
  std::fill(grid.dynamic.begin(), grid.dynamic.end(), std::byte{0xff});
  for (unsigned t = 0; t < grid.threads; ++t) {
    pool[t].stop = Stop::runs;
    pool[t].shuffles = 0;
    pool[t].fiber.start(run_thread);
  }
  std::vector<unsigned> ready;  // first threads of warps that can go on
  while (!all_at(Stop::ended, 0, grid.threads)) {
    for (unsigned first = 0; first < grid.threads; first += warp) ready.push_back(first);
    std::shuffle(ready.begin(), ready.end(), orders);
    // Either warps go on by turns, or one after another, as far as each can.
    const bool by_turns = orders() % 2 == 0;
    while (!ready.empty()) {
      const std::size_t chosen = by_turns ? orders() % ready.size() : ready.size() - 1;
      if (run_warp(ready[chosen])) continue;
      ready[chosen] = ready.back();
      ready.pop_back();
    }
    if (!release(0, grid.threads, Stop::barrier) && !all_at(Stop::ended, 0, grid.threads)) explain_deadlock();
  }
}

/// Stores the word of this thread and waits for its warp; returns the parity of the words.
unsigned meet(std::uint64_t word, unsigned mask, const std::source_location& where) {
  Thread& self = pool[grid.thread];
  const unsigned parity = self.shuffles++ % 2;
  self.words[parity] = word;
  if (mask != 0xffffffff) {
    grid.failure = "a shuffle of some lanes of a warp";
    leave(Stop::ended, where);
  }
  leave(Stop::shuffle, where);
  return parity;
}

}  // namespace

void run_grid(std::int64_t blocks, unsigned threads, std::size_t dynamic_bytes, const std::function<void()>& thread) {
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max()) fail("a grid of " + std::to_string(blocks));
  if (threads == 0 || threads % warp != 0 || threads > 1024) fail(std::to_string(threads) + " threads in a block");
  if (pool.size() < threads) pool.resize(threads);
  grid.blocks = blocks;
  grid.threads = threads;
  grid.body = &thread;
  grid.dynamic = poisoned(dynamic_bytes);
  grid.failure.clear();
  std::vector<std::int64_t> order(static_cast<std::size_t>(std::min(blocks, last_blocks)));
  std::iota(order.begin(), order.end(), blocks - static_cast<std::int64_t>(order.size()));
  std::shuffle(order.begin(), order.end(), orders);
  for (grid.block = 0; const std::int64_t block : order) {
    grid.block = block;
    run_block();
  }
}

void draw_orders(std::uint32_t seed) { orders.seed(seed); }

LastBlocks::LastBlocks(std::int64_t count) { last_blocks = count; }
LastBlocks::~LastBlocks() { last_blocks = std::numeric_limits<std::int64_t>::max(); }

unsigned thread_index() { return grid.thread; }
unsigned block_index() { return static_cast<unsigned>(grid.block); }
unsigned threads_of_block() { return grid.threads; }
unsigned blocks_of_grid() { return static_cast<unsigned>(grid.blocks); }

void barrier(const std::source_location& where) { leave(Stop::barrier, where); }

std::uint64_t exchange(std::uint64_t word, unsigned mask, unsigned of_lane, const std::source_location& where) {
  const unsigned parity = meet(word, mask, where);
  return pool[grid.thread / warp * warp + of_lane % warp].words[parity];
}

unsigned ballot(bool holds, unsigned mask, const std::source_location& where) {
  const unsigned parity = meet(holds ? 1 : 0, mask, where), first = grid.thread / warp * warp;
  unsigned bits = 0;
  for (unsigned lane = 0; lane < warp; ++lane) bits |= static_cast<unsigned>(pool[first + lane].words[parity]) << lane;
  return bits;
}

void* shared_memory(const void* tag, std::size_t bytes) {
  const auto [found, is_new] = grid.shared.try_emplace(tag);
  if (is_new) found->second = poisoned(bytes);
  return found->second.data();
}

void* dynamic_memory() { return grid.dynamic.data(); }

}  // namespace on_host

namespace lockstep::cuda {

CUstream_st* compute_stream() { return nullptr; }
CUstream_st* exchange_stream() { return nullptr; }

void* kernel_scratch(std::size_t bytes) {
  static std::vector<std::byte> memory;
  memory = std::vector<std::byte>(bytes, std::byte{0xff});  // elsewhere than before
  return memory.data();
}

void check_launch(int code) {
  if (code != 0) throw std::runtime_error("the launch of a kernel failed: error " + std::to_string(code));
}

}  // namespace lockstep::cuda
