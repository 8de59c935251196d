#include "prepare/output_turn.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "comm/together.hpp"

#include <chrono>
#include <thread>

namespace lockstep {

namespace {

constexpr double between_attempts_s = 2;

// All ranks come back every few seconds: waiting for another job is no failure.
void wait(Session& session) {
  session.enter(Phase::data);
  together(session.world(), "wait for another job", [&] {
    const double start_s = monotonic_seconds();
    while (monotonic_seconds() - start_s < between_attempts_s) {
      end_if_stopped(session);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
}

}  // namespace

std::optional<OutputPaths> take_turn(Session& session, Log& log, std::unique_ptr<OutputFolder>& output,
                                     const std::function<std::unique_ptr<OutputFolder>()>& make,
                                     const std::function<bool()>& is_there) {
  Communicator& world = session.world();
  for (bool told = false; true; wait(session)) {
    if (is_there()) return std::nullopt;
    session.enter(Phase::data);
    const std::string answer = run_on_rank0(world, "start", [&] {
      try {
        output = make();
      } catch (const LockHeld& held) {
        if (!told) log.info("waiting: {}", held.what());
        told = true;
        return to_text(Json());
      }
      make_folder(output->content());
      make_folder(output->scratch());
      return to_text({output->content().string(), output->scratch().string()});
    });
    const Json paths = parse_json(answer, "folders of the output");
    if (!paths.is_null()) return OutputPaths{paths[0].get<std::string>(), paths[1].get<std::string>()};
  }
}

}  // namespace lockstep
