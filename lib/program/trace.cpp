#include "program/trace.hpp"

#include "base/rounding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep {

namespace {

using Event = TraceEntry::Event;

std::string_view name_of(Event event) {
  switch (event) {
    case Event::computed: return "computed";
    case Event::issued: return "issued";
    case Event::waited: return "waited for";
    case Event::drained: return "drained";
    case Event::acquired: return "acquired";
    case Event::released: return "released";
  }
  return "unknown";
}

std::string words(const StepProgram& program, const std::vector<TraceEntry>& entries, std::size_t index) {
  if (index >= entries.size()) return "nothing";
  const TraceEntry& entry = entries[index];
  std::string text(name_of(entry.event));
  if (!entry.what.empty()) text += fmt::format(" {}", entry.what);
  if (entry.subject.kind != Subject::Kind::none) text += " " + to_text(program, entry.subject);
  if (entry.micro_batch != no_micro_batch) text += fmt::format(" mb {}", entry.micro_batch);
  if (!entry.members.empty())
    text += fmt::format(" on lane {} among ranks {}, {}", lockstep::name_of(entry.lane), fmt::join(entry.members, " "),
                        lockstep::name_of(entry.dtype));
  if (entry.bytes != 0) text += fmt::format(", {}{} bytes", entry.at_most ? "at most " : "", entry.bytes);
  if (entry.repeats != 0) text += fmt::format(", up to {} times", entry.repeats);
  return text;
}

/// The kind of communication by which an operation is carried out, and its type.
std::pair<std::string_view, DType> communication_of(Op op, const UnitTypes& types) {
  switch (op) {
    case Op::unshard: return {"all_gather", types.compute};
    case Op::reduce_scatter: return {"reduce_scatter", types.reduced()};
    case Op::all_reduce: return {"all_reduce", types.reduced()};
    case Op::average_weights: return {"all_reduce", types.master};
    case Op::reduce_norm:
    case Op::heartbeat:
    case Op::reduce_loss:
    case Op::draw_tokens: return {"all_reduce", DType::f64};
    case Op::receive_forward:
    case Op::receive_backward:
    case Op::receive_gradient: return {"receive", DType::u8};
    case Op::send_forward:
    case Op::send_backward:
    case Op::send_gradient: return {"send", DType::u8};
    case Op::fetch_weights:
    case Op::offload_gradient:
    case Op::fetch_state:
    case Op::offload_state:
    case Op::offload_stash:
    case Op::fetch_stash: return {"copy", DType::u8};
    case Op::forward:
    case Op::recompute:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::reshard:
    case Op::finish_gradient:
    case Op::add_gradient:
    case Op::gradient_norm:
    case Op::clip:
    case Op::optimizer:
    case Op::finish_average: break;
  }
  return {"nothing", DType::u8};
}

/// Memory that the engine makes for itself; the rest is there all run, or within kernels.
bool is_made(const Slot& slot) { return !lives_all_run(slot.kind) && slot.kind != SlotKind::workspace; }
/// Its size is exact, not an estimate of what a block keeps.
bool is_exact(SlotKind kind) { return kind >= SlotKind::gathered && kind <= SlotKind::fetched_state; }

class Expectation {
 public:
  Expectation(const StepProgram& program, Rank rank, const UnitTypes& types, const MicroBatchTokens& shape)
      : program_(program), rank_(rank), types_(types), shape_(shape), ranks_(program.class_of(rank)) {}

  std::vector<TraceEntry> run() && {
    for (std::size_t i = 0; i < ranks_.actions.size(); ++i) act(static_cast<int>(i));
    add({.event = Event::drained, .what = {}});
    release_all();
    return std::move(entries_);
  }

 private:
  void add(TraceEntry entry) { entries_.push_back(std::move(entry)); }
  const Action& action(int position) const { return ranks_.actions[static_cast<std::size_t>(position)]; }

  TraceEntry communication(Event event, const Action& of) const {
    const auto [what, dtype] = communication_of(of.op, types_);
    return {.event = event,
            .what = what,
            .lane = of.lane,
            .members = group_along(program_.mesh, rank_, of.group),
            .bytes = bytes_of(of),
            .dtype = dtype};
  }

  /// What this rank hands over: of a transfer, as much as there is of the micro-batch.
  std::int64_t bytes_of(const Action& action) const {
    if (is_copy(action.op)) return 0;  // nothing to another rank: its bytes are those of slots
    if (!is_transfer(action.op)) return action.bytes;
    if (!is_send(action.op)) return 0;
    if (shape_.tokens.empty() || action.micro_batch == no_micro_batch) return action.bytes;
    const auto rows = [&](std::int64_t tokens) { return ceil_div(tokens, std::int64_t{program_.row_shares}); };
    return action.bytes / rows(shape_.planned) * rows(shape_.tokens[static_cast<std::size_t>(action.micro_batch)]);
  }

