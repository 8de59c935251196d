#include "report/record_sink.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "report/event_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace lockstep {

namespace {

/// JSON lines on a descriptor that somebody else owns.
class LineSink : public RecordSink {
 public:
  LineSink(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

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

/// Bytes appended to a file.
class Appender {
 public:
  explicit Appender(Path path) : path_(std::move(path)), file_(open_file(path_, O_RDWR | O_CREAT)) {
    const off_t end = ::lseek(file_.get(), 0, SEEK_END);
    if (end < 0) fail_errno("open", path_.string());
    size_ = static_cast<std::uint64_t>(end);
  }

  void append(std::string_view bytes) {
    write_at(file_, std::as_bytes(std::span(bytes)), size_, path_);
    size_ += bytes.size();
  }

  /// Drops what follows the last newline: the line that a killed run left half written.
  void drop_torn_line() {
    constexpr std::uint64_t block = 1 << 16;
    std::uint64_t end = size_;
    while (end > 0) {
      const std::uint64_t begin = end > block ? end - block : 0;
      std::string bytes(end - begin, '\0');
      read_at(file_, std::as_writable_bytes(std::span(bytes)), begin, path_);
      const std::size_t newline = bytes.rfind('\n');
      end = newline == std::string::npos ? begin : begin + newline + 1;
      if (newline != std::string::npos) break;
    }
    if (end == size_) return;
    if (::ftruncate(file_.get(), static_cast<off_t>(end)) != 0) fail_errno("truncate", path_.string());
    size_ = end;
  }

  void close() {
    sync_file(file_, path_);
    file_.close(path_);
  }

 private:
  Path path_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

class FileSink : public RecordSink {
 public:
  explicit FileSink(const Path& path) : file_(path) { file_.drop_torn_line(); }
  void write(std::string_view line) override { file_.append(line); }
  void close() override { file_.close(); }

 private:
  Appender file_;
};

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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
    if (kind == "step" || kind == "eval") {
      write_scalars(kind, record);
    } else if (kind == "sample") {
      const std::string prompt = record.at("prompt").get<std::string>();
      file_.append(framed(text_event(unix_seconds(), record.at("step").get<std::int64_t>(), "sample/" + prompt,
                                     prompt + record.at("text").get<std::string>())));
    }
  }

  void close() override { file_.close(); }

 private:
  void write_scalars(const std::string& kind, const Json& record) {
    const auto step = record.at("step").get<std::int64_t>();
    const double wall_s = unix_seconds();
    const Json set = record.value("name", Json());  // of evaluations, where there may be several
    const std::string group = kind == "eval" && set.is_string() ? kind + "/" + set.get<std::string>() : kind;
    std::string events;
    for (const auto& [name, value] : record.items()) {
      if (name != "step" && value.is_number())
        events += framed(scalar_event(wall_s, step, group + "/" + name, value.get<float>()));
    }
    file_.append(events);
  }

  Appender file_;
};

}  // namespace

std::unique_ptr<RecordSink> line_sink(int fd, const std::string& name) { return std::make_unique<LineSink>(fd, name); }

std::unique_ptr<RecordSink> file_sink(const Path& path) { return std::make_unique<FileSink>(path); }

std::unique_ptr<RecordSink> tensorboard_sink(const Path& folder) { return std::make_unique<TensorboardSink>(folder); }

}  // namespace lockstep
