// The section log of train.
#include "config/train_choices.hpp"
#include "config/train_sections.hpp"
#include "options/option.hpp"
#include "options/ranges.hpp"

namespace lockstep {

void describe(Declaration& visit, LogOptions& log) {
  visit.field("every", log.every,
              {.brief = "interval of step records, as eval.every", .details = "The last step always has a record"});
  visit.field("first_step", log.first_step, {.brief = "write a record of the first step as well"});
  visit.field("format", log.format, {.brief = "log format on standard error: progress or structured"});
  visit.field("records", log.records,
              {.brief = "where records go: stdout, or only the file in the run folder",
               .details = "TensorBoard and W&B do not depend on it"});
  visit.field("tensorboard", log.tensorboard, {.brief = "write TensorBoard event files"});
  visit.field("tensorboard_dir", log.tensorboard_dir,
              {.brief = "folder of TensorBoard event files",
               .unset = "RUN/tensorboard",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("wandb", log.wandb,
              {.brief = "Weights & Biases: offline writes files for wandb sync", .details = "online is refused"});
  visit.field("wandb_project", log.wandb_project,
              {.brief = "Weights & Biases project", .unset = "chosen by wandb sync"});
  visit.field("wandb_name", log.wandb_name,
              {.brief = "Weights & Biases run name", .unset = "name of the run folder", .value_name = "NAME"});
  visit.field("wandb_tags", log.wandb_tags, {.brief = "Weights & Biases tags"});
  visit.field("wandb_every", log.wandb_every,
              {.brief = "steps between records for Weights & Biases",
               .unset = "all step records",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("wandb_dir", log.wandb_dir,
              {.brief = "folder for offline-run-… of each start",
               .unset = "RUN/wandb",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("statistics", log.statistics,
              {.brief = "per-tensor statistics in records: weights, gradients",
               .details = "Norm, mean, deviation, minimum, maximum and number of zeros"});
  visit.field("statistics_every", log.statistics_every,
              {.brief = "interval of statistics, as eval.every", .unset = "log.every"});
  visit.field("speed_from_step", log.speed_from_step,
              {.brief = "first step of a start that counts for speeds in the summary, from 1",
               .details = "Steps before it are warm-up",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field(
      "peak_tflops", log.peak_tflops,
      {.brief = "dense peak TFLOP/s of a rank's hardware, for MFU",
       .details = "It is the peak in the type of precision.dtype, and has precedence over that of log.peak_device",
       .unset = "that of log.peak_device",
       .unit = "TFLOP/s",
       .min = 0,
       .above_min = true});
  visit.field("peak_device", log.peak_device,
              {.brief = "name of a rank's GPU: its peak for MFU, and the device of a plan",
               .details = "--dry-run plans for this GPU, unless train.device is cpu. Without a name it plans for the "
                          "CPU, also on a machine with a GPU. lockstep-performance(7) lists the names",
               .unset = "MFU is not reported, and plans are for the CPU",
               .value_name = "NAME"});
  visit.field("profile_start_step", log.profile_start_step,
              {.brief = "first profiled step",
               .details = "Records and a table show time by kind of work; profile.json shows each action, for Perfetto",
               .unset = "none",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("profile_end_step", log.profile_end_step,
              {.brief = "last profiled step", .unset = "the first", .unit = "steps", .min = 1, .max = most_count});
  visit.field("profile_dir", log.profile_dir,
              {.brief = "folder of profile.json",
               .unset = "the run folder",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("profile_ranks", log.profile_ranks,
              {.brief = "ranks whose actions profile.json shows",
               .details = "Empty: all. Records and table are of all ranks",
               .min = 0,
               .max = most_count});
  visit.field("profile_shapes", log.profile_shapes,
              {.brief = "add samples, tokens, bytes and shapes to actions in profile.json"});
  visit.field("profile_memory", log.profile_memory, {.brief = "add the memory of each rank over time to profile.json"});
}

}  // namespace lockstep
