// The main of the tests that run on several ranks. All ranks run the same cases in the same order (checked); rank 0
// prints TAP with what the ranks reported; the exit code is agreed; a case that hangs is ended by a watchdog that says
// which rank was where. LOCKSTEP_TEST_CASE_TIMEOUT: seconds a case may take (1700).
#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_ALTERNATIVE_INIT_API
#include "harness/mpi_test.hpp"

#include "base/clock.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/mpi_session.hpp"
#include "harness/tap.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace lockstep::test {

namespace {

Communicator* world_of_tests = nullptr;

/// Ends the process if what it was armed for takes too long.
class CaseWatchdog {
 public:
  explicit CaseWatchdog(int rank) : rank_(rank) {
    if (const char* text = std::getenv("LOCKSTEP_TEST_CASE_TIMEOUT")) limit_s_ = std::atof(text);
    thread_ = std::thread([this] { watch(); });
  }
  ~CaseWatchdog() {
    arm({});
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void arm(const std::string& what) {
    const std::lock_guard lock(mutex_);
    what_ = what;
    deadline_ = monotonic_seconds() + limit_s_;
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (what_.empty() || monotonic_seconds() < deadline_) continue;
      fmt::print(stderr, "watchdog: rank {}: '{}' ran longer than {} s\n", rank_, what_, limit_s_);
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the other ranks' chance to say where they are
      ::_exit(124);
    }
  }

  int rank_;
  double limit_s_ = 1700;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  double deadline_ = 0;
  bool over_ = false;
  std::thread thread_;
};

class MpiObserver final : public TapObserver {
 public:
  MpiObserver(Communicator& control, CaseWatchdog& watchdog) : control_(control), watchdog_(watchdog) {}
  void test_finish() override {
    if (control_.rank() != 0) return;
    print_plan();
    fmt::print("# {} passed, {} failed, {} skipped on {} ranks\n", count() - failed() - skipped_, failed(), skipped_,
               control_.size());
    std::fflush(stdout);
  }

 private:
  void case_started(const std::string& title) override {
    watchdog_.arm(title + " (waiting for the other ranks to start it)");
    const std::string first = control_.broadcast(title, 0);
    if (first != title) {
      fmt::print(stderr, "rank {} runs '{}' while rank 0 runs '{}'\n", control_.rank(), title, first);
      control_.abort(125);
    }
    watchdog_.arm(title);
  }
  void case_finished(const std::string& title, bool passed, const std::string& log) override {
    watchdog_.arm(title + " (done, waiting for the other ranks)");
    const std::vector<std::string> logs = control_.all_gather((passed ? "y" : "n") + log);
    watchdog_.arm({});
    if (control_.rank() != 0) return;
    std::string failed_ranks;
    std::string told;
    for (std::size_t rank = 0; rank < logs.size(); ++rank) {
      if (logs[rank].front() == 'y') continue;
      failed_ranks += fmt::format(" {}", rank);
      told += fmt::format("rank {}:\n{}", rank, logs[rank].substr(1));
    }
    print_result(title, failed_ranks.empty(),
                 failed_ranks.empty() ? "" : fmt::format("failed on rank{}\n{}", failed_ranks, told));
  }
  /// A case that runs on another number of ranks is no skipped test; one that this suite never runs is.
  void case_skipped(const std::string& title, const std::string& reason) override {
    const bool never = reason.find("needs") != std::string::npos;
    if (never) ++skipped_;
    if (control_.rank() != 0) return;
    if (never) {
      print_skip(title, reason);
    } else {
      fmt::print("# {} {}\n", title, reason.substr(reason.find("runs on")));
    }
  }

  Communicator& control_;
  CaseWatchdog& watchdog_;
  int skipped_ = 0;
};

constexpr int most_ranks = 8;  // that tests/meson.build starts a program with

boost::test_tools::assertion_result runs_on(bool wanted, int fewest, const std::string& need) {
  boost::test_tools::assertion_result result(wanted);
  result.message() << (fewest <= most_ranks ? "runs on " : "needs ") << need;
  return result;
}

}  // namespace

Communicator& world() { return *world_of_tests; }

boost::unit_test::precondition ranks(std::initializer_list<int> counts) {
  return boost::unit_test::precondition([counts = std::vector<int>(counts)](boost::unit_test::test_unit_id) {
    std::string need;
    bool wanted = false;
    for (const int count : counts) {
      need += (need.empty() ? "" : " or ") + std::to_string(count);
      wanted = wanted || count == world().size();
    }
    return runs_on(wanted, *std::min_element(counts.begin(), counts.end()), need + " ranks");
  });
}

boost::unit_test::precondition at_least(int ranks) {
  return boost::unit_test::precondition([ranks](boost::unit_test::test_unit_id) {
    return runs_on(world().size() >= ranks, ranks, fmt::format("at least {} ranks", ranks));
  });
}

void require_everywhere(bool holds, const char* expression, const char* file, int line) {
  BOOST_TEST(holds, file << ":" << line << ": " << expression);
  const std::int64_t failures = world().all_reduce(std::int64_t{holds ? 0 : 1}, Reduce::sum);
  if (failures > 0)
    throw std::runtime_error(fmt::format("'{}' does not hold on {} of {} ranks", expression, failures, world().size()));
}

}  // namespace lockstep::test

int main(int argc, char** argv) {
  using namespace lockstep;
  const MpiSession session;
  const std::unique_ptr<Communicator> world = mpi_world();
  const std::unique_ptr<Communicator> control = world->split(0, "test control");
  test::world_of_tests = world.get();
  test::CaseWatchdog watchdog(control->rank());
  test::MpiObserver observer(*control, watchdog);
  const int code = test::run_tests(observer, argc, argv);
  watchdog.arm("end of the tests");
  return static_cast<int>(control->all_reduce(std::int64_t{code}, Reduce::max));
}
