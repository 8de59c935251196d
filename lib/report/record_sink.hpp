// Destinations of records: standard output, the run's records.jsonl, TensorBoard. report/recorder.hpp writes to them;
// W&B: report/wandb_sink.hpp. All Local.
#pragma once

#include "base/files.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// Writes a record: its JSON in one line, with the newline. Throws Error(storage) if it cannot be written; the sink
  /// still accepts the next one.
  virtual void write(std::string_view line) = 0;
  /// Ends the sink; no record follows. Throws Error(storage) if written records may be lost.
  virtual void close() = 0;
};

/// JSON lines on a file descriptor, flushed line by line. The process must ignore SIGPIPE (app does this).
std::unique_ptr<RecordSink> line_sink(int fd, const std::string& name);

/// JSON lines appended to a file. First removes a last line that a killed run has only written in part.
std::unique_ptr<RecordSink> file_sink(const Path& path);

/// A TensorBoard event file in `folder`, which is created if needed. Numbers of step, eval and statistics records
/// become scalars such as "train/loss", samples become text.
std::unique_ptr<RecordSink> tensorboard_sink(const Path& folder);

}  // namespace lockstep
