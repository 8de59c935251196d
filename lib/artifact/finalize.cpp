#include "artifact/finalize.hpp"

#include "app/agreed_start.hpp"
#include "architecture/architecture.hpp"
#include "artifact/compressed_tensors.hpp"
#include "artifact/export_report.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/output_folder.hpp"
#include "base/text.hpp"
#include "chat/chat_template_file.hpp"
#include "comm/together.hpp"
#include "exchange/model_folder.hpp"
#include "report/progress.hpp"
#include "tokenizer/tokenizer_files.hpp"

#include <algorithm>
#include <memory>

namespace lockstep {

namespace {

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
    for (const Path& path : additional_template_files(folder)) written.insert(path.lexically_relative(folder));
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
  if (is_same(config.output, source.folder)) fail(ExitCode::usage, "output {} is the input model", config.output);
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

/// All files but weights and report.
void write_texts(const FinalizeConfig& config, const ModelSource& source, const Path& folder) {
  const Json document = config_document(config, source);
  for (const Companion& companion : source.companions) {
    if (companion.name.has_parent_path()) make_folder(folder / companion.name.parent_path());
    publish_file(folder / companion.name, read_file(companion.file));
  }
  const auto& generation = source.generation_config;
  publish_file(folder / generation_config_file,
               generation ? *generation : to_text(generation_document(document), 2) + "\n");
  publish_file(folder / "config.json", to_text(document, 2) + "\n");
}

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  for (const Path& path : list_folder(folder)) names.push_back(path.filename().string());
  return names;
}

}  // namespace

ModelSource agreed_source(Communicator& ranks, const FinalizeConfig& config) {
  const std::optional<Path> tokenizer = config.tokenizer ? std::optional<Path>(*config.tokenizer) : std::nullopt;
  ModelSource source;
  const std::string told = run_on_rank0(ranks, "open the model", [&] {
    source = open_model_source(config.checkpoint, config.which, tokenizer);
    return to_text(Json{{"folder", source.folder.string()}, {"own_head", source.head == Head::own}});
  });
  together(ranks, "open the model", [&] {
    if (ranks.rank() == 0) return;
    const Json found = parse_json(told, "the model that rank 0 found");
    const Head head = found["own_head"].get<bool>() ? Head::own : Head::as_configured;
    source = open_model_source(found["folder"].get<std::string>(), {}, tokenizer, head);
  });
  std::string what = source.state_digest;
  for (const TensorDescription& tensor : source.weights->list())
    what += fmt::format("\n{} {} {}", tensor.name, name_of(tensor.dtype), to_text(tensor.shape));
  agree_equal(ranks, "the model to export", to_hex(hash128(what)));
  return source;
}

ExportResult finalize(const FinalizeConfig& config, const ModelSource& source, Session& session,
                      const ExportProgress& advance) {
  Communicator& ranks = session.world();
  std::unique_ptr<OutputFolder> folder;  // on rank 0; goes with everything in it unless published
  const Path content = run_on_rank0(ranks, "begin the export", [&] {
    check_request(config, source);
    folder = std::make_unique<OutputFolder>(config.output, export_output(), existing_of(config));
    write_texts(config, source, folder->content());
    return folder->content().string();
  });
  ExportResult exported{
      config.output, export_weights(source, config.recipe, config.dtype, content, session, advance), {}};
  together(ranks, "complete the export", [&] {
    if (!folder) return;
    publish_file(content / export_report_file, to_text(export_report(config, source, exported.weights), 2) + "\n");
    exported.files = names_in(content);
    folder->publish();
  });
  return exported;
}

namespace {

std::string summary(const FinalizeConfig& config, const ModelSource& source, double parameters, std::uint64_t bytes) {
  return fmt::format("{}: {} parameters in {}, from {}{}\n", config.output, human_count(parameters), human_bytes(bytes),
                     source.folder.string(), source.step ? fmt::format(" (step {})", *source.step) : "");
}

/// Rank 0 says what there is to say. Local.
void print_plan(const FinalizeConfig& config, const ModelSource& source, double total, Output& output) {
  const ExportedWeights plan = plan_export(source.tensors, config.recipe, config.dtype);
  if (output.common().json)
    output.print_json(plan_json(config, source, plan));
  else
    output.print(plan_table(plan) + summary(config, source, total, plan.bytes));
}

void print_export(const FinalizeConfig& config, const ModelSource& source, double total, const ExportResult& exported,
                  Output& output) {
  if (output.common().json) {
    Json report = export_report(config, source, exported.weights);
    report["output"] = config.output;
    report["files"] = exported.files;
    return output.print_json(report);
  }
  output.print(error_table(exported.weights) + summary(config, source, total, exported.weights.bytes) + "  " +
               join(exported.files, "  ") + "\n");
}

}  // namespace

int finalize_quantize(const FinalizeConfig& config, Session& session, Output& output) {
  hand_to_plugins(config.plugin_values);
  session.configure({.watchdog_s = config.watchdog.value, .folder = absolute_path(config.output).parent_path()});
  session.accept_stop_signals();
  agree_on_start(session.world(), output.settings());
  Communicator& ranks = session.world();
  const bool is_root = ranks.rank() == 0;
  const ModelSource source = agreed_source(ranks, config);
  double total = 0;
  for (const LogicalTensor& tensor : source.tensors) total += static_cast<double>(elements(tensor.shape));
  if (is_root) {
    for (const std::string& reason : source.rejected) output.log().warning("skipped a damaged checkpoint: {}", reason);
    for (const std::string& warning : source.warnings) output.log().warning("{}", warning);
    for (const std::string& note : source.notes) output.log().info("{}", note);
  }
  if (output.common().dry_run) {
    together(ranks, "plan the export", [&] {
      if (!is_root) return;
      check_request(config, source);
      print_plan(config, source, total, output);
    });
    return static_cast<int>(ExitCode::done);
  }
  const Progress::Style style = is_root ? progress_style(output.common().progress, 2) : Progress::Style::none;
  Progress progress(output.log(), {"export", "parameters", total, style});
  const ExportResult exported = finalize(config, source, session, [&](std::int64_t done, std::int64_t of) {
    progress.update(total * static_cast<double>(done) / static_cast<double>(of));  // as rank 0 gets on, so do all
  });
  progress.finish(total);
  if (is_root) print_export(config, source, total, exported, output);
  return static_cast<int>(ExitCode::done);
}

}  // namespace lockstep
