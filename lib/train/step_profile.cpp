#include "train/step_profile.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "device/device.hpp"
#include "program/work_times.hpp"
#include "report/table.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* file_name = "profile.json";

/// What turns monotonic seconds into those of the wall clock, which the ranks of all machines share.
double wall_clock_offset_s() { return unix_seconds() - monotonic_seconds(); }

std::string milliseconds(double value) { return fmt::format("{:.2f}", value); }

}  // namespace

Profile::Profile(const Catalogue& programs, const Model& model, Rank rank, Settings settings)
    : programs_(programs), model_(model), rank_(rank), settings_(std::move(settings)) {}

const StepProgram& Profile::program_of(std::int64_t step) const {
  return programs_.pick(step - 1, ProgramPhase::training);
}

Profile::Measured Profile::start_step(std::int64_t step, const StepBatch& batch) {
  const std::size_t actions = program_of(step).of(rank_).size();
  Measured measured{.times = std::make_shared<std::vector<Interval>>(actions), .memory = {}};
  if (settings_.memory) measured.memory = std::make_shared<std::vector<std::int64_t>>(actions);
  Json micro_batches = Json::array();
  for (const Batch& each : batch.micro_batches)
    micro_batches.push_back({{"samples", each.samples}, {"tokens", each.length}});
  steps_.push_back({step, measured, std::move(micro_batches)});
  return measured;
}

Profile::KindTimes Profile::work() const {
  KindTimes work;
  const auto add = [&](std::string_view kind, double seconds) {
    const auto found = std::ranges::find(work, kind, &KindTimes::value_type::first);
    if (found == work.end())
      work.emplace_back(kind, seconds);
    else
      found->second += seconds;
  };
  for (const Step& step : steps_)
    for (const auto& [kind, seconds] : work_times(program_of(step.step), rank_, *step.measured.times))
      add(kind, seconds);
  for (const Span& span : spans_) add(span.kind, span.end_s - span.begin_s);
  return work;
}

/// What the action reads or writes, as far as the program and the batch tell.
Json Profile::shape_of(const Step& step, const Action& action) const {
  Json shape = Json::object();
  if (action.micro_batch != no_micro_batch) {
    const auto number = static_cast<std::size_t>(action.micro_batch);
    if (number < step.micro_batches.size()) shape["micro_batch"] = step.micro_batches[number];
  }
  if (action.bytes != 0) shape["bytes"] = action.bytes;
  if (!action.group.empty()) shape["over"] = action.group;
  const auto unit = static_cast<std::size_t>(action.subject.index);
  if (action.subject.kind == Subject::Kind::unit && model_.has_unit(unit))
    for (const auto& parameter : model_.unit(unit).parameters())
      shape["weights"][parameter->name()] = parameter->shape();
  return shape;
}

void Profile::add_events(const Step& step, std::set<int>& named, Json& events) const {
  const StepProgram& program = program_of(step.step);
  Timeline timeline;
  timeline.ranks.push_back({.rank = rank_, .intervals = *step.measured.times});
  const std::vector<Action>& actions = program.of(rank_);
  Json trace = to_chrome_trace(program, timeline);
  for (Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      const auto position = event["args"]["action"].get<std::size_t>();
      event["args"]["step"] = step.step;
      if (settings_.shapes) event["args"].update(shape_of(step, actions[position]));
      if (step.measured.memory && (*step.measured.memory)[position] != 0) {
        const double end_us = event["ts"].get<double>() + event["dur"].get<double>();
        events.push_back({{"ph", "C"},
                          {"name", this_device().properties().is_host ? "resident memory" : "tensors on the device"},
                          {"pid", rank_},
                          {"tid", 0},
                          {"ts", end_us},
                          {"args", {{"bytes", (*step.measured.memory)[position]}}}});
      }
    } else if (!named.insert(event["tid"].get<int>()).second) {
      continue;  // each track once
    }
    events.push_back(std::move(event));
  }
}

