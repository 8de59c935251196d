// All problems of a configuration, collected so that one error reports them together, and notes for the log.
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

  /// Adds the problems and notes of a part of the configuration.
  void add(const Problems& part);

  /// Declares that existing problems concern `option` too, although they do not name it.
  void concerns_too(const std::string& option) { concerned_.push_back(option); }

  /// Adds a note for the log: a value is accepted and has no effect.
  void note_at(const std::string& where, const std::string& text);
  const std::vector<std::string>& notes() const { return notes_; }

  /// Adds that a file could not be read or parsed. Its settings are unknown, so missing options are not reported.
  void add_unread(const std::string& where, const std::string& text);
  bool all_files_read() const { return all_files_read_; }

  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::vector<std::string> concerned_;
  std::vector<std::string> notes_;
  bool all_files_read_ = true;
};

}  // namespace lockstep
