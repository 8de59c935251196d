// What a run writes of itself: its records, and how it ended.
#include "app/status_file.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "fuzz/targets.hpp"
#include "report/curve.hpp"
#include "report/run_curve.hpp"

namespace lockstep::test {

namespace {

Target records_target(const Path& run) {
  make_folder(run);
  Target target{.name = "records.jsonl",
                .seeds = {R"({"schema":"lockstep-record-1","kind":"step","step":1,"loss":4.5})"
                          "\n"
                          R"({"kind":"step","step":2,"loss":null})"
                          "\n"
                          R"({"kind":"eval","step":2,"loss":4.1})"
                          "\n"
                          R"({"kind":"step","step":3,"loss":1e300})"
                          "\n"
                          R"({"kind":"step","ste)"},
                .words = {"\"kind\":\"eval\",", "\"loss\":-1e308", "\"step\":\"x\"", "[]\n", "7\n"},
                .names = {"records.jsonl:"},
                .read = {}};
  target.read = [run](const std::string& text) {
    put_file(run / "records.jsonl", text);
    const std::vector<Series> series = loss_series(run);
    require(!curve_svg(loss_labels(), series).empty(), "a picture is never empty");
    (void)curve_text(loss_labels(), series, 60, 10, Charset::unicode);
    (void)curve_text(loss_labels(), series, 60, 10, Charset::ascii);
  };
  return target;
}

Target status_target(const Path& run) {
  make_folder(run);
  const Json running{{"schema", 1},     {"reason", "running"},
                     {"code", nullptr}, {"explanation", ""},
                     {"rank", 0},       {"host", "node17"},
                     {"process", 4711}, {"phase", "start-up"},
                     {"step", nullptr}, {"time", "2026-01-02T03:04:05Z"}};
  Json ended = running;
  ended.update(
      Json{{"reason", "storage"}, {"code", 4}, {"explanation", "no space left"}, {"process", nullptr}, {"step", 12}});
  Target target{.name = "status.json",
                .seeds = {to_text(running, 2) + "\n", to_text(ended, 2) + "\n"},
                .refused = {"[]", R"({"reason": 7})", R"({"reason": "running", "host": null})"},
                .words = {"\"reason\": 7,", "running", "process", "host", "time"},
                .names = {(run / "status.json").string()},
                .read = {}};
  target.read = [run](const std::string& text) {
    put_file(run / "status.json", text);
    const std::string told = unexplained_end(run).value_or("");  // never throws for damage: that becomes what is told
    static_cast<void>(progress_in(run));                         // nor does this
    if (told.starts_with("cannot tell how the previous job ended")) fail(ExitCode::input, "{}", told);
  };
  return target;
}

}  // namespace

std::vector<Target> run_targets(const Path& folder) {
  return {records_target(folder / "records"), status_target(folder / "status")};
}

}  // namespace lockstep::test
