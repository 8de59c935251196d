#include "app/status_file.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"

#include <optional>

namespace lockstep {

namespace {

void write_status(const Session& session, int rank, const Path& path, std::optional<int> code, const std::string& explanation) {
  Json status = {{"schema", 1}, {"reason", code ? name_of(static_cast<ExitCode>(*code)) : "running"}};
  status["code"] = code ? Json(*code) : Json(nullptr);
  status["explanation"] = explanation;
  status["rank"] = rank;
  status["host"] = host_name();
  status["phase"] = name_of(session.phase());
  status["step"] = session.step() < 0 ? Json(nullptr) : Json(session.step());
  status["time"] = utc_now();
  publish_file(path, to_text(status, 2) + "\n");
}

}  // namespace

void keep_status(Session& session, const Path& run_dir) {
  const Path path = run_dir / "status.json";
  const int rank = session.world().rank();
  if (rank == 0) write_status(session, rank, path, std::nullopt, {});
  session.on_end([&session, rank, path](const std::string& explanation, int code) { write_status(session, rank, path, code, explanation); });
}

}  // namespace lockstep
