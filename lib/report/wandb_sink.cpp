#include "report/wandb_sink.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "report/appended_file.hpp"
#include "report/build_info.hpp"
#include "report/record_scalars.hpp"
#include "report/wandb_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <utility>

namespace lockstep {

namespace {

std::string host_of_machine() {
  std::string host(256, '\0');
  if (::gethostname(host.data(), host.size() - 1) != 0) return "host";
  return host.c_str();
}

/// A folder of its own for this start: where two are made in one second, the later one has a later name.
Path make_start_folder(const Path& parent, const std::string& id, double wall_s) {
  make_folder(parent);
  for (auto second = static_cast<std::time_t>(wall_s);; ++second) {
    std::tm parts{};
    ::gmtime_r(&second, &parts);
    const Path folder =
        parent / fmt::format("offline-run-{:04}{:02}{:02}_{:02}{:02}{:02}-{}", parts.tm_year + 1900, parts.tm_mon + 1,
                             parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, id);
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) fail_errno("make the folder", folder.string());
  }
}

/// Sections of the configuration, and what a run is besides.
Json config_of(const Json& run) {
  Json config = run.at("config");
  config["lockstep"] = Json::object();
  for (const char* fact : {"version", "run_dir", "ranks", "hosts", "threads_per_rank", "arithmetic", "mesh",
                           "parameters", "steps", "global_batch", "tokens_per_step", "flops_per_step"})
    config["lockstep"][fact] = run.at(fact);
  return config;
}

}  // namespace

struct WandbSink::State {
  WandbSettings settings;
  double start_wall_s;
  AppendedFile file;
  std::int64_t messages = 0;
  std::optional<std::int64_t> step;  // of the row
  Json row = Json::object();

  State(const WandbSettings& given, const Path& folder, double wall_s)
      : settings(given), start_wall_s(wall_s), file(folder / ("run-" + given.id + ".wandb")) {
    file.append(wandb_file_header());
    append([](std::int64_t number) { return wandb_version_message(number, "lockstep " + std::string(version())); });
  }

  template <class Message>
  void append(const Message& message) {
    file.append(wandb_frames(message(messages + 1), file.size()));
    ++messages;
  }

  void write_row() {
    if (step) write_row(*std::exchange(step, std::nullopt), std::exchange(row, Json::object()));
  }

  void write_row(std::int64_t of, Json values) {
    const double now_s = unix_seconds();
    values["_step"] = of;
    values["_timestamp"] = now_s;
    values["_runtime"] = now_s - start_wall_s;
    append([&](std::int64_t number) { return wandb_summary_message(number, values); });
    append([&](std::int64_t number) { return wandb_history_message(number, of, values); });
  }

  /// What comes has its place before the row that it ends is written: where that fails, only that row is lost.
  void add(std::int64_t at, const Json& values) {
    if (!step || *step == at) {
      step = at;
      row.update(values);
      return;
    }
    write_row(*std::exchange(step, at), std::exchange(row, values));
  }

  void write_run(const Json& record) {
    const WandbRunFacts run{.id = settings.id,
                            .project = settings.project,
                            .name = settings.name,
                            .tags = settings.tags,
                            .host = host_of_machine(),
                            .start_wall_s = start_wall_s,
                            .start_step = record.at("start_step").get<std::int64_t>()};
    append([&](std::int64_t number) { return wandb_run_message(number, run, config_of(record)); });
  }

  void write_end(const Json& record) {
    append([&](std::int64_t number) { return wandb_summary_message(number, scalars_of(record)); });
    const double seconds = std::round(record.at("wall_s").get<double>());
    append([&](std::int64_t number) {
      return wandb_exit_message(number, record.at("exit_code").get<std::int64_t>(), static_cast<std::int64_t>(seconds));
    });
  }

  void write(const Json& record) {
    const std::string kind = record.at("kind").get<std::string>();
    if (kind == "step") {
      const auto at = record.at("step").get<std::int64_t>();
      if (!settings.every || at % *settings.every == 0) add(at, scalars_of(record));
    } else if (kind == "eval" || kind == "statistics") {
      add(record.at("step").get<std::int64_t>(), scalars_of(record));
    } else if (kind == "sample") {
      const std::string prompt = record.at("prompt").get<std::string>();
      add(record.at("step").get<std::int64_t>(), {{"sample/" + prompt, prompt + record.at("text").get<std::string>()}});
    } else if (kind == "run") {
      write_run(record);
    } else if (kind == "summary") {
      write_row();
      write_end(record);
    }
  }
};

WandbSink::WandbSink(const WandbSettings& settings) {
  const double wall_s = unix_seconds();
  folder_ = make_start_folder(settings.folder, settings.id, wall_s);
  state_ = std::make_unique<State>(settings, folder_, wall_s);
}

WandbSink::~WandbSink() = default;

void WandbSink::write(std::string_view line) { state_->write(parse_json(line, "record")); }

void WandbSink::close() {
  state_->write_row();
  state_->file.close();
}

}  // namespace lockstep
