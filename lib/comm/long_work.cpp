#include "comm/long_work.hpp"

#include "comm/local_work.hpp"
#include "comm/together.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <thread>

namespace lockstep {

namespace {

/// Ends work that is no longer wanted: another rank says why.
struct WorkAbandoned {};

}  // namespace

void long_work_together(Session& session, std::string_view what,
                        const std::function<void(const std::function<void()>& alive)>& work) {
  Communicator& world = session.world();
  std::atomic<std::int64_t> signs{0};
  std::atomic<bool> failed{false}, given_up{false};
  std::packaged_task<void()> task([&] {
    const LocalWork local;
    try {
      work([&] {
        ++signs;
        end_if_stopped(session);
        if (given_up) throw WorkAbandoned();
      });
    } catch (const WorkAbandoned&) {
    } catch (...) {
      failed = true;
      throw;
    }
  });
  std::future<void> outcome = task.get_future();
  const std::jthread thread(std::move(task));
  session.enter(Phase::data);
  std::int64_t seen = 0;
  for (std::int64_t unfinished = 1; unfinished > 0;) {
    const bool done = outcome.wait_for(std::chrono::milliseconds(200)) == std::future_status::ready;
    if (done || seen != signs) session.enter(Phase::data);  // restarts the deadline
    seen = signs;
    unfinished = world.all_reduce(std::int64_t{done ? 0 : 1}, Reduce::sum);
    if (unfinished > 0) given_up = world.all_reduce(std::int64_t{failed ? 1 : 0}, Reduce::max) > 0;
  }
  together(world, what, [&] { outcome.get(); });
}

}  // namespace lockstep
