// All problems of a configuration, collected so that one error reports them together.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

class Problems {
 public:
  struct Entry {
    std::string where;                 // "tiny.yaml:4", "command line"; empty: found between options
    std::vector<std::string> options;  // dotted names of the options concerned
    std::string text;                  // lower-case, no full stop
  };

  /// Adds a problem at a place in a file or on the command line. It concerns `option`, if that is not empty.
  void add_at(const std::string& where, const std::string& option, const std::string& text);
  /// Adds a contradiction between options. It is dropped if one of the options already has a problem, which may be its
  /// cause.
  void add(const std::vector<std::string>& options, const std::string& text);

  /// Declares that existing problems concern `option` too, although they do not name it.
  void explain(const std::string& option) { explained_.push_back(option); }

  /// Adds that a file could not be read or parsed. Its settings are unknown, so missing options are not reported.
  void add_unread(const std::string& where, const std::string& text);
  bool all_files_read() const { return all_files_read_; }

  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::vector<std::string> explained_;
  bool all_files_read_ = true;
};

}  // namespace lockstep
