// The section checkpoint of train.
#include "config/train_choices.hpp"
#include "config/train_sections.hpp"
#include "options/option.hpp"
#include "options/ranges.hpp"

namespace lockstep {

void describe(Declaration& visit, CheckpointOptions& checkpoint) {
  visit.field("every", checkpoint.every,
              {.brief = "checkpoint interval in steps, epochs or time, as eval.every",
               .unset = "only when stopped, and as at_end says"});
  visit.field("interval", checkpoint.interval,
              {.brief = "additional time between checkpoints, or auto",
               .details = "Rank 0 counts it from the last checkpoint. auto minimises the cost of saves and lost work "
                          "by Daly's estimate, from the longest save so far and checkpoint.mtbf"});
  visit.field("mtbf", checkpoint.mtbf,
              {.brief = "mean time between failures of the job, for checkpoint.interval auto"});
  visit.field("keep_last", checkpoint.keep_last,
              {.brief = "valid checkpoints to keep",
               .details = "Older ones are removed once a new one is complete, or to make room for it",
               .min = 1,
               .max = most_count});
  visit.field("keep_best", checkpoint.keep_best,
              {.brief = "best checkpoints to keep as well, by best_metric", .min = 0, .max = most_count});
  visit.field("best_metric", checkpoint.best_metric,
              {.brief = "evaluation metric that selects the best checkpoint",
               .details = "It is used here, in records, and with resume: best"});
  visit.field("best_dataset", checkpoint.best_dataset,
              {.brief = "evaluation dataset of best_metric", .unset = "the first", .value_name = "NAME"});
  visit.field("best_direction", checkpoint.best_direction, {.brief = "better direction of best_metric"});
  visit.field("keep_every", checkpoint.keep_every,
              {.brief = "keep checkpoints at multiples of this step as well",
               .unset = "none",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("pinned", checkpoint.pinned, {.brief = "steps whose checkpoints are kept as well", .min = 1});
  visit.field("at_end", checkpoint.at_end, {.brief = "save after the last step"});
  visit.field("load_best_at_end", checkpoint.load_best_at_end,
              {.brief = "load the best checkpoint at the end of the run",
               .details = "The last checkpoint keeps the weights of the last step. The last evaluation, the texts of "
                          "callbacks and the export use the best one"});
  visit.field("export_at_end", checkpoint.export_at_end,
              {.brief = "export a Hugging Face model at the end, in RUN/export/step-N",
               .details = "The last checkpoint is exported in bf16, or the best one with load_best_at_end"});
  visit.field(
      "resume", checkpoint.resume,
      {.brief = "start: auto, latest, best, a step or path, never or afresh",
       .details =
           "auto resumes from the newest valid checkpoint if there is one. A path names a checkpoint of another run, "
           "or weights alone; it counts until this run has a checkpoint of its own. never and afresh start from "
           "scratch: never requires that there is no checkpoint, afresh first puts existing ones aside. A run that was "
           "stopped with exit code 75, or requeued by Slurm, continues from its newest checkpoint in any case",
       .completes = Completes::folders});
  visit.field("allow_change", checkpoint.allow_change,
              {.brief = "options, or sections, that may change on resume",
               .details = "Options that affect training are otherwise refused if they change. Each change is recorded",
               .value_name = "OPTION"});
  visit.field("only", checkpoint.only,
              {.brief = "load only these components or tensors of another run's checkpoint",
               .details = "The rest starts afresh. Components are given by name, tensors by a regular expression that "
                          "matches in their full name (model/lm_head.weight)"});
  visit.field("skip", checkpoint.skip, {.brief = "do not load these parts of another run's checkpoint (as only)"});
  visit.field(
      "components", checkpoint.components,
      {.brief = "components of checkpoints: model, optimizer, trainer, data, callbacks",
       .details =
           "A run cannot resume without optimizer, trainer and data, but another run can start from it. Empty: all"});
  visit.field("storage", checkpoint.storage,
              {.brief = "storage of train.run_dir: shared, or per_node (node-local)",
               .details = "With per_node, each node has its own folder of this name"});
  visit.field("local_dir", checkpoint.local_dir,
              {.brief = "node-local folder (local tier) where saves go first",
               .details = "They are copied to train.run_dir in the background, and a start resumes from either",
               .unset = "saves go to train.run_dir",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("max_unpromoted", checkpoint.max_unpromoted,
              {.brief = "limit of node-local saves that are not yet in train.run_dir",
               .details = "A further save waits, and training with it",
               .unset = "8",
               .unit = "saves",
               .min = 1,
               .max = most_count});
  visit.field("ranks_per_file", checkpoint.ranks_per_file,
              {.brief = "neighbouring ranks that share one part file", .details = "node: the ranks of a node"});
  visit.field(
      "background", checkpoint.background,
      {.brief = "save in the background: true, false or auto",
       .details = "Training stops only while the state is copied. The last save of a run is never in the background"});
  visit.field("on_busy", checkpoint.on_busy, {.brief = "save due while another is running: skip or wait"});
  visit.field("snapshot_memory", checkpoint.snapshot_memory,
              {.brief = "memory of a rank for the copy of a background save",
               .details = "It is at least the largest piece. If the state needs more, it is filled several times",
               .unset = "as much as the state needs"});
  visit.field("read_back", checkpoint.read_back,
              {.brief = "read back and compare each save before it counts",
               .details = "Older checkpoints are removed only after that"});
  visit.field("metadata", checkpoint.metadata,
              {.brief = "your own metadata for checkpoints, shown by checkpoint-inspect"});
  visit.field("validation", checkpoint.validation,
              {.brief = "comparison of replicas at each save: none, quick, rolling, tensor, full",
               .details = "It compares weights and moments that ranks should hold alike"});
  visit.field("validation_saves", checkpoint.validation_saves,
              {.brief = "saves that validation: rolling takes to compare everything",
               .details = "Each save compares an equal share of each tensor",
               .unit = "saves",
               .min = 2,
               .max = 1000});
  visit.field("on_difference", checkpoint.on_difference,
              {.brief = "replicas that differ at a save: fail, warn or repair",
               .details = "warn and repair compare once more before the save"});
  visit.field("max_failures", checkpoint.max_failures,
              {.brief = "consecutive failed saves that end the run",
               .details = "After fewer, the previous checkpoint stays current and training continues",
               .unit = "saves",
               .min = 1,
               .max = most_count});
  visit.field("patience", checkpoint.patience,
              {.brief = "time to retry an unreadable or incomplete checkpoint at a start",
               .details = "A save also waits this long for files of other ranks to appear"});
}

}  // namespace lockstep
