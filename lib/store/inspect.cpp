#include "store/inspect.hpp"

#include "base/text.hpp"
#include "base/words.hpp"
#include "report/run_curve.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/lost_elements.hpp"
#include "store/tokenizer_record.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep {

namespace {

std::uint64_t bytes_on_disk(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const StoredFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

Json metrics_json(const Manifest& manifest) {
  Json result = Json::object();
  for (const Metric& metric : manifest.metrics) result[metric.name] = metric.value;
  return result;
}

std::string metrics_text(const Manifest& manifest) {
  std::vector<std::string> parts;
  for (const Metric& metric : manifest.metrics) parts.push_back(fmt::format("{} {:.6g}", metric.name, metric.value));
  return join(parts, ", ");
}

Json losses_json(const Losses& losses) {
  Json json = {{"elements", losses.elements},
               {"of_elements", losses.of_elements},
               {"bytes", losses.bytes},
               {"of_bytes", losses.of_bytes},
               {"known_from", losses.known_from == KnownFrom::index ? "index" : "parts"},
               {"untold", losses.untold},
               {"tensors", Json::array()}};
  for (const LostTensor& lost : losses.tensors) {
    Json boxes = Json::array();
    for (const Box& box : lost.boxes) boxes.push_back({{"begin", box.begin}, {"extent", box.extent}});
    json["tensors"].push_back({{"name", lost.name},
                               {"shape", lost.shape},
                               {"dtype", name_of(lost.dtype)},
                               {"elements", lost.elements},
                               {"of_elements", elements(lost.shape)},
                               {"boxes", std::move(boxes)}});
  }
  return json;
}

std::string losses_text(const Losses& losses, Verdict verdict) {
  const auto percent = [](std::int64_t part, std::int64_t of) {
    return fmt::format("{:.3g} %",
                       100 * static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(of, 1)));
  };
  std::string text;
  if (losses.known_from == KnownFrom::parts)
    text += "  found by reading the existing part files: tensors that are in none of them are not listed\n";
  for (const std::string& part : losses.untold) text += fmt::format("  the contents of a part are unknown: {}\n", part);
  text +=
      fmt::format("  {}: {} of {} ({}), {} of {}\n", verdict == Verdict::damaged ? "lost" : "not readable",
                  losses.elements, counted(losses.of_elements, "element"), percent(losses.elements, losses.of_elements),
                  human_bytes(losses.bytes), human_bytes(losses.of_bytes));
  constexpr std::size_t most = 8;  // boxes of one tensor: --json has them all
  for (const LostTensor& lost : losses.tensors) {
    std::vector<std::string> boxes;
    for (const Box& box : lost.boxes)
      if (boxes.size() < most) boxes.push_back(slice_text(box, lost.shape));
    if (lost.boxes.size() > most) boxes.push_back(fmt::format("and {} more", lost.boxes.size() - most));
    text += fmt::format("    {} {} ({})\n", lost.name, join(boxes, " "), percent(lost.elements, elements(lost.shape)));
  }
  return text;
}

// What a damaged checkpoint has lost, as far as the level looked; without its index, as its parts tell.
Losses losses_of(const Path& checkpoint, VerifyLevel level, const Verification& found) {
  if (found.reached != level) return find_losses(checkpoint, level);
  std::set<std::string> damaged;
  for (const Defect& defect : found.defects) damaged.insert(defect.file);
  return find_losses(CheckpointReader(checkpoint), level, damaged);
}

// The exit code of a verification: damage is its answer; where it could not look, it has none.
ExitCode answer_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::sound: return ExitCode::done;
    case Verdict::damaged: return ExitCode::verdict;
    case Verdict::unreadable:
    case Verdict::foreign: return code_of(verdict);
  }
  return ExitCode::bug;
}

// A subject is a checkpoint, or a run, which stands for its newest sound one. Newer ones are added to `passed`, with
// the one that is taken.
Path checkpoint_of(const std::string& subject, std::vector<std::pair<SkippedCheckpoint, Path>>& passed) {
  const Found found = find_at(subject, [](const Path& path) { return judge_checkpoint(path, VerifyLevel::manifest); });
  for (const SkippedCheckpoint& damaged : found.damaged) passed.emplace_back(damaged, found.checkpoint->path);
  return found.checkpoint->path;
}

