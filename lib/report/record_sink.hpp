// Where records go: standard output, the run's records.jsonl, TensorBoard. Who writes to them: report/recorder.hpp. All
// Local.
#pragma once

#include "base/files.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// Takes a record: its JSON in one line, with the newline. Throws Error(storage) if it cannot be kept; the sink then
  /// takes the next one all the same.
  virtual void write(std::string_view line) = 0;
  /// No record follows. Throws Error(storage) if what was written may be lost.
  virtual void close() = 0;
};

/// JSON lines on a file descriptor, flushed line by line. The process ignores SIGPIPE (app sees to it).
std::unique_ptr<RecordSink> line_sink(int fd, const std::string& name);

/// JSON lines appended to a file. A last line that a killed run left half written is removed first.
std::unique_ptr<RecordSink> file_sink(const Path& path);

/// A TensorBoard event file in `folder`, made if need be: numbers of step, eval and statistics records as scalars
/// "step/loss", samples as text.
std::unique_ptr<RecordSink> tensorboard_sink(const Path& folder);

}  // namespace lockstep
