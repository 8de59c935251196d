#include "artifact/model_source.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "chat/chat_template_file.hpp"
#include "exchange/file_tensors.hpp"
#include "exchange/model_folder.hpp"
#include "exchange/safetensors.hpp"
#include "store/best_evaluations.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/run_directory.hpp"
#include "store/tokenizer_record.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizers.hpp"

#include <algorithm>

namespace lockstep {

namespace {

// Of ranks that cut a matrix by columns so many are read at once, each in a block; of more some are read again.
constexpr std::size_t held_blocks = 16;

/// A file that is copied into the export.
void add_companion(ModelSource& source, const Path& folder, const Path& file) {
  require_within(folder, file);
  source.companions.push_back({file, file.lexically_relative(folder)});
}

void add_additional_templates(ModelSource& source, const Path& folder) {
  for (const Path& path : additional_template_files(folder)) add_companion(source, folder, path);
}

void add_tokenizer(ModelSource& source, const Path& folder) {
  for (const std::string_view name : tokenizer_file_names) {
    if (is_there(folder / name)) add_companion(source, folder, folder / name);
  }
  add_additional_templates(source, folder);
}

/// All files of RUN/tokenizer: the trainer put nothing else there.
void add_all(ModelSource& source, const Path& folder) {
  if (!is_there(folder)) return;
  for (const Path& path : list_folder(folder)) {
    if (kind_of(path) == FileKind::file) add_companion(source, folder, path);
  }
  add_additional_templates(source, folder);
}

std::optional<std::string> document(const CheckpointReader& reader, std::string_view wanted) {
  for (const auto& [name, text] : reader.manifest().documents)
    if (name == wanted) return text;
  return std::nullopt;
}

/// RUN/tokenizer, as it was when the checkpoint was saved.
void add_tokenizer_of_run(ModelSource& source, const Path& folder) {
  for (const Defect& defect : tokenizer_defects(source.folder))
    throw Error(code_of(defect.verdict), defect.message,
                defect.hint + (defect.hint.empty() ? "" : "; or name other files with --tokenizer"));
  add_all(source, folder);
}

/// The model's config.json: a document of the manifest, or a value of the trainer.
std::string config_text(const CheckpointReader& reader) {
  if (const auto text = document(reader, "config.json")) return *text;
  if (find_component(reader.manifest(), "trainer") != nullptr) {
    const Json values = parse_json(reader.values_text("trainer", "all"), reader.path().string());
    if (const auto found = values.find("hf_config"); found != values.end()) return to_text(*found);
  }
  fail(ExitCode::input, "{} does not hold the model's config.json", reader.path().string());
}

void check_shapes(const Path& folder, const std::vector<LogicalTensor>& tensors, const TensorSource& weights) {
  std::vector<std::string> problems;
  for (const LogicalTensor& tensor : tensors) {
    const auto& list = weights.list();
    const auto found = std::find_if(list.begin(), list.end(),
                                    [&](const TensorDescription& other) { return other.name == tensor.name; });
    if (found == list.end())
      problems.push_back(fmt::format("{} is missing", tensor.name));
    else if (found->shape != tensor.shape)
      problems.push_back(fmt::format("{} is {}, not {}", tensor.name, to_text(found->shape), to_text(tensor.shape)));
  }
  if (!problems.empty()) {
    fail(ExitCode::input, "{}: the weights do not match the model's configuration:\n  {}", folder.string(),
         join(problems, "\n  "));
  }
}

/// The end-of-text token of the dataset that the model was trained on takes the place of another one in the
/// configuration: what serves the model must stop where the documents ended.
void take_end_of_text(ModelSource& source, const Path& tokenizer_folder) {
  if (!is_there(tokenizer_folder)) return;
  const std::optional<std::int32_t> end = end_of_text_in(tokenizer_folder);
  const std::int64_t wanted = end.value_or(-1);
  const Json said = source.config.original->value("eos_token_id", Json());
  const bool is_one_of_several = said.is_array() && std::ranges::find(said, Json(wanted)) != said.end();
  if (source.config.eos_token == wanted || is_one_of_several) return;
  source.notes.push_back(
      end ? fmt::format("eos_token_id is {}, the end-of-text of the dataset; the model's config says {}", wanted,
                        to_text(said))
          : fmt::format("eos_token_id is null, since the dataset has no end-of-text; the model's config "
                        "says {}",
                        to_text(said)));
  source.config.eos_token = wanted;
  if (!source.generation_config) return;
  Json generation = parse_json(*source.generation_config, generation_config_file);
  const Json ends = generation.value("eos_token_id", Json());
  if (ends == Json(wanted) || (ends.is_array() && std::ranges::find(ends, Json(wanted)) != ends.end())) return;
  generation["eos_token_id"] = end ? Json(wanted) : Json();
  source.generation_config = to_text(generation, 2) + "\n";
}

ModelSource open_checkpoint(const Path& folder) {
  ModelSource source;
  source.folder = folder;
  const CheckpointReader reader(folder);
  source.config = parse_hf_config(config_text(reader), (folder / manifest_file).string() + ": config.json");
  source.generation_config = document(reader, generation_config_file);
  source.step = reader.manifest().step;
  source.state_digest = to_hex(reader.manifest().state_digest);
  const std::vector<LogicalTensor> stored = stored_tensors(describe(source.config));
  std::unique_ptr<TensorSource> weights = open_model(folder, held_blocks);
  check_shapes(folder, stored, *weights);
  std::vector<FileTensor> files = file_tensors(source.config, stored);
  for (const FileTensor& file : files) source.tensors.push_back(file.tensor);
  source.weights = as_file_tensors(std::move(weights), std::move(files));
  return source;
}

Judgement judge(const Path& checkpoint) { return judge_checkpoint(checkpoint, VerifyLevel::sizes); }

/// The best sound checkpoint of a run, by what the run goes by.
Found find_best(const Path& run) {
  const BestBy by = metric_of_run(run);
  const std::vector<CheckpointEntry> candidates = best_first(list_checkpoints(run), by);
  if (candidates.empty())
    throw Error(ExitCode::input,
                fmt::format("{} has no checkpoint with the metric {}, so none is the best", run.string(), by.metric),
                "a checkpoint has it if the run evaluates at its step; --which last takes the newest one");
  Found found = first_sound(candidates, judge);
  for (const CheckpointEntry& entry : newest_first(list_checkpoints(run))) {  // nobody knows how good these were
    if (std::ranges::find(candidates, entry.path, &CheckpointEntry::path) != candidates.end()) continue;
    const Judgement judgement = judge_checkpoint(entry.path, VerifyLevel::manifest);
    if (judgement.verdict == Verdict::damaged) found.damaged.push_back({entry, judgement.reason});
  }
  if (!found.checkpoint) fail(ExitCode::input, "no checkpoint of {} that was evaluated is sound", run.string());
  return found;
}

Found find_step(const Path& run, std::int64_t step) {
  std::vector<std::string> steps;
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    if (entry.step == step) return find_at(entry.path, judge);
    steps.push_back(fmt::format("{}", entry.step));
  }
  throw Error(ExitCode::input, fmt::format("{} has no checkpoint of step {}", run.string(), step),
              steps.empty() ? "it has no checkpoints" : fmt::format("it has {}", join(steps, ", ")));
}

/// The checkpoint in a folder, or one of the run in it.
ModelSource open_saved(const Path& folder, const CheckpointChoice& which) {
  const auto find = [&] {
    switch (which.by) {
      case CheckpointChoice::Kind::last: return find_at(folder, judge);
      case CheckpointChoice::Kind::best: return find_best(folder);
      case CheckpointChoice::Kind::step: return find_step(folder, which.step);
    }
    fail(ExitCode::bug, "unknown CheckpointChoice::Kind {}", static_cast<int>(which.by));
  };
  const Found found = find();
  ModelSource source = open_checkpoint(found.checkpoint->path);
  for (const SkippedCheckpoint& passed : found.damaged) source.rejected.push_back(to_text(passed));
  return source;
}

ModelSource open_hf_folder(const Path& folder, const std::optional<Head>& head) {
  ModelSource source;
  source.folder = folder;
  WeightsReport report = head ? WeightsReport{*head} : examine_weights(folder);
  source.head = report.head;
  source.warnings = std::move(report.remarks.warnings);
  source.notes = std::move(report.remarks.notes);
  source.config = with_head(read_hf_config(folder), report.head);
  std::vector<TensorDescription> expected;
  for (const FileTensor& file : file_tensors(source.config, stored_tensors(describe(source.config)))) {
    expected.push_back({file.tensor.name, file.tensor.shape, DType::f32});
    source.tensors.push_back(file.tensor);
  }
  source.weights = open_model_weights(folder, expected);
  source.generation_config = generation_config_in(folder);
  return source;
}

}  // namespace

