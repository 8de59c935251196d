#include "config/train_config.hpp"

#include "config/train_sections.hpp"
#include "options/option.hpp"
#include "options/ranges.hpp"
#include "options/tool.hpp"

namespace lockstep {

namespace {

constexpr std::int64_t most_planned_ranks = 1 << 24;  // every rank has its place in a plan

template <class Section>
void section(Declaration& visit, const std::string& name, Section& options, const std::string& help) {
  visit.section(name, help, [&] { describe(visit, options); });
}

}  // namespace

void describe(Declaration& visit, TrainConfig& config) {
  describe_plugin_files(visit, config.plugin);
  section(visit, "model", config.model, "the network");
  section(visit, "data", config.data, "training data, samples and packing");
  section(visit, "parallel", config.parallel, "data, tensor, pipeline, context and expert parallelism");
  section(visit, "post_local_sgd", config.post_local_sgd, "post-local SGD");
  section(visit, "precision", config.precision, "element types, mixed precision");
  section(visit, "optimizer", config.optimizer, "optimizer, weight decay, gradient clipping");
  section(visit, "schedule", config.schedule, "learning-rate schedule");
  section(visit, "train", config.train, "length, batch size, memory and failures of the run");
  section(visit, "eval", config.eval, "evaluation, early stopping");
  section(visit, "divergence", config.divergence, "detection of a diverging loss");
  section(visit, "sample", config.sample, "generated text (--sample, callback sample)");
  section(visit, "checkpoint", config.checkpoint, "saving and resuming");
  section(visit, "log", config.log, "log, records, statistics, profile");
  describe_plugin_options(visit, config.plugin_values);
  visit.field("print_program", config.print_program,
              {.brief = "print the step programs of each class of ranks, and exit", .command_line_only = true});
  visit.field("print_layout", config.print_layout,
              {.brief = "print the part of each tensor on each rank, and exit", .command_line_only = true});
  visit.field("print_groups", config.print_groups,
              {.brief = "print the parameter groups of the optimizer, and exit", .command_line_only = true});
  visit.field("print_components", config.print_components,
              {.brief = "print the components of checkpoints and their ranks, and exit", .command_line_only = true});
  visit.field("plot_schedule", config.plot_schedule,
              {.brief = "draw the learning rate over the run (.svg, .json or text), and exit",
               .bare = "text",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("plot_program", config.plot_program,
              {.brief = "draw a step's time line by estimated costs, and exit",
               .details = "As a picture, as a trace for Perfetto, or in text on standard output",
               .bare = "text",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("program", config.program,
              {.brief = "step program to print or draw: train, eval, prompt, token, local …",
               .details = "prompt and token continue texts; local and average are of post-local SGD",
               .unset = "all are printed; the one that updates weights is drawn",
               .value_name = "NAME",
               .command_line_only = true});
  visit.field("rank", config.rank,
              {.brief = "print only the part of this rank", .min = 0, .max = most_count, .command_line_only = true});
  visit.field("world_size", config.world_size,
              {.brief = "plan for this many ranks instead of those started",
               .details = "Without the dataset, everything that does not depend on it is planned",
               .unit = "ranks",
               .min = 1,
               .max = most_planned_ranks,
               .command_line_only = true});
  visit.field("ranks_per_node", config.ranks_per_node,
              {.brief = "plan for machines with this many ranks each, numbered in order",
               .unit = "ranks",
               .min = 1,
               .max = most_planned_ranks,
               .command_line_only = true});
  visit.field("utilization", config.utilization,
              {.brief = "model FLOPs utilisation (MFU) that the hours of a plan assume",
               .details = "It is the part of log.peak_tflops, or of the peak of log.peak_device, that training reaches",
               .min = 0,
               .max = 1,
               .above_min = true,
               .command_line_only = true});
  visit.field("eval_only", config.eval_only,
              {.brief = "print the validation loss of a checkpoint as an eval record, and exit",
               .details = "checkpoint.resume names the checkpoint. Nothing is written",
               .command_line_only = true});
  visit.field("sample_", config.sample_texts,
              {.brief = "continue this text with the model, print the result, and exit",
               .details = "- reads a text from standard input. checkpoint.resume names the "
                          "checkpoint, or model.path the weights; the section sample has the other options. On a "
                          "terminal the text appears as it grows; otherwise each text is a JSON object on one line. "
                          "Nothing is written, and no data is needed. It runs on one rank, or on as many as "
                          "parallel.pp, parallel.tp and parallel.ep need",
               .value_name = "TEXT",
               .command_line_only = true,
               .literal = true});
  visit.field("sample_file", config.sample_files,
              {.brief = "continue the text in this file, as --sample does",
               .details = "In a .jsonl file each line is one prompt: a text in quotes, or an object with prompt or "
                          "messages. Any other file is one prompt, without its last newline",
               .value_name = "FILE",
               .command_line_only = true,
               .literal = true,
               .completes = Completes::files});
  visit.field("chat", config.chat,
              {.brief = "treat each text of --sample as a message of a user, in the chat template",
               .details = "messages in a .jsonl file go through the chat template without it too",
               .command_line_only = true});
  visit.field("calibrate", config.calibrate,
              {.brief = "measure this many steps (5) on the started ranks, print the cost",
               .details = "They follow one step that is not counted, train fresh weights, and read the prepared "
                          "dataset, or random tokens if there is none. Nothing is written",
               .unit = "steps",
               .min = 1,
               .max = 1000,
               .bare = "5",
               .command_line_only = true});
  visit.field("check_device", config.check_device,
              {.brief = "check each kernel of the run against fp64 of the CPU, and exit",
               .details = "The errors, their bounds and the speed of the kernels on train.device are printed. Exit "
                          "code 1: one is beyond its bounds. It needs no data, and nothing is written",
               .command_line_only = true});
  visit.field("plan", config.plan,
              {.brief = "show the whole plan, not only what fits on a screen", .command_line_only = true});
  visit.field("profile", config.profile,
              {.brief = "profile this many steps (10) after the first two of this start",
               .details = "It sets log.profile_start_step and log.profile_end_step",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .bare = "10",
               .command_line_only = true});
}

Tool tool_of(const TrainConfig&) {
  return {.name = "train",
          .summary = "train a transformer language model",
          .synopsis = {"[OPTION...] CONFIG.yaml..."},
          .arguments = Tool::Arguments::config_files,
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::records,
          .json_answers = "--dry-run, --calibrate, --check-device and --sample",
          .first_options = {"model.config",
                            "model.path",
                            "data.path",
                            "data.tokenizer",
                            "data.sequence_length",
                            "parallel.dp_shard",
                            "parallel.tp",
                            "parallel.pp",
                            "precision.dtype",
                            "optimizer.lr",
                            "train.run_dir",
                            "train.max_steps",
                            "train.global_batch",
                            "train.micro_batch",
                            "eval.every",
                            "checkpoint.every",
                            "sample",
                            "chat",
                            "config",
                            "dry-run",
                            "print-config"}};
}

}  // namespace lockstep
