#include "train/failed_saves.hpp"

#include <fmt/format.h>

#include <optional>

namespace lockstep {

namespace {

std::optional<std::int64_t> next_save(const TrainConfig& config, std::int64_t last, std::int64_t step) {
  if (const std::int64_t every = config.checkpoint.every.steps; every > 0) {
    const std::int64_t next = (step / every + 1) * every;
    if (next <= last) return next;
  }
  return config.checkpoint.at_end ? std::optional(last) : std::nullopt;
}

[[noreturn]] void end_run(const AgreedError& error, const std::string& count, const std::string& loss) {
  throw AgreedError(Error(ExitCode::storage, error.what() + count,
                          loss + "; free some space or repair the storage, and start the same command again"),
                    error.owner());
}

}  // namespace

std::string FailedSaves::on_save_failure(const AgreedError& error, std::int64_t step, std::int64_t current,
                                         AfterSave after) {
  ++in_a_row_;
  const std::string stays =
      current > 0 ? fmt::format("step {} stays current", current) : std::string("the run has no checkpoint yet");
  if (after == AfterSave::nothing)
    end_run(error, "", fmt::format("step {} is not saved, and no other save follows; {}", step, stays));
  if (in_a_row_ >= config_.checkpoint.max_failures)
    end_run(error,
            fmt::format(" (failed saves in a row: {}, checkpoint.max_failures is {})", in_a_row_,
                        config_.checkpoint.max_failures),
            stays);
  if (after == AfterSave::end_of_run) return fmt::format("{}\n  {}; no other save follows", error.what(), stays);
  const auto next = next_save(config_, length_.steps, step);
  const bool other_ways =
      config_.checkpoint.interval || config_.checkpoint.every != Cadence{.steps = config_.checkpoint.every.steps};
  return fmt::format("{}\n  {}; training continues, {}", error.what(), stays,
                     next         ? fmt::format("next attempt at step {}", *next)
                     : other_ways ? "next attempt by time or epoch"
                                  : "no other save is due");
}

}  // namespace lockstep
