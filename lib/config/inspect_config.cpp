#include "config/inspect_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/tool.hpp"

#include <algorithm>

namespace lockstep {

ChoiceList<VerifyLevel> choices_of(VerifyLevel) {
  ChoiceList<VerifyLevel> choices;
  for (const VerifyLevel level : all_verify_levels) choices.emplace_back(level, name_of(level));
  return choices;
}

ValueSetting parse_setting(const std::string& text) {
  const std::size_t sign = text.find('=');
  const std::size_t dot = text.find('.');
  if (sign == std::string::npos || dot == 0 || dot > sign || dot + 1 == sign)
    fail(ExitCode::usage, "--set {} is no COMPONENT.KEY=JSON, such as trainer.step=7", text);
  ValueSetting setting{text.substr(0, sign), text.substr(sign + 1)};
  if (!Json::accept(setting.json)) {
    fail(ExitCode::usage, "--set {}: {} is no JSON; a text stands in double quotes: --set '{}=\"text\"'", text,
         setting.json.empty() ? "nothing" : setting.json, setting.name);
  }
  return setting;
}

void describe(Declaration& visit, InspectConfig& config) {
  visit.field(
      "subjects", config.subjects,
      {.help =
           "folder of a run or of a checkpoint, then optionally the name of one tensor; with --diff two checkpoints",
       .value_name = "RUN|CKPT",
       .required = true,
       .positional = true,
       .completes = Completes::folders});
  visit.field("tree", config.tree, {.help = "list components, tensors and their pieces"});
  visit.field("verify", config.verify,
              {.help = "check that the checkpoint is whole; each level includes those before it", .bare = "sizes"});
  visit.field("diff", config.diff, {.help = "compare two checkpoints by fingerprint; exit 1 if they differ"});
  visit.field("show_config", config.show_config,
              {.help = "print the configuration that the checkpoint was saved with"});
  visit.field(
      "components", config.components,
      {.help = "list what the checkpoint is made of, who shares it, and what a load on other ranks does with it"});
  visit.field("layouts", config.layouts, {.help = "list the layouts of tensors, with how many have each"});
  visit.field(
      "nonfinite", config.nonfinite,
      {.help = "look for elements that are not finite, with the first place in each tensor; exit 1 if there are "
               "any"});
  visit.field("who", config.who, {.help = "of one tensor: which ranks held each piece, and where it lies"});
  visit.field("histogram", config.histogram, {.help = "of one tensor: draw how its values spread"});
  visit.field("rebuild_view", config.rebuild_view,
              {.help = "write VIEW.h5 into the checkpoint, in which any tool for HDF5 sees each tensor whole"});
  visit.field("set", config.set,
              {.help = "write a new checkpoint, --output, in which a value of a component is another",
               .value_name = "COMPONENT.KEY=JSON"});
  visit.field(
      "output", config.output,
      {.help = "with --set the folder to create; with --histogram or --curve a file that ends in .svg, to draw into",
       .value_name = "DIR|FILE.svg",
       .letter = 'o',
       .completes = Completes::files});
  visit.field("curve", config.curve, {.help = "draw the losses of a run over its steps"});
}

Tool tool_of(const InspectConfig&) {
  return {.name = "checkpoint-inspect",
          .summary = "list, show, verify and compare checkpoints",
          .synopsis = {"[OPTION...] RUN", "[OPTION...] CKPT [TENSOR]", "--who [OPTION...] CKPT TENSOR",
                       "--histogram [--output FILE.svg] [OPTION...] CKPT TENSOR", "--diff [OPTION...] CKPT CKPT",
                       "--set COMPONENT.KEY=JSON --output DIR CKPT"},
          .arguments = Tool::Arguments::options,
          .dry_run = Tool::DryRun::no,
          .output = Tool::Output::text_or_json};
}

void check(const InspectConfig& config, Problems& problems) {
  const std::size_t subjects = config.subjects.size();
  if (config.diff && subjects != 2 && subjects != 0)
    problems.add({"subjects", "diff"}, "--diff compares two checkpoints: name both");
  if (!config.diff && subjects > 2)
    problems.add({"subjects"}, "at most a checkpoint and the name of one of its tensors can be given");
  const std::vector<bool> asked{
      config.tree,    config.verify.has_value(), config.diff, config.show_config, config.components,
      config.layouts, config.nonfinite,          config.who,  config.histogram,   config.rebuild_view,
      config.curve};
  const auto questions = std::ranges::count(asked, true);
  if (questions > 1)
    problems.add({"tree", "verify", "diff", "show_config", "components", "layouts", "nonfinite", "who", "histogram",
                  "rebuild_view", "set", "curve"},
                 "--tree, --verify, --diff, --show-config, --components, --layouts, --nonfinite, --who, --histogram, "
                 "--rebuild-view, --set and --curve are separate questions: ask one");
  if (config.set) {
    try {
      parse_setting(*config.set);
    } catch (const Error& error) {
      problems.add({"set"}, error.what());
    }
  }
  if (config.set && config.output.empty())
    problems.add({"set", "output"}, "--set never changes a checkpoint: name the folder of a new one with --output");
  const bool draws = config.histogram || config.curve;
  if (!config.set && !draws && !config.output.empty())
    problems.add({"output"},
                 "--output has no effect without --set, --histogram or --curve: nothing else is written there");
  if (draws && !config.output.empty() && !config.output.ends_with(".svg"))
    problems.add({"output"}, "--histogram and --curve draw into a file that ends in .svg");
  const bool of_tensor = config.who || config.histogram;
  if (of_tensor && subjects == 1) problems.add({"subjects"}, "the question is about one tensor: name it too");
  if (!config.diff && !of_tensor && subjects == 2 && questions > 0)
    problems.add({"subjects"}, "the question is about the whole checkpoint, but a tensor is named too");
}

}  // namespace lockstep
