#include "train/step_profile.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "program/work_times.hpp"
#include "report/table.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>

namespace lockstep {

namespace {

constexpr const char* file_name = "profile.json";

/// What turns monotonic seconds into those of the wall clock, which the ranks of all machines share.
double wall_clock_offset_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() -
         monotonic_seconds();
}

std::string milliseconds(double value) { return fmt::format("{:.2f}", value); }

}  // namespace

Profile::Profile(const Catalogue& programs, Rank rank, std::int64_t first, std::int64_t last)
    : programs_(programs), rank_(rank), first_(first), last_(last) {}

const StepProgram& Profile::program_of(std::int64_t step) const {
  return programs_.pick(step - 1, ProgramPhase::training);
}

std::shared_ptr<std::vector<Interval>> Profile::start_step(std::int64_t step) {
  steps_.push_back({step, std::make_shared<std::vector<Interval>>(program_of(step).of(rank_).size())});
  return steps_.back().times;
}

std::string Profile::packed() const {
  const double offset_s = wall_clock_offset_s();
  Json steps = Json::array();
  for (const Step& step : steps_) {
    Json times = Json::array();
    for (const Interval& interval : *step.times)
      times.push_back({interval.begin_s + offset_s, interval.end_s + offset_s});
    steps.push_back({{"step", step.step}, {"times", std::move(times)}});
  }
  Json spans = Json::array();
  for (const Span& span : spans_)
    spans.push_back({{"kind", span.kind}, {"begin", span.begin_s + offset_s}, {"end", span.end_s + offset_s}});
  return to_text(Json{{"steps", std::move(steps)}, {"spans", std::move(spans)}});
}

Profile::RankProfile Profile::unpacked(const std::string& text) {
  const Json document = parse_json(text, "the profile of a rank");
  RankProfile rank;
  for (const Json& step : document.at("steps")) {
    auto times = std::make_shared<std::vector<Interval>>();
    for (const Json& time : step.at("times"))
      times->push_back({static_cast<int>(times->size()), time.at(0), time.at(1)});
    rank.steps.push_back({step.at("step"), std::move(times)});
  }
  for (const Json& span : document.at("spans"))
    rank.spans.push_back({span.at("kind"), span.at("begin"), span.at("end")});
  return rank;
}

void Profile::gather(Communicator& ranks) {
  const std::vector<std::string> all = ranks.all_gather(packed());
  if (ranks.rank() != 0) return;
  for (const std::string& text : all) ranks_.push_back(unpacked(text));
}

std::vector<Profile::Row> Profile::rows() const {
  std::vector<std::string> order;
  std::vector<std::map<std::string, double>> ms(ranks_.size());  // by rank and kind, a step
  const auto add = [&](std::size_t rank, const std::string& kind, double seconds) {
    if (std::ranges::find(order, kind) == order.end()) order.push_back(kind);
    ms[rank][kind] += seconds * 1e3 / static_cast<double>(ranks_[rank].steps.size());
  };
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const Step& step : ranks_[rank].steps) {
      for (const auto& [kind, seconds] : work_times(program_of(step.step), static_cast<Rank>(rank), *step.times))
        add(rank, std::string(kind), seconds);
    }
    for (const Span& span : ranks_[rank].spans) add(rank, span.kind, span.end_s - span.begin_s);
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
  constexpr int loop_track = lane_count;  // behind the lanes
  double start_s = std::numeric_limits<double>::max();
  for (const RankProfile& rank : ranks_) {
    for (const Span& span : rank.spans) start_s = std::min(start_s, span.begin_s);
  }
  Json events = Json::array();
  const auto name_track = [&](const char* what, std::size_t rank, int track, const std::string& name) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}});
  };
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    name_track("process_name", rank, 0, fmt::format("rank {}", rank));
    name_track("thread_name", rank, loop_track, "loop");
    for (const Span& span : ranks_[rank].spans) {
      events.push_back({{"ph", "X"},
                        {"name", span.kind},
                        {"cat", "loop"},
                        {"pid", rank},
                        {"tid", loop_track},
                        {"ts", (span.begin_s - start_s) * 1e6},
                        {"dur", (span.end_s - span.begin_s) * 1e6}});
    }
  }
  std::set<std::pair<Json, Json>> named;  // tracks: once each
  for (std::size_t i = 0; i < ranks_.front().steps.size(); ++i) {
    Timeline timeline;
    for (const RankProfile& rank : ranks_) {
      RankTimeline& times = timeline.ranks.emplace_back();
      times.rank = static_cast<Rank>(timeline.ranks.size()) - 1;
      for (const Interval& interval : *rank.steps[i].times)
        times.intervals.push_back({interval.action, interval.begin_s - start_s, interval.end_s - start_s});
    }
    Json step = to_chrome_trace(program_of(ranks_.front().steps[i].step), timeline);
    for (Json& event : step["traceEvents"]) {
      if (event["ph"] == "M" && !named.emplace(event["pid"], event["tid"]).second) continue;
      if (event["ph"] == "X") event["args"]["step"] = ranks_.front().steps[i].step;
      events.push_back(std::move(event));
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

void Profile::report(Recorder& records, Log& log, const Path& run) const {
  if (ranks_.empty() || ranks_.front().steps.empty()) return;
  const std::int64_t first = ranks_.front().steps.front().step;
  const std::int64_t last = ranks_.front().steps.back().step;
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
  publish_file(run / file_name, to_text(chrome_trace()) + "\n");
  log.info("profile of steps {} to {}, ms a step and rank (a trace for Perfetto is in {}):\n{}", first, last,
           (run / file_name).string(), table.text(2));
}

ProfiledScope::ProfiledScope(Profile* profile, std::string_view kind) : profile_(profile), kind_(kind) {
  if (profile_ != nullptr) begin_s_ = monotonic_seconds();
}

ProfiledScope::~ProfiledScope() {
  if (profile_ != nullptr) profile_->add_span(kind_, begin_s_, monotonic_seconds());
}

}  // namespace lockstep
