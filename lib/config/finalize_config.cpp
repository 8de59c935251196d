#include "config/finalize_config.hpp"

#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/tool.hpp"

namespace lockstep {

ChoiceList<Recipe> choices_of(Recipe) { return {{Recipe::none, "none"}, {Recipe::int8, "int8"}}; }
ChoiceList<ExportDtype> choices_of(ExportDtype) { return {{ExportDtype::bf16, "bf16"}, {ExportDtype::fp32, "fp32"}}; }

void describe(Declaration& visit, FinalizeConfig& config) {
  describe_plugin_files(visit, config.plugin);
  visit.field("checkpoint", config.checkpoint,
              {.help = "folder of the checkpoint to export, or of a run",
               .value_name = "CKPT",
               .required = true,
               .positional = true,
               .completes = Completes::folders});
  visit.field(
      "which", config.which,
      {.help = "which checkpoint of a run: last, the newest valid one; best, by the metric that the run goes by; "
               "or that of a step"});
  visit.field("recipe", config.recipe,
              {.help = "none: weights as trained; int8: compressed-tensors, 8 bit, symmetric, a scale a channel, "
                       "lm_head left as it is"});
  visit.field("dtype", config.dtype, {.help = "element type of the weights that stay unquantised"});
  visit.field("output", config.output,
              {.help = "folder to create, in the form of a Hugging Face model",
               .value_name = "DIR",
               .letter = 'o',
               .required = true,
               .completes = Completes::folders});
  visit.field("overwrite", config.overwrite,
              {.help = "replace an export that is there; anything else is never replaced"});
  visit.field("tokenizer", config.tokenizer,
              {.help = "folder whose tokenizer files are copied beside the weights",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field(
      "watchdog", config.watchdog,
      {.help = "longest time that a rank may go on without progress before the job ends with code 7 and a table of "
               "where every rank is; 0: no limit"});
  describe_plugin_options(visit, config.plugin_values);
}

Tool tool_of(const FinalizeConfig&) {
  return {.name = "finalize-quantize",
          .summary = "export a checkpoint as a Hugging Face model, quantised if asked",
          .synopsis = {"[OPTION...] CKPT --output DIR"},
          .arguments = Tool::Arguments::options,
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::text_or_json};
}

void check(const FinalizeConfig& config, Problems& problems) {
  if (config.recipe == Recipe::int8 && config.dtype == ExportDtype::fp32) {
    problems.add({"recipe", "dtype"},
                 "the int8 recipe writes bf16 scales and weights: --dtype fp32 does not go with it");
  }
}

}  // namespace lockstep
