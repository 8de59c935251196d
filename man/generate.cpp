// Writes what is made from the declarations: generate man TEMPLATE | bash TOOL | zsh TOOL > FILE. A template is an mdoc page in which the
// lines "@SYNOPSIS@" and "@OPTIONS@" stand for what the declaration of its program says; its name is TOOL.1.in.
#include "base/error.hpp"
#include "base/files.hpp"
#include "config/faces.hpp"
#include "config/finalize_config.hpp"
#include "config/inspect_config.hpp"
#include "config/option.hpp"
#include "config/prepare_config.hpp"
#include "config/reshard_config.hpp"
#include "config/tool.hpp"
#include "config/train_config.hpp"

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

std::string page(const Path& source) {
  const DocumentedTool tool = tool_named(source.stem().stem().string());   // train.1.in
  std::string text = read_file(source);
  for (const auto& [mark, content] : {std::pair("@SYNOPSIS@\n", mdoc_synopsis(tool)), std::pair("@OPTIONS@\n", mdoc_options(tool))}) {
    const std::size_t at = text.find(mark);
    if (at == std::string::npos) fail(ExitCode::input, "{} has no line {}", source.string(), mark);
    text.replace(at, std::string(mark).size(), content);
  }
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
