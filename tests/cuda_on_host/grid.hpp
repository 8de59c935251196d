// A grid of blocks on the host. The threads of a block are fibers that run one after another, in an order that a seed
// draws, from one barrier or shuffle to the next. A block that would wait for ever is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

namespace on_host {

/// Calls `thread` for each thread of each block; blocks run one after another, in a drawn order. Throws
/// std::runtime_error if the threads of a block disagree about a barrier or a shuffle.
void run_grid(std::int64_t blocks, unsigned threads, std::size_t dynamic_bytes, const std::function<void()>& thread);

/// Seeds the orders of threads and blocks.
void draw_orders(std::uint32_t seed);

/// While it lives, only the last `count` blocks of each grid run: for offsets that no memory could hold.
class LastBlocks {
 public:
  explicit LastBlocks(std::int64_t count);
  ~LastBlocks();
  LastBlocks(const LastBlocks&) = delete;
  LastBlocks& operator=(const LastBlocks&) = delete;
};

// For the thread that runs:
unsigned thread_index();
unsigned block_index();
unsigned threads_of_block();
unsigned blocks_of_grid();
void barrier(const std::source_location& where);
/// Hands `word` to the other lanes of the warp, and returns that of a lane.
std::uint64_t exchange(std::uint64_t word, unsigned mask, unsigned of_lane, const std::source_location& where);
/// A bit for each lane of the warp: whether its word is not 0.
unsigned ballot(bool holds, unsigned mask, const std::source_location& where);
/// Shared memory of the block, filled with NaN when it starts. `tag` is the variable.
void* shared_memory(const void* tag, std::size_t bytes);
void* dynamic_memory();

}  // namespace on_host
