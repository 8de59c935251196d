#include "app/run_tool.hpp"

#include "app/status_file.hpp"
#include "base/mapped_file.hpp"
#include "comm/failure.hpp"
#include "comm/launch.hpp"
#include "comm/start_watch.hpp"
#include "comm/waiting.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

constexpr double patience_s = 2;          // for the other ranks to fail in the same way
constexpr double agreed_patience_s = 30;  // for ranks that are known to be on their way

/// How the work ended on this rank.
struct Outcome {
  int code = 0;
  std::optional<Failure> failure;
  std::optional<int> owner;  // of a failure that all ranks know of: who explains it
};

Outcome try_work(const Communicator& world, const std::function<int()>& work) {
  try {
    return {.code = work(), .failure = {}, .owner = {}};
  } catch (const AgreedError& error) {
    return {.code = static_cast<int>(error.code()),
            .failure = failure_of(std::current_exception(), world),
            .owner = error.owner()};
  } catch (...) {
    const Failure failure = failure_of(std::current_exception(), world);
    return {.code = static_cast<int>(failure.code), .failure = failure, .owner = {}};
  }
}

/// A rank's code, and a mark that is equal where the failure is.
std::uint64_t word_of(const Outcome& outcome) {
  const std::uint64_t mark = outcome.failure ? std::hash<std::string>()(outcome.failure->message) >> 32 | 1u : 0;
  return static_cast<std::uint64_t>(outcome.code) << 32 | mark;
}
int code_of(std::uint64_t word) { return static_cast<int>(word >> 32); }

Error error_of(const Failure& failure, const std::string& where) {
  return {failure.code, where.empty() ? failure.message : where + ": " + failure.message, failure.hint};
}

void explain_once(const Tool& tool, const CommonOptions& common, Log::Format format, Session& session,
                  const Error& error) {
  Log({.program = tool.name, .level = common.log_level, .color = common.color, .format = format}).failure(error);
  session.report_end(error.what(), static_cast<int>(error.code()));
}

std::optional<std::vector<std::uint64_t>> gather(Job& job, std::uint64_t word, double patience) {
  const Waiting waiting;
  return job.gather_outcomes(word, patience);
}

/// Makes the ranks' outcomes one: returns the code that all return, after the rank it belongs to has explained it.
int agree(const Tool& tool, const CommonOptions& common, Log::Format format, Job& job, Session& session,
          const Outcome& mine) {
  const int rank = session.world().rank();
  const double patience = mine.owner ? agreed_patience_s : mine.failure ? patience_s : -1;
  if (mine.failure) session.claim_report();
  const auto words = gather(job, word_of(mine), patience);
  if (!words) {
    const Failure failure = mine.failure.value_or(Failure{.code = ExitCode::communication,
                                                          .message = "the other ranks do not answer at the end",
                                                          .hint = {},
                                                          .host = {}});
    if (mine.owner) session.abort_with(failure.message, static_cast<int>(failure.code), failure.hint);
    session.abort_with(failure);
  }
  const auto worst = std::max_element(words->begin(), words->end(), [](std::uint64_t a, std::uint64_t b) {
    return severity(static_cast<ExitCode>(code_of(a))) < severity(static_cast<ExitCode>(code_of(b)));
  });
  const bool shared = std::all_of(words->begin(), words->end(), [&](std::uint64_t word) { return word == *worst; });
  const int explains = shared && mine.owner ? *mine.owner : static_cast<int>(worst - words->begin());
  if (rank == explains) {
    if (mine.failure) {
      explain_once(tool, common, format, session, error_of(*mine.failure, shared ? "" : session.where()));
    } else {
      session.report_end({}, mine.code);
    }
  }
  return code_of(*worst);
}

