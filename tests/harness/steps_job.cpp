// steps-job FOLDER STEPS [INJECTION] [WATCHDOG_S] [CHANNEL]: a training loop without training, for the tests of what
// ends a job: steps with phases, a lane, a heartbeat, stop channels and a status file in FOLDER. Every rank that leaves
// in good order says so: "rank 1 left after step 3". CHANNEL control:RANK or clock:RANK: that rank alone looks at
// FOLDER/control (else rank 0), or has a clock that runs out in half a second. A failure in "forward" or "backward"
// drains to the heartbeat, as an engine does; one in "optimizer" is nobody's.
#include "app/run_tool.hpp"
#include "app/status_file.hpp"
#include "comm/heartbeat.hpp"
#include "comm/lane.hpp"
#include "comm/stop.hpp"
#include "comm/together.hpp"

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

namespace {

using namespace lockstep;

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

int run_steps(Session& session, StopChannels& channels, CommunicationLane& lane, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    double value = 0;
    const std::exception_ptr failure = compute(session, step, value);
    std::vector<double> gradients(1000, value);
    session.enter(Phase::reduction, step);
    lane.wait(lane.all_reduce(std::as_writable_bytes(std::span(gradients)), DType::f64, Reduce::sum));
    session.enter(Phase::optimizer, step);
    session.enter(Phase::heartbeat, step);
    const HeartbeatData beat =
        heartbeat(session.world(), {.loss_sum = gradients.front(), .stop = channels.poll().stop, .failure = failure});
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

int run_job_of_steps(Session& session, const Path& folder, std::int64_t steps, const std::string& channel) {
  session.accept_stop_signals();
  together(session.world(), "write status.json", [&] { keep_status(session, folder); });
  StopChannels channels(session, channels_of(channel, session.world().rank(), folder));
  CommunicationLane lane(session, "gradients");
  together(session.world(), "start", [&] { session.enter(Phase::start_up); });
  if (session.world().rank() == 0) fmt::print(stderr, "all ranks have started\n");
  try {
    return run_steps(session, channels, lane, steps);
  } catch (...) {
    session.claim_report();
    if (channel == "slow end") std::this_thread::sleep_for(std::chrono::seconds(5));
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments = prepare_process(argc, argv);
  Tool tool;
  tool.name = "steps-job";
  return run_job(tool, {}, parallel_job, [&](Session& session, Log&) {
    if (arguments.size() < 2)
      throw Error(ExitCode::usage, "too few arguments", "FOLDER STEPS [INJECTION] [WATCHDOG_S] [CHANNEL]");
    Session::Settings settings{.watchdog_s = arguments.size() > 3 ? std::stod(arguments[3]) : 60,
                               .phase_limits_s = {{Phase::start_up, 60}},
                               .folder = arguments[0]};
    if (arguments.size() > 2 && !arguments[2].empty()) settings.injection = parse_injection(arguments[2]);
    session.configure(settings);
    return run_job_of_steps(session, arguments[0], std::stoll(arguments[1]), arguments.size() > 4 ? arguments[4] : "");
  });
}