ModelSource open_model_source(const Path& path, const CheckpointChoice& which, const std::optional<Path>& tokenizer,
                              const std::optional<Head>& head) {
  if (!is_there(path)) fail(ExitCode::input, "{} does not exist", path.string());
  const bool checkpoint = is_there(path / manifest_file);
  const bool run = !checkpoint && is_there(checkpoints_folder(path));
  if (!checkpoint && !run && !has_safetensors(path)) {
    throw Error(ExitCode::input,
                fmt::format("{} is neither a checkpoint nor a run nor a folder with safetensors", path.string()),
                "give RUN, RUN/checkpoints/step-N, or a folder with config.json and model.safetensors");
  }
  if (!run && which != CheckpointChoice())
    throw Error(ExitCode::usage,
                fmt::format("--which {} chooses among the checkpoints of a run, but {} is {}", which.text(),
                            path.string(), checkpoint ? "one checkpoint" : "a folder of weights"),
                "leave --which out, or give the folder of the run");
  ModelSource source = checkpoint || run ? open_saved(path, which) : open_hf_folder(path, head);
  if (tokenizer) {
    const std::size_t before = source.companions.size();
    add_tokenizer(source, *tokenizer);
    if (source.companions.size() == before)
      fail(ExitCode::input, "{} holds no tokenizer files ({})", tokenizer->string(),
           fmt::join(tokenizer_file_names, ", "));
  } else if (!checkpoint && !run) {
    add_tokenizer(source, path);
  }
  if (checkpoint || run) {
    const Path of_run =
        absolute_path(source.folder).parent_path().parent_path() / "tokenizer";  // RUN/checkpoints/step-N
    if (!tokenizer) add_tokenizer_of_run(source, of_run);
    take_end_of_text(source, of_run);
  }
  return source;
}

}  // namespace lockstep
