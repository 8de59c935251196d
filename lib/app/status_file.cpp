#include "app/status_file.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/own_files.hpp"
#include "store/run_directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

Json to_json(const RunProgress& progress) {
  return {{"configuration", progress.by.configuration},
          {"slurm_job", progress.by.slurm_job},
          {"slurm_restarts", progress.by.slurm_restarts},
          {"stopped", progress.stopped}};
}

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

void write_status(const Path& path, std::string_view reason, std::optional<int> code, const Session::End& how,
                  const std::optional<RunProgress>& progress) {
  Json status = {{"schema", 1}, {"reason", reason}};
  status["code"] = code ? Json(*code) : Json(nullptr);
  status["explanation"] = how.explanation;
  status["rank"] = how.rank;
  status["host"] = how.host;
  status["process"] = code ? Json(nullptr) : Json(::getpid());
  status["phase"] = name_of(how.phase);
  status["step"] = how.step < 0 ? Json(nullptr) : Json(how.step);
  status["time"] = utc_now();
  status["progress"] = progress ? to_json(*progress) : Json(nullptr);
  publish_file(path, to_text(status, 2) + "\n");
}

std::string text_of(const Json& status, const char* member, const Path& path) {
  if (!status.is_object() || !status.contains(member) || !status.at(member).is_string())
    fail(ExitCode::input, "{}: '{}' is missing or not text", path.string(), member);
  return status.at(member);
}

}  // namespace

JobIdentity job_of_process(std::string configuration) {
  JobIdentity job{.configuration = std::move(configuration), .slurm_job = std::string(variable("SLURM_JOB_ID"))};
  const std::string_view restarts = variable("SLURM_RESTART_COUNT");
  std::from_chars(restarts.data(), restarts.data() + restarts.size(), job.slurm_restarts);  // 0 where it is no number
  return job;
}

std::optional<RunProgress> progress_in(const Path& run_dir) {
  const Path path = run_dir / "status.json";
  if (!is_there(path)) return std::nullopt;
  const std::string text = read_file(path);
  try {
    const Json progress = parse_json(text, path.string()).at("progress");
    if (progress.is_null()) return std::nullopt;
    return RunProgress{.by = {.configuration = progress.at("configuration"),
                              .slurm_job = progress.at("slurm_job"),
                              .slurm_restarts = progress.at("slurm_restarts")},
                       .stopped = progress.at("stopped")};
  } catch (const Error&) {  // unexplained_end tells of it
    return std::nullopt;
  } catch (const Json::exception&) {  // of an earlier version, or of other making
    return std::nullopt;
  }
}

bool continues(const JobIdentity& job, const RunProgress& progress) {
  if (job.configuration != progress.by.configuration) return false;
  return progress.stopped ||
         (job.slurm_job == progress.by.slurm_job && job.slurm_restarts > progress.by.slurm_restarts);
}

struct RunStatus::State {
  Session& session;
  Path path;
  std::optional<RunProgress> before;
  RunProgress own = {};
  std::atomic<bool> owns{false};  // an end may be told on another thread

  /// What the file says of progress when the job has ended with `code`, or goes on.
  std::optional<RunProgress> progress(std::optional<int> code) const {
    if (!owns) return before;
    RunProgress progress = own;
    progress.stopped = code == static_cast<int>(ExitCode::stopped);
    return progress;
  }
  void tell_running() const {
    if (session.world().rank() == 0)
      write_status(path, "running", std::nullopt, {.host = host_name(), .phase = session.phase()},
                   progress(std::nullopt));
  }
};

void RunStatus::own_progress(const JobIdentity& job) {
  state_->own.by = job;
  state_->owns = true;
  state_->tell_running();
}

RunStatus keep_status(Session& session, const Path& run_dir, const std::optional<RunProgress>& before) {
  const Path path = run_dir / "status.json";
  auto state = std::make_shared<RunStatus::State>(session, path, before);
  if (session.world().rank() == 0) refuse_link(path);
  state->tell_running();
  // By descriptor where there is one: a folder that is moved meanwhile has its status, and its old name gets none.
  const auto folder = std::make_shared<FileDescriptor>(::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Path at_end = folder->get() < 0 ? path : Path(fmt::format("/proc/self/fd/{}/status.json", folder->get()));
  session.on_end([folder, at_end, state](const Session::End& how) {
    write_status(at_end, name_of(static_cast<ExitCode>(how.code)), how.code, how, state->progress(how.code));
  });
  return RunStatus(std::move(state));
}

void record_failed_start(const Path& run_dir, const Session::End& how) {
  const FileLock lock = lock_run(run_dir);
  write_status(run_dir / "status.json", name_of(static_cast<ExitCode>(how.code)), how.code, how, progress_in(run_dir));
}

std::optional<std::string> unexplained_end(const Path& run_dir) {
  const Path path = run_dir / "status.json";
  if (!is_there(path)) return std::nullopt;
  try {
    const Json status = parse_json(read_file(path), path.string());
    if (text_of(status, "reason", path) != "running") return std::nullopt;
    return fmt::format("the previous job ended without a message: process {} on {}, started {}",
                       status.contains("process") ? to_text(status.at("process")) : "unknown",
                       text_of(status, "host", path), text_of(status, "time", path));
  } catch (const Error& error) {
    return fmt::format("cannot tell how the previous job ended: {}", error.what());
  }
}

}  // namespace lockstep
