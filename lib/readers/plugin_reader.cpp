#include "readers/plugin_reader.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "plugin/plugins.hpp"
#include "readers/object_store.hpp"
#include "readers/record_lines.hpp"

#include <algorithm>

namespace lockstep {

namespace {

class PluginRecords : public ByteReader {
 public:
  PluginRecords(const PluginEntry<lockstep_reader>& entry, const InputFile& file)
      : entry_(entry), name_(file.name()), bytes_of_file_(file.bytes) {
    if (const char* const problem = entry.table->open(entry.plugin->values(), file.path.c_str(), &reader_))
      refuse(problem);
  }
  ~PluginRecords() override { entry_.table->close(reader_); }

  std::size_t read(std::span<char> out) override {
    while (given_ == line_.size() && !at_end_) next_line();
    const std::size_t count = std::min(out.size(), line_.size() - given_);
    std::copy_n(line_.data() + given_, count, out.data());
    given_ += count;
    return count;
  }
  /// How far a plug-in has read nobody knows.
  std::uint64_t consumed() const override { return at_end_ ? bytes_of_file_ : 0; }

 private:
  [[noreturn]] void refuse(const char* problem) const {
    fail(ExitCode::input, "the reader {} of {} cannot read {}: {}", entry_.table->name, entry_.plugin->file(), name_,
         problem);
  }

  void next_line() {
    const char* record = nullptr;
    std::int64_t bytes = 0;
    if (const char* const problem = entry_.table->next(reader_, &record, &bytes)) refuse(problem);
    given_ = 0;
    line_.clear();
    if (record == nullptr) {
      at_end_ = true;
      return;
    }
    if (bytes < 0) refuse("a record has a negative size");
    const std::string_view text(record, static_cast<std::size_t>(bytes));
    if (first_invalid_utf8(text)) {
      line_ = std::string(1, problem_mark) + "it is not valid UTF-8";
    } else if (entry_.table->records == LOCKSTEP_TEXTS) {
      line_ = to_text(Json{{"text", std::string(text)}});
    } else {
      line_ = text;
      std::ranges::replace(line_, '\n', ' ');  // between members, where it has no meaning
    }
    line_ += '\n';
  }

  PluginEntry<lockstep_reader> entry_;
  std::string name_;
  std::uint64_t bytes_of_file_;
  void* reader_ = nullptr;
  std::string line_;
  std::size_t given_ = 0;  // bytes of the line
  bool at_end_ = false;
};

}  // namespace

std::optional<std::size_t> plugin_reader_of(std::string_view extension) {
  const auto& readers = Plugins::opened().readers();
  const auto found = std::ranges::find_if(
      readers, [&](const auto& entry) { return std::string_view(entry.table->suffix) == extension; });
  if (found == readers.end()) return std::nullopt;
  return static_cast<std::size_t>(found - readers.begin());
}

std::string identity_of_reader(std::size_t reader) {
  const PluginEntry<lockstep_reader>& entry = Plugins::opened().readers().at(reader);
  return entry.plugin->identity_of(entry.table->name, entry.table->version);
}

std::unique_ptr<ByteReader> open_by_plugin(const InputFile& file) {
  const PluginEntry<lockstep_reader>& entry = Plugins::opened().readers().at(file.reader);
  if (names_objects(file.path.string()))
    throw Error(ExitCode::input,
                fmt::format("the reader {} of {} can only read files, and {} is in an object store", entry.table->name,
                            entry.plugin->file(), file.name()),
                "copy it to this machine");
  return std::make_unique<PluginRecords>(entry, file);
}

}  // namespace lockstep
