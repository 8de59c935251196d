#include "config/inspect_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"
#include "options/tool.hpp"

#include <algorithm>

namespace lockstep {

namespace {

std::string_view phrase_of(VerifyLevel level) {
  switch (level) {
    case VerifyLevel::manifest: return "the manifest is complete and has its hash";
    case VerifyLevel::sizes: return "all files are there, with their sizes";
    case VerifyLevel::coverage: return "the parts hold every element of every tensor once";
    case VerifyLevel::hashes: return "the hash of every file";
    case VerifyLevel::fingerprints: return "the fingerprint of every tensor, from its values";
  }
  throw Error(ExitCode::bug, "a level of verification without a phrase");
}

}  // namespace

ChoiceList<VerifyLevel> choices_of(VerifyLevel) {
  ChoiceList<VerifyLevel> choices;
  for (const VerifyLevel level : all_verify_levels) choices.push_back({level, name_of(level), phrase_of(level)});
  return choices;
}

ValueSetting parse_setting(const std::string& text) {
  const std::size_t sign = text.find('=');
  const std::size_t dot = text.find('.');
  if (sign == std::string::npos || dot == 0 || dot > sign || dot + 1 == sign)
    fail(ExitCode::usage, "--set {} is not of the form COMPONENT.KEY=JSON, such as trainer.step=7", text);
  ValueSetting setting{text.substr(0, sign), text.substr(sign + 1)};
  if (!Json::accept(setting.json)) {
    fail(ExitCode::usage, "--set {}: {} is not JSON; put text in double quotes: --set '{}=\"text\"'", text,
         setting.json.empty() ? "nothing" : setting.json, setting.name);
  }
  return setting;
}

void describe(Declaration& visit, InspectConfig& config) {
  visit.field("subjects", config.subjects,
              {.brief = "run or checkpoint folder, then optionally one tensor name",
               .details = "--diff takes two checkpoints",
               .value_name = "RUN|CKPT",
               .required = true,
               .positional = true,
               .completes = Completes::folders});
  visit.field("tree", config.tree, {.brief = "list components, tensors and their pieces"});
  visit.field("verify", config.verify,
              {.brief = "verify the checkpoint at this level",
               .details = "Each level includes the checks of the levels before it",
               .bare = "sizes"});
  visit.field("diff", config.diff,
              {.brief = "compare two checkpoints; exit 1 if they differ",
               .details = "By fingerprint; tensors that differ are read"});
  visit.field("show_config", config.show_config,
              {.brief = "print the configuration of the run that saved the checkpoint"});
  visit.field("components", config.components,
              {.brief = "list components, their sharing pattern and remap policy",
               .details = "The remap policy says how a load on another number of ranks treats the component"});
  visit.field("layouts", config.layouts, {.brief = "list the layouts of tensors, with the number of tensors of each"});
  visit.field("nonfinite", config.nonfinite,
              {.brief = "search for NaN and infinite elements; exit 1 if any are found",
               .details = "The first place in each tensor is printed"});
  visit.field("who", config.who, {.brief = "show which ranks held each piece of a tensor, and its file"});
  visit.field("histogram", config.histogram, {.brief = "draw a histogram of a tensor's values"});
  visit.field("rebuild_view", config.rebuild_view,
              {.brief = "write VIEW.h5, a view of whole tensors for any HDF5 tool"});
  visit.field("set", config.set,
              {.brief = "write a copy of the checkpoint (--output) with one value changed",
               .value_name = "COMPONENT.KEY=JSON"});
  visit.field("output", config.output,
              {.brief = "folder to create (--set), or .svg file to draw (--histogram, --curve)",
               .value_name = "DIR|FILE.svg",
               .letter = 'o',
               .completes = Completes::files});
  visit.field("curve", config.curve, {.brief = "draw the losses of a run over its steps"});
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
    problems.add({"subjects"}, "too many arguments: give a checkpoint and at most one of its tensors");
  const std::vector<bool> asked{
      config.tree,    config.verify.has_value(), config.diff, config.show_config, config.components,
      config.layouts, config.nonfinite,          config.who,  config.histogram,   config.rebuild_view,
      config.curve};
  const auto questions = std::ranges::count(asked, true);
  if (questions > 1)
    problems.add({"tree", "verify", "diff", "show_config", "components", "layouts", "nonfinite", "who", "histogram",
                  "rebuild_view", "set", "curve"},
                 "--tree, --verify, --diff, --show-config, --components, --layouts, --nonfinite, --who, --histogram, "
                 "--rebuild-view, --set and --curve exclude each other: choose one");
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
    problems.add({"output"}, "--output of --histogram and --curve must end in .svg");
  const bool of_tensor = config.who || config.histogram;
  if (of_tensor && subjects == 1)
    problems.add({"subjects"}, "--who and --histogram show one tensor: name it after the checkpoint");
  if (!config.diff && !of_tensor && subjects == 2 && questions > 0)
    problems.add({"subjects"}, "this option shows the whole checkpoint: leave the tensor out");
}

}  // namespace lockstep
