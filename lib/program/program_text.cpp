// How a step program reads: the words of an action and the table of --print-program.
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "program/step_program.hpp"

#include <algorithm>

namespace lockstep {

namespace {

std::string numbered(const std::vector<std::string>& names, int index) {
  const auto at = static_cast<std::size_t>(index);
  return index >= 0 && at < names.size() ? names[at] : fmt::format("#{}", index);
}

std::string head_of(const StepProgram& program) {
  const int ranks = world_size(program.mesh);
  const std::string apart = program.apart.empty() ? "" : ", separate weights along " + join(program.apart, "+");
  return fmt::format("program {}: {}, {}{}{}, hash {}\n", program.name, counted(program.micro_batches, "micro-batch"),
                     counted(ranks, "rank"), ranks == 1 ? "" : " (" + to_text(program.mesh) + ")", apart,
                     to_hex(hash_of(program)).substr(0, 12));
}

/// Bytes of the device's slots that live within the step while the action runs, and what remains of them after it.
class LiveBytes {
 public:
  explicit LiveBytes(const RankClass& ranks) : ranks_(&ranks) {}
  std::int64_t during(const Action& action) {
    for (const int slot : action.slots.acquires) live_ += bytes_of(slot);
    const std::int64_t now = live_;
    for (const int slot : action.slots.releases) live_ -= bytes_of(slot);
    return now;
  }

 private:
  std::int64_t bytes_of(int index) const {
    const Slot& slot = ranks_->slots[static_cast<std::size_t>(index)];
    return slot.arena == Arena::device ? slot.bytes : 0;
  }
  const RankClass* ranks_;
  std::int64_t live_ = 0;
};

std::string table_of(const StepProgram& program, const RankClass& ranks, const std::string& who) {
  std::vector<std::string> words;
  std::size_t width = 6;
  for (const Action& action : ranks.actions) {
    words.push_back(to_text(program, action));
    width = std::max(width, words.back().size());
  }
  std::int64_t held = 0, on_host = 0;
  for (const Slot& slot : ranks.slots)
    if (lives_all_run(slot.kind)) (slot.arena == Arena::device ? held : on_host) += slot.bytes;
  std::string text =
      fmt::format("{}: {}, {} held for the whole run{}\n", who, counted(std::ssize(ranks.actions), "action"),
                  human_bytes(held), on_host > 0 ? fmt::format(", {} in host memory", human_bytes(on_host)) : "");
  text += fmt::format("{:>5}  {:<9}  {:<{}}  {:>10}  waits for\n", "#", "lane", "action", width, "step bytes");
  LiveBytes live(ranks);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Action& action = ranks.actions[i];
    const std::string line = fmt::format("{:>5}  {:<9}  {:<{}}  {:>10}  {}", i, name_of(action.lane), words[i], width,
                                         human_bytes(live.during(action)), fmt::join(action.waits, " "));
    text +=
        std::string(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(line.find_last_not_of(' ') + 1)) + "\n";
    for (const BlockExchange& exchange : exchanges_of(program, action))
      text += fmt::format("{:>5}  {:<9}    {} over {}, {}{}{}\n", "", name_of(Lane::block), name_of(exchange.kind),
                          join(exchange.axes, "+"), exchange.at_most ? "at most " : "", human_bytes(exchange.bytes()),
                          exchange.repeats > 0 ? fmt::format(", up to {} times", exchange.repeats) : "");
  }
  return text;
}

}  // namespace

std::string to_text(const std::vector<Rank>& ranks) {
  constexpr std::size_t most_runs = 8;
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    runs.push_back(last == i ? fmt::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  if (runs.size() > most_runs) {
    const std::string last = runs.back();
    runs.resize(most_runs - 1);
    runs.push_back(fmt::format("… {} ({} in all)", last, ranks.size()));
  }
  return join(runs, ", ");
}

std::string to_text(const StepProgram& program, const Subject& subject) {
  switch (subject.kind) {
    case Subject::Kind::none: return "";
    case Subject::Kind::block: return "block " + numbered(program.block_names, subject.index);
    case Subject::Kind::unit: return "unit " + numbered(program.unit_names, subject.index);
    case Subject::Kind::stage:
    case Subject::Kind::boundary: return fmt::format("{} {}", name_of(subject.kind), subject.index);
  }
  fail(ExitCode::bug, "unknown Subject::Kind {}", static_cast<int>(subject.kind));
}

std::string to_text(const StepProgram& program, const Action& action) {
  std::string text(name_of(action.op));
  if (action.subject.kind != Subject::Kind::none) text += " " + to_text(program, action.subject);
  if (action.micro_batch != no_micro_batch) text += fmt::format(" mb {}", action.micro_batch);
  if (const KeepSet keeps = action.op == Op::recompute ? keeps_of(program, action.subject.index) : KeepSet();
      !keeps.empty())
    text += " without " + keeps.text();
  if (is_transfer(action.op) && !action.group.empty())
    text += fmt::format(" at {}{:+}", join(action.group, "+"), action.offset);
  else if (!action.group.empty())
    text += " over " + join(action.group, "+");
  if (action.bytes != 0) text += ", " + human_bytes(action.bytes);
  return text;
}

std::string to_text(const StepProgram& program) {
  std::string text = head_of(program);
  for (const RankClass& ranks : program.classes) {
    const std::string who = (ranks.ranks.size() == 1 ? "rank " : "each of ranks ") + to_text(ranks.ranks);
    text += table_of(program, ranks, who);
  }
  return text;
}

std::string to_text(const StepProgram& program, Rank rank) {
  return head_of(program) + table_of(program, program.class_of(rank), fmt::format("rank {}", rank));
}

}  // namespace lockstep