  /// What is said in the middle of it.
  void exchanges(const Action& action) {
    for (const BlockExchange& exchange : exchanges_of(program_, action)) {
      const auto number = static_cast<std::size_t>(action.micro_batch);
      TraceEntry entry{.event = Event::issued,
                       .what = lockstep::name_of(exchange.kind),
                       .lane = Lane::block,
                       .members = group_along(program_.mesh, rank_, exchange.axes),
                       .bytes = shape_.tokens.empty() || exchange.at_most || action.micro_batch == no_micro_batch
                                    ? exchange.bytes()
                                    : exchange.bytes_of(shape_.tokens[number], shape_.samples[number]),
                       .dtype = exchange.dtype,
                       .at_most = exchange.at_most,
                       .repeats = exchange.repeats};
      if (entry.bytes == 0) continue;
      add(entry);
      entry.event = Event::waited;
      add(entry);
    }
  }

  void slots(Event event, const std::vector<int>& of) {
    for (const int index : of) {
      const Slot& slot = ranks_.slots[static_cast<std::size_t>(index)];
      if (!is_made(slot)) continue;
      add({.event = event,
           .what = lockstep::name_of(slot.kind),
           .subject = slot.subject,
           .micro_batch = slot.micro_batch,
           .bytes = is_exact(slot.kind) ? slot.bytes : 0});
    }
  }

  void release_all() {
    for (const int position : going_on_) slots(Event::released, action(position).slots.releases);
    going_on_.clear();
  }

  void act(int position) {
    const Action& now = action(position);
    for (const int wait : now.waits) {
      if (!overlaps_compute(action(wait).op)) continue;
      add(communication(Event::waited, action(wait)));
      std::erase_if(going_on_, [&](int earlier) {
        if (earlier > wait || action(earlier).lane != action(wait).lane) return false;
        slots(Event::released, action(earlier).slots.releases);
        return true;
      });
    }
    if (overlaps_compute(now.op)) {
      slots(Event::acquired, now.slots.acquires);
      add(communication(Event::issued, now));
      if (!now.slots.releases.empty()) going_on_.push_back(position);
      return;
    }
    if (is_collective(now.op)) {
      add({.event = Event::drained, .what = {}});
      release_all();
      add(communication(Event::issued, now));
      add(communication(Event::waited, now));
    } else {
      // Gradients have memory before they are computed; what is computed is kept afterwards.
      const auto is_gradient = [this](int slot) {
        const SlotKind kind = ranks_.slots[static_cast<std::size_t>(slot)].kind;
        return kind == SlotKind::local_gradient || kind == SlotKind::step_gradient;
      };
      std::vector<int> acquired = now.slots.acquires;
      const auto results = std::ranges::stable_partition(acquired, is_gradient);
      slots(Event::acquired, {acquired.begin(), results.begin()});
      exchanges(now);
      add({.event = Event::computed,
           .what = lockstep::name_of(now.op),
           .subject = now.subject,
           .micro_batch = now.micro_batch});
      slots(Event::acquired, {results.begin(), results.end()});
    }
    slots(Event::released, now.slots.releases);
  }

  const StepProgram& program_;
  Rank rank_;
  const UnitTypes& types_;
  const MicroBatchTokens& shape_;
  const RankClass& ranks_;
  std::vector<int> going_on_;  // positions of actions that hold on to what they release
  std::vector<TraceEntry> entries_;
};

}  // namespace

std::vector<TraceEntry> expect_trace(const StepProgram& program, Rank rank, const UnitTypes& types,
                                     const MicroBatchTokens& shape) {
  return Expectation(program, rank, types, shape).run();
}

std::optional<std::string> difference(const StepProgram& program, const std::vector<TraceEntry>& expected,
                                      const std::vector<TraceEntry>& recorded) {
  const auto fits = [&](std::size_t i, std::size_t j) {
    if (i >= expected.size() || j >= recorded.size()) return false;
    TraceEntry wanted = expected[i];
    if (wanted.at_most) wanted.bytes = std::min(wanted.bytes, recorded[j].bytes);
    wanted.at_most = false;
    wanted.repeats = 0;
    return wanted == recorded[j];
  };
  // Rounds are repeated an unknown number of times, and what follows may look as one: each number is tried, fewest
  // first.
  using Place = std::pair<std::size_t, std::size_t>;  // in what is expected and in what was recorded
  std::vector<Place> ways{{0, 0}};
  std::set<Place> tried;
  Place farthest;
  while (!ways.empty()) {
    auto [i, j] = ways.back();
    ways.pop_back();
    if (!tried.emplace(i, j).second) continue;
    while (i < expected.size() && expected[i].repeats == 0 && fits(i, j)) ++i, ++j;
    if (i == expected.size() && j == recorded.size()) return std::nullopt;
    if (j >= farthest.second) farthest = {i, j};
    if (i == expected.size() || expected[i].repeats == 0) continue;
    std::size_t end = i;  // of the round
    while (end < expected.size() && expected[end].repeats == expected[i].repeats) ++end;
    std::vector<Place> behind{{end, j}};
    for (std::int64_t made = 0; made < expected[i].repeats; ++made) {
      std::size_t of_round = i;
      while (of_round < end && fits(of_round, j)) ++of_round, ++j;
      if (of_round < end) {
        if (j > farthest.second) farthest = {of_round, j};
        break;
      }
      behind.emplace_back(end, j);
    }
    ways.insert(ways.end(), behind.rbegin(), behind.rend());
  }
  return fmt::format("entry {}: expected {}, recorded {}", farthest.second, words(program, expected, farthest.first),
                     words(program, recorded, farthest.second));
}

}  // namespace lockstep
