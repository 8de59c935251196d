// Bytes of a run file of Weights & Biases (run-ID.wandb): a header, then records in the blocks of LevelDB's log format,
// each a message of wandb_internal.proto. report/wandb_sink.cpp decides which values are written. Source: the proto
// files and the reader of the wandb package, version 0.31. All Local.
#pragma once

#include "base/json_fwd.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The first bytes of a file.
std::string wandb_file_header();

/// The bytes that append `message` to a file of `size` bytes, header included.
std::string wandb_frames(std::string_view message, std::uint64_t size);

/// Facts about a run that W&B shows in addition to its numbers.
struct WandbRunFacts {
  std::string id;       // lower-case letters and digits; equal for all starts of a run
  std::string project;  // empty: wandb sync chooses
  std::string name;
  std::vector<std::string> tags;
  std::string host;
  double start_wall_s = 0;
  std::int64_t start_step = 0;  // steps done before this start
};

// Messages; `number` counts them from 1. Json objects map names to any values.
std::string wandb_version_message(std::int64_t number, std::string_view producer);
std::string wandb_run_message(std::int64_t number, const WandbRunFacts& run, const Json& config);
std::string wandb_history_message(std::int64_t number, std::int64_t step, const Json& values);
std::string wandb_summary_message(std::int64_t number, const Json& values);  // replaces values of equal names
std::string wandb_exit_message(std::int64_t number, std::int64_t exit_code, std::int64_t seconds);

}  // namespace lockstep
