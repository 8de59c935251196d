// steps-job FOLDER STEPS [INJECTION] [WATCHDOG_S] [CHANNEL]: a training loop without training, for the tests of what
// ends a job: steps with phases, a lane, a heartbeat, stop channels and a status file in FOLDER. Every rank that leaves
// in good order says so: "rank 1 left after step 3". CHANNEL control:RANK or clock:RANK: that rank alone looks at
// FOLDER/control (else rank 0), or has a clock that runs out in half a second; operation:KIND, large operation:KIND:
// steps do this in place of a reduction, with more than goes by messages. A failure in "forward" or "backward" drains
// to the heartbeat, as an engine does; one in "optimizer" is nobody's. CHANNEL "slow end": a rank that fails takes 2 s
// longer to end than the watchdog waits.
#include "app/run_tool.hpp"
#include "app/status_file.hpp"
#include "comm/heartbeat.hpp"
#include "comm/stop.hpp"
#include "comm/together.hpp"
#include "comm/transport.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

namespace {

using namespace lockstep;

constexpr int heartbeat_lane = 0, gradients_lane = 1, all_ranks = 0;

/// Computes a step's number, or says why it cannot.
std::exception_ptr compute(Session& session, std::int64_t step, double& value) {
  try {
    session.enter(Phase::forward, step);
    value = session.take_injected_nan() ? std::numeric_limits<double>::quiet_NaN() : 1;
    session.enter(Phase::backward, step);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// What a step communicates beside its heartbeat: the sum of its gradients, or another operation of theirs.
class Communication {
 public:
  Communication(Transport& transport, const std::string& kind, std::size_t length)
      : transport_(transport), kind_(kind), values_(length), other_(length) {
    const auto ranks = static_cast<std::int64_t>(transport.members(all_ranks).size());
    const std::int64_t share = static_cast<std::int64_t>(length) / ranks;
    map_ = {.whole_length = static_cast<std::int64_t>(length), .shard_length = share, .pieces = {}};
    for (std::int64_t rank = 0; rank < ranks; ++rank) map_.pieces.push_back({{rank * share, 0, share}});
    counts_.assign(static_cast<std::size_t>(ranks), share);
  }

  /// Fills the gradients with `value` and returns one of them.
  double run(int rank, double value) {
    std::ranges::fill(values_, value);
    transport_.wait(issue(rank));
    return values_.front();
  }

 private:
  Ticket issue(int rank) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values_)),
                               other = std::as_writable_bytes(std::span(other_));
    const int last = static_cast<int>(counts_.size()) - 1;
    const std::size_t share = static_cast<std::size_t>(map_.shard_length) * sizeof(double);
    const std::size_t even = share * counts_.size();
    if (kind_ == "all_gather")
      return transport_.all_gather(gradients_lane, all_ranks, bytes.first(share), other, map_, DType::f64);
    if (kind_ == "reduce_scatter")
      return transport_.reduce_scatter(gradients_lane, all_ranks, bytes, other.first(share), map_, DType::f64);
    if (kind_ == "broadcast") return transport_.broadcast(gradients_lane, all_ranks, last, other);
    if (kind_ == "all_to_all_v")
      return transport_.all_to_all_v(gradients_lane, all_ranks, bytes.first(even), counts_, other.first(even), counts_,
                                     DType::f64);
    if (kind_ == "shift") return transport_.shift(gradients_lane, all_ranks, bytes, other, DType::f64);
    const bool lasts_part =
        (kind_ == "send" || kind_ == "receive") && last > 0;  // what the last rank does with the first
    if (lasts_part && rank != 0 && rank != last) return {};
    if (lasts_part && (kind_ == "send") == (rank == last))
      return transport_.send(gradients_lane, all_ranks, rank == 0 ? last : 0, bytes);
    if (lasts_part) return transport_.receive(gradients_lane, all_ranks, rank == 0 ? last : 0, other, gradients_lane);
    return transport_.all_reduce(gradients_lane, all_ranks, bytes, DType::f64, Reduce::sum);
  }

