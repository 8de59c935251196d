// Writes what is made from the declarations: generate man TEMPLATE | bash TOOL | zsh TOOL > FILE. A template is an mdoc
// page, NAME.SECTION.in, in which some lines stand for what declarations say: @SYNOPSIS@ and @OPTIONS@ (of the program
// NAME), @KEYS TOOL@ (what its configuration files hold), @RECORD KIND@ (the fields of a kind of record), @DIALECT
// NAME@ (its keys), @DEVICES@ (products whose peaks are known).
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "config/finalize_config.hpp"
#include "config/inspect_config.hpp"
#include "config/prepare_config.hpp"
#include "config/reshard_config.hpp"
#include "config/train_config.hpp"
#include "dialects/dialect.hpp"
#include "options/faces.hpp"
#include "options/option.hpp"
#include "options/tool.hpp"
#include "report/device_peaks.hpp"
#include "report/record.hpp"

#include <iostream>
#include <optional>
#include <string>

namespace {

using namespace lockstep;

template <class Config>
void look_up(const std::string& name, std::optional<DocumentedTool>& found) {
  Config config;
  if (tool_of(config).name != name) return;
  Declaration declaration;
  describe(declaration, config);
  found = document(tool_of(config), declaration);
}

DocumentedTool tool_named(const std::string& name) {
  std::optional<DocumentedTool> found;
  look_up<TrainConfig>(name, found);
  look_up<PrepareConfig>(name, found);
  look_up<InspectConfig>(name, found);
  look_up<ReshardConfig>(name, found);
  look_up<FinalizeConfig>(name, found);
  if (!found) fail(ExitCode::usage, "there is no program \"{}\"", name);
  return *found;
}

/// The fields of a kind of record, from its schema.
std::string record_fields(const std::string& kind) {
  const Json schemas = record_json_schema();
  for (const Json& schema : schemas.at("oneOf")) {
    if (schema.at("title") != kind) continue;
    std::string text = ".Bl -tag -width Ds -compact\n";
    for (const auto& [name, field] : schema.at("properties").items()) {
      if (!field.contains("type") || name == "time") continue;  // on every record: the page says it once
      const Json& type = field.at("type");
      const std::string types = type.is_array()
                                    ? fmt::format("{} or {}", type[0].get<std::string>(), type[1].get<std::string>())
                                    : type.get<std::string>();
      text += fmt::format(".It Va {} Pq {}\n{}\n", name, types, mdoc_text(field.at("description")));
    }
    return text + ".El\n";
  }
  fail(ExitCode::usage, "there is no record of the kind \"{}\"", kind);
}

/// Products whose peaks and memory are known, a line each; an asterisk marks a product on which the plug-in does not
/// run.
std::string known_peaks() {
  std::string text =
      ".Bl -column -offset indent \"NVIDIA GeForce RTX 4090\" 362.05 362.05 362.05 362.05 memory\n"
      ".It Sy device Ta Sy bf16 Ta Sy fp16 Ta Sy fp32 Ta Sy fp64 Ta Sy GB\n";
  const auto number = [](const std::optional<double>& peak) { return peak ? fmt::format("{}", *peak) : "no"; };
  for (const DevicePeaks& device : known_devices())
    text += fmt::format(".It {}{} Ta {} Ta {} Ta {} Ta {} Ta {}\n", device.name, device.runs_plugin ? "" : " *",
                        number(device.bf16), number(device.fp16), number(device.fp32), number(device.fp64),
                        device.memory_gb);
  return text + ".El\n";
}

/// What a mark of the page of `name` stands for.
std::string expansion(const std::string& name, const std::string& mark) {
  const std::size_t blank = mark.find(' ');
  const std::string word = mark.substr(0, blank);
  const std::string argument = blank == std::string::npos ? name : mark.substr(blank + 1);
  if (word == "SYNOPSIS") return mdoc_synopsis(tool_named(argument));
  if (word == "OPTIONS") return mdoc_options(tool_named(argument));
  if (word == "KEYS") return mdoc_keys(tool_named(argument));
  if (word == "RECORD") return record_fields(argument);
  if (word == "DEVICES") return known_peaks();
  if (const Dialect* const dialect = find_dialect(argument); word == "DIALECT" && dialect != nullptr)
    return mdoc_dialect(*dialect);
  fail(ExitCode::usage, "there is no mark @{}@", mark);
}

std::string page(const Path& source) {
  const std::string name = source.stem().stem().string();  // train.1.in
  std::string text;
  for (const std::string& line : split(read_file(source), '\n')) {
    const bool mark = line.size() > 2 && line.starts_with('@') && line.ends_with('@');
    text += mark ? expansion(name, line.substr(1, line.size() - 2)) : line + "\n";
  }
  text.pop_back();  // the line behind the last line end
  return text;
}

std::string output(const std::string& kind, const std::string& subject) {
  if (kind == "man") return page(subject);
  if (kind == "bash") return bash_completion(tool_named(subject));
  if (kind == "zsh") return zsh_completion(tool_named(subject));
  fail(ExitCode::usage, "\"{}\" is none of man, bash, zsh", kind);
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 3) fail(ExitCode::usage, "usage: generate man TEMPLATE | bash TOOL | zsh TOOL");
    std::cout << output(words[1], words[2]) << std::flush;
    if (!std::cout) fail(ExitCode::storage, "cannot write to standard output");
    return 0;
  } catch (const Error& error) {
    std::cerr << "generate: " << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
