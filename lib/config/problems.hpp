// Everything that is wrong with a configuration, collected so that it is reported at once.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

class Problems {
 public:
  struct Entry {
    std::string where;                 // "tiny.yaml:4", "command line"; empty: known from the options
    std::vector<std::string> options;  // dotted names of the options that it concerns
    std::string text;                  // lower-case, no full stop
  };

  /// Adds a problem at a place in a file or on the command line, concerning `option` (empty: none that is known).
  void add_at(const std::string& where, const std::string& option, const std::string& text);
  /// Adds a contradiction between options, unless one of them already has a problem: then this one may be its echo.
  void add(const std::vector<std::string>& options, const std::string& text);

  /// Says that the problems so far concern `option` too, though they do not name it.
  void explain(const std::string& option) { explained_.push_back(option); }

  /// Adds that a file could not be read or understood: what it would have set is not known, so that missing options are
  /// no news.
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