/// Where ranks have other numbers than a user would expect.
void tell_numbers(const Communicator& world, Log& log) {
  const std::vector<Rank> launched = world.launcher_ranks();
  int others = 0;
  for (int rank = 0; rank < world.size(); ++rank) others += launched[static_cast<std::size_t>(rank)] != rank ? 1 : 0;
  if (others == 0) return;
  if (world.rank() == 0)
    log.info(
        "ranks are renumbered so that those of a node are consecutive: {} of {} differ from the launcher's numbers "
        "(--log-level debug lists them)",
        others, world.size());
  log.debug("rank {} on {} is the launcher's rank {}", world.rank(), host_name(),
            launched[static_cast<std::size_t>(world.rank())]);
}

/// Null in a job of one process, which waits for nobody.
std::unique_ptr<StartWatch> watch_start(const StartUp& start_up) {
  if (launch_of_process().ranks == 1) return nullptr;
  StartWatch::Settings settings{.limit_s = start_up.limit_s};
  if (!start_up.run_dir.empty())
    settings.on_end = [run = start_up.run_dir](const Session::End& how) { record_failed_start(run, how); };
  return std::make_unique<StartWatch>(std::move(settings));
}

void warn_of_torchrun(Log& log) {
  if (const int processes = ranks_of_torchrun(); processes > 1)
    log.warning(
        "torchrun started {} processes (WORLD_SIZE), but each of them is a separate job with one rank: start "
        "the ranks of one job with mpirun -n {} or srun",
        processes, processes);
}

Session* session_of_process = nullptr;  // for the handler below, which takes no arguments

[[noreturn]] void explain_uncaught() {
  const Failure failure = std::current_exception()
                              ? failure_of(std::current_exception(), session_of_process->world())
                              : Failure{.message = "ended without an exception", .hint = {}, .host = {}};
  session_of_process->abort_with(failure);
}

}  // namespace

int with_dialect_keys(const Settings& settings, const std::function<int()>& work) {
  const auto in_words = [&](const Error& error) {
    const std::string keys = error.code() == ExitCode::usage ? dialect_keys_of(error, settings) : "";
    return Error(error.code(), error.what() + keys, hint_in_dialect(error.hint(), settings));
  };
  try {
    return work();
  } catch (const AgreedError& error) {
    throw AgreedError(in_words(error), error.owner());
  } catch (const Error& error) {
    throw in_words(error);
  }
}

std::vector<std::string> prepare_process(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  handle_bus_errors();
  // The lowest free descriptor is the one that was closed. Standard output is opened for reading: writing results to it
  // must fail.
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1) (void)::open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
  }
  return {argv + std::min(argc, 1), argv + argc};
}

int give_answer(const Tool& tool, const std::string& answer) {
  if (launch_of_process().rank != 0) return 0;
  Log log({.program = tool.name});
  try {
    Output output({}, {}, log);
    output.print(answer);
    output.close();
    return 0;
  } catch (const Error& error) {
    log.failure(error);
    return static_cast<int>(error.code());
  }
}

int run_job(const Tool& tool, const CommonOptions& common, const StartUp& start_up, const StartJob& start,
            const std::function<int(Session&, Log&)>& work) {
  Log log({.program = tool.name, .level = common.log_level, .color = common.color});
  warn_of_torchrun(log);
  std::unique_ptr<StartWatch> watch = watch_start(start_up);
  std::unique_ptr<Job> job;
  try {
    job = start(tool.name);
  } catch (const Error& error) {
    // No agreement without a job: the first process explains, and the others leave later, for a launcher ends all as
    // soon as one fails.
    if (launch_of_process().rank == 0)
      log.failure(error);
    else
      std::this_thread::sleep_for(std::chrono::seconds(1));
    return static_cast<int>(error.code());
  }
  int code = 0;
  {
    Session session(job->world(), tool.name);
    watch.reset();
    if (session.world().size() > 1) log.set_rank(session.world().rank());
    tell_numbers(session.world(), log);
    session_of_process = &session;
    const std::terminate_handler before = std::set_terminate(explain_uncaught);
    const Outcome mine = try_work(session.world(), [&] { return work(session, log); });
    code = agree(tool, common, log.format(), *job, session, mine);
    std::set_terminate(before);
    session_of_process = nullptr;
  }
  job->close(code);
  return code;
}

}  // namespace lockstep
