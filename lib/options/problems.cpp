#include "options/problems.hpp"

#include <algorithm>

namespace lockstep {

void Problems::add_at(const std::string& where, const std::string& option, const std::string& text) {
  Entry entry{.where = where, .options = {}, .text = text};
  if (!option.empty()) entry.options.push_back(option);
  entries_.push_back(std::move(entry));
}

void Problems::add(const std::vector<std::string>& options, const std::string& text) {
  const auto one_of_them = [&](const std::string& option) {
    return std::ranges::find(options, option) != options.end();
  };
  const auto concerns_one_of_them = [&](const Entry& entry) { return std::ranges::any_of(entry.options, one_of_them); };
  if (std::ranges::any_of(entries_, concerns_one_of_them) || std::ranges::any_of(concerned_, one_of_them)) return;
  entries_.push_back({.where = {}, .options = options, .text = text});
}

void Problems::add(const Problems& part) {
  entries_.insert(entries_.end(), part.entries_.begin(), part.entries_.end());
  concerned_.insert(concerned_.end(), part.concerned_.begin(), part.concerned_.end());
  notes_.insert(notes_.end(), part.notes_.begin(), part.notes_.end());
  all_files_read_ = all_files_read_ && part.all_files_read_;
}

void Problems::note_at(const std::string& where, const std::string& text) {
  notes_.push_back(where.empty() ? text : where + ": " + text);
}

void Problems::add_unread(const std::string& where, const std::string& text) {
  add_at(where, "", text);
  all_files_read_ = false;
}

}  // namespace lockstep
