#include "report/record_sink.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "report/event_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>

namespace lockstep {

namespace {

/// JSON lines on a descriptor that somebody else owns.
class LineSink : public RecordSink {
 public:
  LineSink(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  void write(const Json& record) override {
    const std::string line = to_text(record) + "\n";
    std::string_view rest = line;
    while (!rest.empty() && !reader_left_) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EPIPE) {
        reader_left_ = true;
      } else if (written < 0) {
        fail_errno("write", name_);
      } else {
        rest.remove_prefix(static_cast<std::size_t>(written));
      }
    }
  }

  void close() override {
    // Some file systems report a lost write only now; a pipe or terminal has nothing to synchronise.
    struct stat status{};
    if (!reader_left_ && ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && ::fsync(fd_) != 0)
      fail_errno("synchronise", name_);
  }

 private:
  int fd_;
  std::string name_;
  bool reader_left_ = false;
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
  void write(const Json& record) override { file_.append(to_text(record) + "\n"); }
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

  void write(const Json& record) override {
    const std::string kind = record.at("kind").get<std::string>();
    if (kind == "step" || kind == "eval") {
      write_scalars(kind, record);
    } else if (kind == "sample") {
      const Json clean =
          parse_json(to_text(record), "sample record");  // bytes that are no UTF-8 replaced, as in the other sinks
      const std::string prompt = clean.at("prompt").get<std::string>();
      file_.append(framed(text_event(unix_seconds(), clean.at("step").get<std::int64_t>(), "sample/" + prompt,
                                     prompt + clean.at("text").get<std::string>())));
    }
  }

  void close() override { file_.close(); }

 private:
  void write_scalars(const std::string& kind, const Json& record) {
    const auto step = record.at("step").get<std::int64_t>();
    const double wall_s = unix_seconds();
    std::string events;
    for (const auto& [name, value] : record.items()) {
      if (name != "step" && value.is_number())
        events += framed(scalar_event(wall_s, step, kind + "/" + name, value.get<float>()));
    }
    file_.append(events);
  }

  Appender file_;
};

}  // namespace

std::unique_ptr<RecordSink> line_sink(int fd, const std::string& name) { return std::make_unique<LineSink>(fd, name); }

std::unique_ptr<RecordSink> file_sink(const Path& path) { return std::make_unique<FileSink>(path); }

std::unique_ptr<RecordSink> tensorboard_sink(const Path& folder) { return std::make_unique<TensorboardSink>(folder); }

void Recorder::write(const RunRecord& record) { write_json(to_json(record)); }
void Recorder::write(const StepRecord& record) { write_json(to_json(record)); }
void Recorder::write(const EvalRecord& record) { write_json(to_json(record)); }
void Recorder::write(const SampleRecord& record) { write_json(to_json(record)); }
void Recorder::write(const CheckpointRecord& record) { write_json(to_json(record)); }
void Recorder::write(const ProfileRecord& record) { write_json(to_json(record)); }
void Recorder::write(const EventRecord& record) { write_json(to_json(record)); }
void Recorder::write(const SummaryRecord& record) { write_json(to_json(record)); }

namespace {

/// Gives every sink its turn, then throws what the first failing one threw.
template <class Act>
void each_in_turn(std::vector<std::unique_ptr<RecordSink>>& sinks, const Act& act) {
  std::exception_ptr first;
  for (const std::unique_ptr<RecordSink>& sink : sinks) {
    try {
      act(*sink);
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

void Recorder::write_json(const Json& record) {
  each_in_turn(sinks_, [&](RecordSink& sink) { sink.write(record); });
}

void Recorder::close() {
  each_in_turn(sinks_, [](RecordSink& sink) { sink.close(); });
  sinks_.clear();
}

}  // namespace lockstep