  Transport& transport_;
  std::string kind_;
  std::vector<double> values_, other_;
  ShardMap map_;
  std::vector<std::int64_t> counts_;
};

int run_steps(Session& session, StopChannels& channels, Transport& transport, Communication gradients,
              std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    double value = 0;
    const std::exception_ptr failure = compute(session, step, value);
    session.enter(Phase::reduction, step);
    value = gradients.run(session.world().rank(), value);
    session.enter(Phase::optimizer, step);
    session.enter(Phase::heartbeat, step);
    const HeartbeatData beat = heartbeat(transport, heartbeat_lane, all_ranks, session.world(),
                                         {.loss_sum = value, .stop = channels.poll().stop, .failure = failure});
    if (!std::isfinite(beat.loss_sum))
      throw Error(ExitCode::numerics, fmt::format("loss is not finite in step {}", step));
    if (beat.stop != StopLevel::none || step + 1 == steps) {
      fmt::print("rank {} left after step {}\n", session.world().rank(), step);
      std::fflush(stdout);
      return static_cast<int>(beat.stop == StopLevel::none ? ExitCode::done : ExitCode::stopped);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;
}

/// Which ways to stop this rank has, of those that one rank alone has.
StopChannels::Settings channels_of(const std::string& channel, int rank, const Path& folder) {
  const auto ends_with_me = channel.ends_with(fmt::format(":{}", rank));
  if (channel.starts_with("clock"))
    return {.control_file = {}, .max_time_s = ends_with_me ? std::optional(0.5) : std::nullopt};
  const bool looks = channel.starts_with("control") ? ends_with_me : rank == 0;
  return {.control_file = looks ? folder / "control" : Path(), .max_time_s = {}};
}

/// "operation:KIND" or "large operation:KIND".
Communication communication_of(Transport& transport, const std::string& channel) {
  const std::size_t at = channel.find("operation:");
  return {transport, at == std::string::npos ? "all_reduce" : channel.substr(at + 10),
          channel.starts_with("large") ? std::size_t{1'500'000} : std::size_t{1000}};
}

int run_job_of_steps(Session& session, const Path& folder, std::int64_t steps, const std::string& channel,
                     double watchdog_s) {
  session.accept_stop_signals();
  together(session.world(), "write status.json", [&] { keep_status(session, folder); });
  StopChannels channels(session, channels_of(channel, session.world().rank(), folder));
  Transport transport(session, make_mesh("world", {{"all", session.world().size()}}), {"heartbeat", "gradients"},
                      {{"all"}});
  together(session.world(), "start", [&] { session.enter(Phase::start_up); });
  if (session.world().rank() == 0) fmt::print(stderr, "all ranks have started\n");
  try {
    return run_steps(session, channels, transport, communication_of(transport, channel), steps);
  } catch (...) {
    session.claim_report();
    if (channel == "slow end") std::this_thread::sleep_for(std::chrono::duration<double>(watchdog_s + 2));
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments = prepare_process(argc, argv);
  Tool tool;
  tool.name = "steps-job";
  return run_job(tool, {}, {}, parallel_job, [&](Session& session, Log&) {
    if (arguments.size() < 2)
      throw Error(ExitCode::usage, "too few arguments", "FOLDER STEPS [INJECTION] [WATCHDOG_S] [CHANNEL]");
    Session::Settings settings{.watchdog_s = arguments.size() > 3 ? std::stod(arguments[3]) : 60,
                               .phase_limits_s = {{Phase::start_up, 300}},
                               .folder = arguments[0]};
    if (arguments.size() > 2 && !arguments[2].empty()) settings.injection = parse_injection(arguments[2]);
    session.configure(settings);
    return run_job_of_steps(session, arguments[0], std::stoll(arguments[1]), arguments.size() > 4 ? arguments[4] : "",
                            settings.watchdog_s);
  });
}
