#include "train/end_report.hpp"

#include "base/process.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "tensor/live_memory.hpp"
#include "train/stopped_run.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// The most memory that each rank has had at once, by rank.
struct PeakMemory {
  std::vector<std::int64_t> host;
  std::vector<std::int64_t> device;  // of tensors; empty: the CPU computes
};

RunJournal::Summaries summaries(const EndFacts& facts, const PeakMemory& peaks) {
  const TrainState& now = facts.state;
  return facts.loop.sum_up({.reason = facts.end == LoopEnd::finished ? "finished" : "stopped",
                            .exit_code = exit_code_of(facts.end),
                            .step = now.step,
                            .tokens = now.tokens,
                            .datasets = facts.plan.uses_by_name(facts.config, now),
                            .skipped = now.skipped,
                            .global_batch = facts.plan.batch.global_batch,
                            .peak_memory_bytes = peaks.host,
                            .peak_device_memory_bytes = peaks.device,
                            .loss = now.loss,
                            .eval_loss = now.eval_loss,
                            .checkpoint = facts.loop.last_checkpoint(),
                            .records_lost = 0});
}

/// The peaks of all ranks; on rank 0. Collective over `world`.
PeakMemory peak_memory_of_ranks(Communicator& world) {
  PeakMemory peaks;
  for (const std::string& kib : world.gather(std::to_string(holdings_of_process().peak_kib), 0))
    peaks.host.push_back(std::stoll(kib) * 1024);
  if (!this_device().properties().is_host)
    for (const std::string& bytes : world.gather(std::to_string(peak_live_bytes()), 0))
      peaks.device.push_back(std::stoll(bytes));
  return peaks;
}

/// The most of some ranks: "1.5 GiB of memory per rank, on rank 3".
std::string most_text(const std::vector<std::int64_t>& bytes) {
  const auto most = std::ranges::max_element(bytes);
  std::string text = human_bytes(static_cast<std::uint64_t>(*most)) + " of memory";
  if (bytes.size() > 1) text += fmt::format(" per rank, on rank {}", most - bytes.begin());
  return text;
}

/// Speeds and memory, in one line.
std::string performance_text(const SummaryRecord& record, std::int64_t length) {
  std::string text;
  if (record.speed_from_step)
    text =
        fmt::format("from step {} on {:.3g} steps/s, {} samples/s, {} tokens/s, {}FLOP/s{}; ", *record.speed_from_step,
                    *record.steps_per_s, human_count(*record.samples_per_s),
                    human_count(*record.samples_per_s * static_cast<double>(length)), human_count(*record.flops_per_s),
                    record.mfu ? fmt::format(", MFU {:.3g} %", 100 * *record.mfu) : "");
  text += "at most " + most_text(record.peak_memory_bytes);
  if (!record.peak_device_memory_bytes.empty())
    text += "; for tensors on the device at most " + most_text(record.peak_device_memory_bytes);
  return text;
}

/// What the same command would do after exit code 75.
std::string next_start_text(const TrainConfig& config, const SummaryRecord& record) {
  if (!saves_all(config.checkpoint))
    return "the same command cannot resume from here: checkpoint.components omits state that resuming needs";
  const bool seen_by_all = !record.checkpoint || step_within(*record.checkpoint, config.train.run_dir);
  return seen_by_all ? "the same command resumes from here" : "the same command resumes from here on the same nodes";
}

/// Positions, as the plan counts them, and the trained labels if they are fewer.
std::string tokens_text(const SummaryRecord& run) {
  const std::string all = human_count(static_cast<double>(run.positions)) + " tokens";
  if (run.tokens == run.positions) return all;
  return fmt::format("{} ({} labels trained)", all, human_count(static_cast<double>(run.tokens)));
}

void log_end(Log& log, const TrainConfig& config, const RunJournal::Summaries& sums) {
  const auto& [record, run] = sums;
  log.info("{} at step {}: loss {}{}, {} in {}{}", record.reason, record.step,
           record.loss ? fmt::format("{:.4f}", *record.loss) : "unknown",
           record.eval_loss ? fmt::format(", validation loss {:.4f}", *record.eval_loss) : "", tokens_text(run),
           human_seconds(run.wall_s), record.checkpoint ? ", last checkpoint " + *record.checkpoint : "");
  log.info("{}", performance_text(record, config.data.sequence_length));
  if (record.exit_code == static_cast<int>(ExitCode::verdict))
    log.warning("asked to stop a second time: steps after the last checkpoint are not saved");
}

}  // namespace

int exit_code_of(LoopEnd end) {
  switch (end) {
    case LoopEnd::finished: return static_cast<int>(ExitCode::done);
    case LoopEnd::stopped_saved: return static_cast<int>(ExitCode::stopped);
    case LoopEnd::stopped_now: return static_cast<int>(ExitCode::verdict);
  }
  return static_cast<int>(ExitCode::bug);
}

std::string report_end(const EndFacts& facts, Communicator& world, RunFiles& files, Log& log) {
  log.debug("left the loop after step {}", facts.state.step);
  const PeakMemory peaks = peak_memory_of_ranks(world);
  const bool stopped = facts.end == LoopEnd::stopped_saved;
  const std::string reason = stopped ? agreed_stop_reason(facts.loop.stop_reason(), world) : "";
  if (world.rank() != 0) return {};
  RunJournal::Summaries sums = summaries(facts, peaks);
  SummaryRecord& record = sums.start;
  files.records().flush();
  record.records_lost = files.records().lost();
  files.report_end(record, sums.run);
  if (!facts.had_finished) log_end(log, facts.config, sums);
  if (record.records_lost > 0) log.warning("{} records could not be written", record.records_lost);
  if (!stopped) return {};
  return stopped_text(fmt::format("stopped by {} after step {}, progress saved", reason, facts.state.step),
                      next_start_text(facts.config, record));
}

}  // namespace lockstep
