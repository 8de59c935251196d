#include "artifact/finalize.hpp"

#include "architecture/architecture.hpp"
#include "artifact/compressed_tensors.hpp"
#include "artifact/export_report.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/output_folder.hpp"
#include "base/text.hpp"
#include "corpus/tokenizer_files.hpp"
#include "report/progress.hpp"

#include <algorithm>

namespace lockstep {

namespace {

constexpr const char* generation_config_file = "generation_config.json";

Existing existing_of(const FinalizeConfig& config) { return config.overwrite ? Existing::replace : Existing::refuse; }

/// Files of weights have a name or, with many, a number and their count in it.
bool is_weights(const std::string& name) {
  return name == "model.safetensors" || name == "model.safetensors.index.json" ||
         (name.starts_with("model-") && name.find("-of-") != std::string::npos && name.ends_with(".safetensors"));
}

OutputKind export_output() {
  const auto files = [](const Path& folder) {
    std::set<Path> written{"config.json", generation_config_file, export_report_file};
    for (const std::string_view name : tokenizer_file_names) written.insert(name);
    for (const Path& path : list_folder(folder)) {
      if (is_weights(path.filename().string())) written.insert(path.filename());
    }
    return written;
  };
  return {.name = "export", .marker = export_report_file, .files = files};
}

void check_request(const FinalizeConfig& config, const ModelSource& source) {
  if (config.recipe == Recipe::int8 && source.config.family == Family::gpt2) {
    const std::string reason = "its weights belong to Conv1D modules, and compressed-tensors quantises Linear ones";
    throw Error(ExitCode::usage,
                fmt::format("recipe int8 is not possible for {}: {}", name_of(source.config.family), reason),
                "--recipe none");
  }
  if (config.recipe == Recipe::int8 && source.config.experts.count > 0) {
    throw Error(ExitCode::usage,
                fmt::format("recipe int8 is not possible for {}: this version does not quantise experts",
                            name_of(source.config.family)),
                "--recipe none");
  }
  if (is_same(config.output, source.folder))
    fail(ExitCode::usage, "output {} is the model that is read", config.output);
  check_target(config.output, export_output(), existing_of(config));
}

Json config_document(const FinalizeConfig& config, const ModelSource& source) {
  Json document = to_json(source.config, hf_dtype_name(config.dtype == ExportDtype::bf16 ? DType::bf16 : DType::f32));
  if (config.recipe == Recipe::int8) document["quantization_config"] = int8_quantization_config();
  return document;
}

/// What transformers would derive from the config; ids that end a text may be several.
Json generation_document(const Json& config) {
  Json document{{"_from_model_config", true}};
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto found = config.find(key);
    if (found != config.end() && !found->is_null()) document[key] = *found;
  }
  return document;
}

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  for (const Path& path : list_folder(folder)) names.push_back(path.filename().string());
  return names;
}

}  // namespace

Exported finalize(const FinalizeConfig& config, const ModelSource& source,
                  const std::function<void(std::int64_t)>& advance) {
  check_request(config, source);
  OutputFolder folder(config.output, export_output(), existing_of(config));
  const Json document = config_document(config, source);
  bool generation = false;
  for (const Path& companion : source.companions) {
    publish_file(folder.content() / companion.filename(), read_file(companion));
    generation = generation || companion.filename() == generation_config_file;
  }
  if (!generation)
    publish_file(folder.content() / generation_config_file, to_text(generation_document(document), 2) + "\n");
  publish_file(folder.content() / "config.json", to_text(document, 2) + "\n");
  Exported exported{config.output, export_weights(source, config.recipe, config.dtype, folder.content(), advance), {}};
  publish_file(folder.content() / export_report_file,
               to_text(export_report(config, source, exported.weights), 2) + "\n");
  exported.files = names_in(folder.content());
  folder.publish();
  return exported;
}

namespace {

std::string summary(const FinalizeConfig& config, const ModelSource& source, double parameters, std::uint64_t bytes) {
  return fmt::format("{}: {} parameters in {}, from {}{}\n", config.output, human_count(parameters), human_bytes(bytes),
                     source.folder.string(), source.step ? fmt::format(" (step {})", *source.step) : "");
}

}  // namespace

int finalize_quantize(const FinalizeConfig& config, Session&, Output& output) {
  const std::optional<Path> tokenizer = config.tokenizer ? std::optional<Path>(*config.tokenizer) : std::nullopt;
  const ModelSource source = open_model_source(config.checkpoint, tokenizer);
  for (const std::string& reason : source.rejected) output.log().warning("passed over {}", reason);
  for (const std::string& note : source.notes) output.log().info("{}", note);
  check_request(config, source);
  double total = 0;
  for (const LogicalTensor& tensor : source.tensors) total += static_cast<double>(elements(tensor.shape));
  if (output.common().dry_run) {
    const ExportedWeights plan = plan_export(source.tensors, config.recipe, config.dtype);
    if (output.common().json)
      output.print_json(plan_json(config, source, plan));
    else
      output.print(plan_table(plan) + summary(config, source, total, plan.bytes));
    return static_cast<int>(ExitCode::done);
  }
  Progress progress(output.log(), {"export", "parameters", total, progress_style(output.common().progress, 2)});
  const Exported exported =
      finalize(config, source, [&](std::int64_t done) { progress.update(static_cast<double>(done)); });
  progress.finish(total);
  if (output.common().json) {
    Json report = export_report(config, source, exported.weights);
    report["output"] = config.output;
    report["files"] = exported.files;
    output.print_json(report);
  } else {
    output.print(error_table(exported.weights) + summary(config, source, total, exported.weights.bytes) + "  " +
                 join(exported.files, "  ") + "\n");
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace lockstep
