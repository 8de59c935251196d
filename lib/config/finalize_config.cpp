#include "config/finalize_config.hpp"

#include "options/option.hpp"
#include "options/problems.hpp"
#include "options/tool.hpp"

namespace lockstep {

ChoiceList<Recipe> choices_of(Recipe) {
  return {{Recipe::none, "none", "weights as trained"},
          {Recipe::int8, "int8", "compressed-tensors: 8 bits, symmetric, one scale per channel"}};
}
ChoiceList<ExportDtype> choices_of(ExportDtype) {
  return {{ExportDtype::bf16, "bf16", "bfloat16"}, {ExportDtype::fp32, "fp32", "single precision"}};
}

void describe(Declaration& visit, FinalizeConfig& config) {
  describe_plugin_files(visit, config.plugin);
  visit.field("checkpoint", config.checkpoint,
              {.brief = "checkpoint or run folder to export",
               .value_name = "CKPT",
               .required = true,
               .positional = true,
               .completes = Completes::folders});
  visit.field("which", config.which,
              {.brief = "checkpoint of a run to export: last, best, or a step",
               .details = "last is the newest valid one; best has the best value of the run's best metric"});
  visit.field("recipe", config.recipe,
              {.brief = "quantisation recipe: none or int8", .details = "int8 leaves lm_head as it is"});
  visit.field("dtype", config.dtype, {.brief = "element type of weights that are not quantised"});
  visit.field("output", config.output,
              {.brief = "folder to create: a Hugging Face model",
               .value_name = "DIR",
               .letter = 'o',
               .required = true,
               .completes = Completes::folders});
  visit.field("overwrite", config.overwrite,
              {.brief = "replace an existing export", .details = "Anything else at that path is never replaced"});
  visit.field("tokenizer", config.tokenizer,
              {.brief = "folder with tokenizer files to copy beside the weights",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("watchdog", config.watchdog,
              {.brief = "end the job when a rank makes no progress for this long",
               .details = "The job ends with code 7 and a table of every rank's phase. 0 sets no limit"});
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
    problems.add({"recipe", "dtype"}, "--recipe int8 writes bf16 scales and weights: leave --dtype fp32 out");
  }
}

}  // namespace lockstep
