#include "report/record_sink.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "report/appended_file.hpp"
#include "report/event_file.hpp"
#include "report/record_scalars.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep {

namespace {

/// JSON lines on a descriptor that somebody else owns.
class DescriptorSink : public RecordSink {
 public:
  DescriptorSink(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  void write(std::string_view line) override {
    if (torn_) put("\n");
    put(line);
  }

  void close() override {
    // Some file systems report a lost write only now; a pipe or terminal has nothing to synchronise.
    struct stat status{};
    if (::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && ::fsync(fd_) != 0) fail_errno("synchronise", name_);
  }

 private:
  void put(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_errno("write", name_);
      text.remove_prefix(static_cast<std::size_t>(written));
      torn_ = !text.empty();
    }
  }

  int fd_;
  std::string name_;
  bool torn_ = false;  // a line could be written in part only
};

class FileSink : public RecordSink {
 public:
  explicit FileSink(const Path& path) : file_(path) { file_.drop_torn_line(); }
  void write(std::string_view line) override { file_.append(line); }
  void close() override { file_.close(); }

 private:
  AppendedFile file_;
};

Path event_file_in(const Path& folder) {
  make_folder(folder);
  std::string host(256, '\0');
  if (::gethostname(host.data(), host.size() - 1) != 0) host = "host";
  const auto microseconds = static_cast<std::int64_t>(unix_seconds() * 1e6);
  return folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", microseconds / 1000000, host.c_str(), ::getpid(),
                              microseconds % 1000000);
}

class TensorboardSink : public RecordSink {
 public:
  explicit TensorboardSink(const Path& folder) : file_(event_file_in(folder)) {
    file_.append(framed(version_event(unix_seconds())));
  }

  void write(std::string_view line) override {
    const Json record = parse_json(line, "record");
    const std::string kind = record.at("kind").get<std::string>();
    if (kind == "step" || kind == "eval" || kind == "statistics") {
      write_scalars(record);
    } else if (kind == "sample") {
      const std::string prompt = record.at("prompt").get<std::string>();
      file_.append(framed(text_event(unix_seconds(), record.at("step").get<std::int64_t>(), "sample/" + prompt,
                                     prompt + record.at("text").get<std::string>())));
    }
  }

  void close() override { file_.close(); }

 private:
  void write_scalars(const Json& record) {
    const auto step = record.at("step").get<std::int64_t>();
    const double wall_s = unix_seconds();
    std::string events;
    const Json scalars = scalars_of(record);
    for (const auto& [tag, value] : scalars.items())
      events += framed(scalar_event(wall_s, step, tag, value.get<float>()));
    file_.append(events);
  }

  AppendedFile file_;
};

}  // namespace

std::unique_ptr<RecordSink> line_sink(int fd, const std::string& name) {
  return std::make_unique<DescriptorSink>(fd, name);
}

std::unique_ptr<RecordSink> file_sink(const Path& path) { return std::make_unique<FileSink>(path); }

std::unique_ptr<RecordSink> tensorboard_sink(const Path& folder) { return std::make_unique<TensorboardSink>(folder); }

}  // namespace lockstep