// A file is named where its folder is meant.
void refuse_file(const Path& subject) {
  if (!is_there(subject) || is_folder(subject)) return;
  for (Path folder = absolute_path(subject).parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (!is_there(folder / manifest_file)) continue;
    throw Error(ExitCode::input, fmt::format("{} is a file of a checkpoint", subject.string()),
                fmt::format("name the checkpoint: checkpoint-inspect {}", folder.string()));
  }
  fail(ExitCode::input, "{} is not the folder of a run or a checkpoint", subject.string());
}

bool is_run(const Path& path) {
  if (!is_there(path)) fail(ExitCode::input, "cannot inspect {}: no such file or folder", path.string());
  return is_folder(checkpoints_folder(path)) && !is_there(path / manifest_file);
}

std::vector<Path> checkpoints_of(const std::string& subject) {
  if (!is_run(subject)) return {subject};
  std::vector<Path> paths;
  for (const CheckpointEntry& entry : list_checkpoints(subject)) paths.push_back(entry.path);
  if (paths.empty()) fail(ExitCode::input, "{} has no checkpoints", subject);
  return paths;
}

InspectAnswer answer_of(const InspectConfig& config, std::vector<std::pair<SkippedCheckpoint, Path>>& passed) {
  const std::string& subject = config.subjects.at(0);
  refuse_file(subject);
  if (config.diff) refuse_file(config.subjects.at(1));
  if (config.diff) {
    const CheckpointReader a(checkpoint_of(subject, passed)), b(checkpoint_of(config.subjects.at(1), passed));
    return compare(a, b);
  }
  if (config.curve) return show_curve(subject, config.output);
  if (config.verify) return verify(checkpoints_of(subject), *config.verify);
  const bool run = is_run(subject);
  const bool of_checkpoint = config.tree || config.show_config || config.components || config.layouts ||
                             config.nonfinite || config.rebuild_view || config.set;
  if (run && config.subjects.size() == 1 && !of_checkpoint) return list_run(subject);
  const CheckpointReader checkpoint(checkpoint_of(subject, passed));
  if (config.tree) return show_tree(checkpoint);
  if (config.show_config) return show_config(checkpoint);
  if (config.components) return show_components(checkpoint);
  if (config.layouts) return show_layouts(checkpoint);
  if (config.nonfinite) return find_nonfinite(checkpoint);
  if (config.rebuild_view) return rebuild_view(checkpoint);
  if (config.set) {
    const ValueSetting setting = parse_setting(*config.set);
    return set_value(checkpoint, setting.name, parse_json(setting.json, "--set"), config.output);
  }
  if (config.who) return show_holders(checkpoint, config.subjects.at(1));
  if (config.histogram) return show_histogram(checkpoint, config.subjects.at(1), config.output);
  return config.subjects.size() == 2 ? show_tensor(checkpoint, config.subjects[1]) : summarise(checkpoint);
}

}  // namespace

InspectAnswer inspect(const InspectConfig& config) {
  std::vector<std::pair<SkippedCheckpoint, Path>> passed;
  InspectAnswer answer = answer_of(config, passed);
  for (const auto& [damaged, taken] : passed) {
    answer.warnings.push_back(
        fmt::format("skipped a damaged checkpoint: {}; using {}", to_text(damaged), taken.string()));
    answer.json["passed_over"].push_back(
        {{"path", damaged.checkpoint.path.string()}, {"reason", damaged.reason}, {"taken", taken.string()}});
  }
  return answer;
}

