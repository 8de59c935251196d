#include "architecture/context_parallel.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

void check_heads(const ModelConfig& config, std::int64_t tensor_ranks, const SequenceRanks& ranks) {
  const std::int64_t ulysses = ranks.ulysses;
  if (ulysses == 1) return;
  const std::int64_t all = tensor_ranks * ulysses;
  if (config.heads % all != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot divide {} heads among parallel.tp {} × parallel.ulysses {}: {} mod {} is {}",
                            config.heads, tensor_ranks, ulysses, config.heads, all, config.heads % all),
                "choose sizes whose product divides the number of heads");
  const std::int64_t keys = std::max<std::int64_t>(1, config.kv_heads / tensor_ranks);
  if (keys % ulysses != 0 && ulysses % keys != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot divide {} key heads{} among parallel.ulysses {}: {} mod {} is {}, and {} mod {} is "
                            "{}",
                            keys, tensor_ranks > 1 ? fmt::format(" per rank of parallel.tp {}", tensor_ranks) : "",
                            ulysses, keys, ulysses, keys % ulysses, ulysses, keys, ulysses % keys),
                "choose a parallel.ulysses that divides the number of key heads, or is a multiple of it");
}

}  // namespace lockstep
