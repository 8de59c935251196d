#include "program/trace.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

std::string words(const StepProgram& program, const std::vector<TraceEntry>& entries, std::size_t index) {
  if (index >= entries.size()) return "nothing";
  const TraceEntry& entry = entries[index];
  Action action;
  action.op = entry.op;
  action.subject = entry.subject;
  action.micro_batch = entry.micro_batch;
  action.group = entry.group;
  std::string text = to_text(program, action);
  if (entry.bytes != 0) text += fmt::format(", {} bytes", entry.bytes);
  return text;
}

}  // namespace

std::vector<TraceEntry> expect_trace(const StepProgram& program, Rank rank) {
  std::vector<TraceEntry> entries;
  for (const Action& action : program.of(rank))
    entries.push_back({action.op, action.subject, action.micro_batch, action.group, action.bytes});
  return entries;
}

std::optional<std::string> difference(const StepProgram& program, const std::vector<TraceEntry>& expected,
                                      const std::vector<TraceEntry>& recorded) {
  for (std::size_t i = 0; i < std::max(expected.size(), recorded.size()); ++i) {
    if (i < expected.size() && i < recorded.size() && expected[i] == recorded[i]) continue;
    return fmt::format("action {}: expected {}, recorded {}", i, words(program, expected, i),
                       words(program, recorded, i));
  }
  return std::nullopt;
}

}  // namespace lockstep