Json Profile::events() const {
  constexpr int loop_track = lane_count;  // behind the lanes
  Json events = Json::array();
  const auto name_track = [&](const char* what, int track, const std::string& name) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", track}, {"args", {{"name", name}}}});
  };
  name_track("process_name", 0, fmt::format("rank {}", rank_));
  name_track("thread_name", loop_track, "loop");
  for (const Span& span : spans_)
    events.push_back({{"ph", "X"},
                      {"name", span.kind},
                      {"cat", "loop"},
                      {"pid", rank_},
                      {"tid", loop_track},
                      {"ts", span.begin_s * 1e6},
                      {"dur", (span.end_s - span.begin_s) * 1e6}});
  std::set<int> named;
  for (const Step& step : steps_) add_events(step, named, events);
  return events;
}

void Profile::gather(Communicator& ranks) {
  const bool shown = settings_.ranks.empty() || std::ranges::find(settings_.ranks, rank_) != settings_.ranks.end();
  const std::string mine = to_text(
      Json{{"work", work()}, {"events", shown ? events() : Json(nullptr)}, {"clock_us", wall_clock_offset_s() * 1e6}});
  for (const std::string& text : ranks.gather(mine, 0)) {
    Json theirs = parse_json(text, "the profile of a rank");
    ranks_.push_back({.work = theirs.at("work").get<KindTimes>(),
                      .events = std::move(theirs.at("events")),
                      .clock_us = theirs.at("clock_us").get<double>()});
  }
}

std::vector<Profile::Row> Profile::rows() const {
  std::vector<std::string> order;
  std::vector<std::map<std::string, double>> ms(ranks_.size());  // by rank and kind, a step
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const auto& [kind, seconds] : ranks_[rank].work) {
      if (std::ranges::find(order, kind) == order.end()) order.push_back(kind);
      ms[rank][kind] = seconds * 1e3 / static_cast<double>(steps_.size());
    }
  }
  std::vector<Row> rows;
  for (const std::string& kind : order) {
    Row row{.kind = kind, .least_ms = std::numeric_limits<double>::max()};
    for (auto& rank : ms) {
      row.least_ms = std::min(row.least_ms, rank[kind]);
      row.most_ms = std::max(row.most_ms, rank[kind]);
      row.mean_ms += rank[kind] / static_cast<double>(ms.size());
    }
    if (row.most_ms > 0) rows.push_back(row);
  }
  return rows;
}

Json Profile::chrome_trace() const {
  double start_us = std::numeric_limits<double>::max();  // on the clock of rank 0
  const auto time_of = [&](const RankProfile& rank, const Json& event) {
    return event.at("ts").get<double>() + (rank.clock_us - ranks_.front().clock_us);
  };
  for (const RankProfile& rank : ranks_)
    for (const Json& event : rank.events)
      if (event.contains("ts")) start_us = std::min(start_us, time_of(rank, event));
  Json events = Json::array();
  for (const RankProfile& rank : ranks_) {
    for (Json event : rank.events) {
      if (event.contains("ts")) event["ts"] = time_of(rank, event) - start_us;
      events.push_back(std::move(event));
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

void Profile::report(Recorder& records, Log& log) const {
  if (steps_.empty()) return;
  const std::int64_t first = steps_.front().step;
  const std::int64_t last = steps_.back().step;
  Table table({{"kind of work"},
               {"mean", Table::Align::right},
               {"least", Table::Align::right},
               {"most", Table::Align::right},
               {"imbalance", Table::Align::right}});
  for (const Row& row : rows()) {
    const double imbalance = row.most_ms / row.mean_ms;
    table.add({row.kind, milliseconds(row.mean_ms), milliseconds(row.least_ms), milliseconds(row.most_ms),
               milliseconds(imbalance)});
    records.write(ProfileRecord{.first_step = first,
                                .last_step = last,
                                .work = row.kind,
                                .mean_ms = row.mean_ms,
                                .min_ms = row.least_ms,
                                .max_ms = row.most_ms,
                                .imbalance = imbalance});
  }
  make_folder(settings_.folder);
  publish_file(settings_.folder / file_name, to_text(chrome_trace()) + "\n");
  log.info("profile of steps {} to {}, ms per step and rank (trace for Perfetto: {}):\n{}", first, last,
           (settings_.folder / file_name).string(), table.text(2));
}

ProfiledScope::ProfiledScope(Profile* profile, std::string_view kind) : profile_(profile), kind_(kind) {
  if (profile_ != nullptr) begin_s_ = monotonic_seconds();
}

ProfiledScope::~ProfiledScope() {
  if (profile_ != nullptr) profile_->add_span(kind_, begin_s_, monotonic_seconds());
}

}  // namespace lockstep