InspectAnswer list_run(const Path& run) {
  InspectAnswer answer{ExitCode::done, "", {{"run", run.string()}, {"checkpoints", Json::array()}}};
  Table table({{"step", Table::Align::right},
               {"saved"},
               {"size", Table::Align::right},
               {"ranks", Table::Align::right},
               {"metrics"},
               {"names and sizes"}});
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    const Judgement judgement = judge_checkpoint(entry.path, VerifyLevel::sizes);
    const bool sound = judgement.verdict == Verdict::sound;
    const std::string state = sound ? "as saved" : fmt::format("{}: {}", name_of(judgement.verdict), judgement.reason);
    Json row = {{"step", entry.step},
                {"path", entry.path.string()},
                {"verdict", name_of(judgement.verdict)},
                {"verified", name_of(VerifyLevel::sizes)}};
    if (!sound) row["defect"] = judgement.reason;
    Manifest manifest;
    try {
      manifest = read_manifest(entry.path);
    } catch (const Error&) {  // told as the state
      table.add({fmt::format("{}", entry.step), "?", "?", "?", "", state});
      answer.json["checkpoints"].push_back(std::move(row));
      continue;
    }
    row.update(Json{{"created", manifest.created},
                    {"bytes", bytes_on_disk(manifest)},
                    {"ranks", world_size(manifest.mesh)},
                    {"state_digest", to_hex(manifest.state_digest)},
                    {"metrics", metrics_json(manifest)}});
    table.add({fmt::format("{}", entry.step), manifest.created, human_bytes(bytes_on_disk(manifest)),
               fmt::format("{}", world_size(manifest.mesh)), metrics_text(manifest), state});
    answer.json["checkpoints"].push_back(std::move(row));
  }
  answer.text = answer.json["checkpoints"].empty()
                    ? fmt::format("{} has no checkpoints\n", run.string())
                    : table.text() + fmt::format(
                                         "contents are not verified; to read every byte: checkpoint-inspect {} "
                                         "--verify=fingerprints\n",
                                         run.string());
  answer.json["put_aside"] = Json::array();
  const auto tell = [&](SetAsideReason why, const char* as) {
    for (const Path& path : list_put_aside(run, why)) {
      answer.text += fmt::format("{} was moved aside {}; it stays until you remove it\n", path.string(), as);
      answer.json["put_aside"].push_back(path.string());
    }
  };
  tell(SetAsideReason::damaged, "as damaged");
  tell(SetAsideReason::former, "when the run was started from scratch");
  return answer;
}

InspectAnswer verify(const std::vector<Path>& checkpoints, VerifyLevel level) {
  InspectAnswer answer{
      ExitCode::done, "", {{"level", name_of(level)}, {"sound", true}, {"checkpoints", Json::array()}}};
  for (const Path& checkpoint : checkpoints) {
    Verification found = verify_checkpoint(checkpoint, level);
    if (level >= VerifyLevel::hashes && found.reached == level)
      std::ranges::move(tokenizer_defects(checkpoint), std::back_inserter(found.defects));
    const Verdict verdict = found.judgement().verdict;
    Json row = {{"path", checkpoint.string()},
                {"verdict", name_of(verdict)},
                {"level", name_of(found.reached)},
                {"bytes_read", found.bytes},
                {"defects", Json::array()}};
    answer.text += fmt::format("{}: {}\n", checkpoint.string(),
                               verdict == Verdict::sound ? fmt::format("sound ({})", name_of(level))
                                                         : fmt::format("{}: {}", name_of(verdict),
                                                                       counted(std::ssize(found.defects), "defect")));
    for (const Defect& defect : found.defects) {
      answer.text += fmt::format("  {}: {}\n", name_of(defect.level), defect.message);
      if (!defect.hint.empty()) answer.text += fmt::format("  hint: {}\n", defect.hint);
      row["defects"].push_back({{"level", name_of(defect.level)},
                                {"file", defect.file},
                                {"tensor", defect.tensor},
                                {"message", defect.message}});
    }
    if (level >= VerifyLevel::sizes && (verdict == Verdict::damaged || verdict == Verdict::unreadable)) {
      const Losses losses = losses_of(checkpoint, level, found);
      answer.text += losses_text(losses, verdict);
      row["lost"] = losses_json(losses);
    }
    answer.code = std::max(answer.code, answer_of(verdict));
    answer.json["checkpoints"].push_back(std::move(row));
  }
  answer.json["sound"] = answer.code == ExitCode::done;
  return answer;
}

InspectAnswer show_curve(const Path& run, const Path& picture) {
  const std::vector<Series> series = loss_series(run);
  Json json = {{"run", run.string()}, {"series", Json::object()}};
  if (series.empty()) fail(ExitCode::input, "{} holds no losses", (run / "records.jsonl").string());
  for (const Series& one : series) {
    for (const Series::Point& point : one.points) json["series"][one.name].push_back({point.x, point.y});
  }
  const Charset charset =
      takes_unicode() && series.size() == 1 ? Charset::unicode : Charset::ascii;  // braille curves look all alike
  const CurveLabels labels{"loss of " + run.string(), "step", "loss"};
  InspectAnswer answer{ExitCode::done, curve_text(labels, series, 100, 20, charset), std::move(json)};
  if (!picture.empty()) {
    publish_file(picture, curve_svg(labels, series));
    answer.json["picture"] = picture.string();
    answer.text += fmt::format("plot written to {}\n", picture.string());
  }
  return answer;
}

}  // namespace lockstep
