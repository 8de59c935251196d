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

  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace lockstep
