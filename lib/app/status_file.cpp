#include "app/status_file.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "store/run_directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <optional>

namespace lockstep {

namespace {

void write_status(const Path& path, std::string_view reason, std::optional<int> code, const Session::End& how) {
  Json status = {{"schema", 1}, {"reason", reason}};
  status["code"] = code ? Json(*code) : Json(nullptr);
  status["explanation"] = how.explanation;
  status["rank"] = how.rank;
  status["host"] = how.host;
  status["process"] = code ? Json(nullptr) : Json(::getpid());
  status["phase"] = name_of(how.phase);
  status["step"] = how.step < 0 ? Json(nullptr) : Json(how.step);
  status["time"] = utc_now();
  publish_file(path, to_text(status, 2) + "\n");
}

std::string text_of(const Json& status, const char* member, const Path& path) {
  if (!status.is_object() || !status.contains(member) || !status.at(member).is_string())
    fail(ExitCode::input, "{}: '{}' is missing or no text", path.string(), member);
  return status.at(member);
}

}  // namespace

void keep_status(Session& session, const Path& run_dir) {
  const Path path = run_dir / "status.json";
  if (session.world().rank() == 0)
    write_status(path, "running", std::nullopt, {.host = host_name(), .phase = session.phase()});
  // By descriptor where there is one: a folder that is moved meanwhile has its status, and its old name gets none.
  const auto folder = std::make_shared<FileDescriptor>(::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Path at_end = folder->get() < 0 ? path : Path(fmt::format("/proc/self/fd/{}/status.json", folder->get()));
  session.on_end([folder, at_end](const Session::End& how) {
    write_status(at_end, name_of(static_cast<ExitCode>(how.code)), how.code, how);
  });
}

void tell_failed_start(const Path& run_dir, const Session::End& how) {
  const FileLock lock = lock_run(run_dir);
  write_status(run_dir / "status.json", name_of(static_cast<ExitCode>(how.code)), how.code, how);
}

std::optional<std::string> unexplained_end(const Path& run_dir) {
  const Path path = run_dir / "status.json";
  if (!is_there(path)) return std::nullopt;
  try {
    const Json status = parse_json(read_file(path), path.string());
    if (text_of(status, "reason", path) != "running") return std::nullopt;
    return fmt::format("the job before this one ended without a word: process {} on {}, at work since {}",
                       status.contains("process") ? to_text(status.at("process")) : "unknown",
                       text_of(status, "host", path), text_of(status, "time", path));
  } catch (const Error& error) {
    return fmt::format("how the job before this one ended is not known: {}", error.what());
  }
}

}  // namespace lockstep
