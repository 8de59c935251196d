// Configuration files and command lines of all programs; what a resume reads of a saved config.yaml; small texts with a
// form of their own.
#include "base/text.hpp"
#include "comm/injection.hpp"
#include "config/command_line.hpp"
#include "config/finalize_config.hpp"
#include "config/fixed_options.hpp"
#include "config/inspect_config.hpp"
#include "config/prepare_config.hpp"
#include "config/reshard_config.hpp"
#include "config/train_config.hpp"
#include "fuzz/targets.hpp"

#include <algorithm>

namespace lockstep::test {

namespace {

constexpr const char* small_config = R"(dialect: lockstep
model:
  config: tiny.json
data: {path: data, sequence_length: 64}
optimizer:
  lr: 1e-3
  betas: [0.9, 0.99]
  clip_norm: 1.0
  decay_exclude: ["bias$", wte]
  groups:
    first: {match: "^h\\.[0-3]\\.", lr_scale: 0.5}
    head:
      match: head
      weight_decay: 0
    none: null
schedule: {name: cosine, warmup_steps: 10, decay_steps: null}
train:
  run_dir: "run"
  max_steps: 2_000
  global_batch: 12
  max_time: 1h30m
  callbacks: [sample]
sample:
  prompts: ["\n", 'it''s', "a\tb"]
checkpoint: {every: 100, resume: auto}
)";

constexpr const char* config_as_json =
    R"({"model": {"config": "tiny.json"}, "data": {"path": "data", "sequence_length": 64, "shuffle": true}, "optimizer": {"lr": 0.001, "betas": [0.9, 0.95],
        "groups": [{"match": "h\\.0", "lr_scale": 2}], "decay_exclude": ["bias"]}, "train": {"run_dir": "run", "max_steps": 100, "global_batch": 8,
        "micro_batch": 2, "watchdog": "5m", "recompute": "block"}, "eval": {"every": 10}, "log": {"peak_tflops": 1.5}})";

constexpr const char* config_of_xorl = R"(dialect: xorl
model: {config_path: model, attn_implementation: sdpa}
data: {datasets: [{path: a.jsonl, type: tokenized, max_seq_len: 64}], sample_packing_method: multipack, sample_packing_sequence_len: 64}
train: {output_dir: run, lr: 2e-5, lr_decay_style: cosine, lr_warmup_ratio: 0.1, micro_batch_size: 2, num_train_epochs: 1, no_decay_modules: [norm],
  enable_profiling: true, profile_end_step: 4, save_steps: 0, use_wandb: false}
)";

constexpr const char* config_of_transformers = R"(dialect: transformers
output_dir: run
config_name: model
train_file: text.txt
block_size: 16
per_device_train_batch_size: 2
max_steps: 5
lr_scheduler_type: cosine_with_restarts
lr_scheduler_kwargs: {num_cycles: 2}
fsdp: full_shard auto_wrap
fsdp_config: {fsdp_offload_params: true, fsdp_state_dict_type: SHARDED_STATE_DICT}
)";

/// What is accepted is printed in such a way that it reads back the same.
void read_config(const Path& file, const std::string& text) {
  put_file(file, text);
  const auto parsed = parse_command_line<TrainConfig>({file.string()});
  const std::string printed = to_yaml(parsed.settings, tool_of(parsed.config), PrintExtent::full);
  put_file(file, printed);
  const auto again = parse_command_line<TrainConfig>({file.string()});
  require(to_json(parsed.settings) == to_json(again.settings),
          "the printed configuration reads back as another:\n" + printed);
  require(differing_fixed_options({printed, "saved.yaml", ResolvedRun{}}, parsed.config, {}).empty(),
          "a configuration differs from itself as printed");
}

void read_command_line(const std::string& text) {
  std::vector<std::string> words = split(text, '\n');
  const std::string tool = words.front();
  words.erase(words.begin());
  words.resize(std::min<std::size_t>(words.size(), 1000));  // each configuration file that is named is looked for
  if (tool == "prepare-data")
    parse_command_line<PrepareConfig>(words);
  else if (tool == "checkpoint-inspect")
    parse_command_line<InspectConfig>(words);
  else if (tool == "checkpoint-reshard")
    parse_command_line<ReshardConfig>(words);
  else if (tool == "finalize-quantize")
    parse_command_line<FinalizeConfig>(words);
  else
    parse_command_line<TrainConfig>(words);
}

}  // namespace

std::vector<Target> config_targets(const Path& folder) {
  const std::vector<std::string> words{"dialect: xorl\n",
                                       "dialect: forgather\n",
                                       "dialect: transformers\n",
                                       "preset: transformers-fsdp\n",
                                       "data: {datasets: [{path: a, shards: 2}]}\n",
                                       "fsdp: full_shard auto_wrap\n",
                                       "optimizer_groups: {a: {regex: b, config: {lr: 1}}}\n",
                                       "lockstep: {train: {seed: 1}}\n",
                                       "preset: config.yaml\n",
                                       "preset: [a, b]\n",
                                       "&a ",
                                       "*a",
                                       "<<: *a\n",
                                       "!!binary ",
                                       "? ",
                                       "|\n  x",
                                       ">-\n",
                                       "---\n",
                                       "...\n",
                                       "%YAML 1.3\n",
                                       "null",
                                       "~",
                                       "true",
                                       "\"",
                                       "'",
                                       ": ",
                                       "#",
                                       "(a*)*b",
                                       "(?=",
                                       "[[:alpha:]]",
                                       "\\",
                                       "{1,1000}",
                                       "1e3",
                                       "1_000",
                                       "64MiB",
                                       "90s",
                                       "--optimizer.groups.a.match",
                                       "--train.inject",
                                       "=",
                                       "--",
                                       "-o",
                                       "--json",
                                       "--help",
                                       "optimizer",
                                       "groups",
                                       "match",
                                       "betas"};
  const Path file = folder / "config.yaml";
  Target yaml{.name = "configuration file",
              .seeds = {small_config, config_as_json, config_of_xorl, config_of_transformers},
              .refused = {"{\"a\": 1}\n}\n", "train: {run_dir: \"\xFF\"}\n", std::string(100'000, '['),
                          "a: " + std::string(100'000, '{')},
              .words = words,
              .names = {"config.yaml", "is needed"},
              .read = {}};
  yaml.read = [file](const std::string& text) { read_config(file, text); };

  Target saved{.name = "saved config.yaml",
               .seeds = {small_config, config_as_json},
               .words = words,
               .names = {"saved.yaml"},
               .share = 0.3,
               .read = {}};
  saved.read = [](const std::string& text) { differing_fixed_options({text, "saved.yaml", {}}, TrainConfig{}, {}); };

  Target line{
      .name = "command line",
      .seeds =
          {"train\n--model.config\nc.json\n--data.path=d\n--data.sequence_length\n8\n--train.run_dir\nr\n--train.max_"
           "steps\n3\n--train.global_batch\n2\n"
           "--optimizer.betas\n[0.9, "
           "0.99]\n--optimizer.groups.a.match\nwte\n--optimizer.groups.a.lr_scale\n2\n--train.max_time\n1h\n--log."
           "tensorboard\nno",
           "prepare-data\na.txt\nb.jsonl\n-o\nout\n--data.tokenizer\nchars\n--data.validation\ntail:0.1\n--threads\n2",
           "checkpoint-inspect\nrun\n--verify=hashes\n--json", "checkpoint-reshard\nrun\n--to\nparts=3\n--output\nx",
           "checkpoint-reshard\nrun\n--to\ntp=2,dp_shard=4,parts=2\n--only\nmodel\n--skip\nmodel/"
           "wte\n--cast\nbf16\n--memory\n1GiB\n-o\nx",
           "checkpoint-reshard\na\nb\n--average\n--to\nep=2,dp_shard=2\n--watchdog\n5m\n-o\nx",
           "finalize-quantize\nrun\n--recipe\nint8\n--output\no"},
      .words = words,
      .read = {}};
  line.read = read_command_line;

  Target inject{.name = "text of an injected failure",
                .seeds = {"rank=1,phase=forward,step=3,kind=throw", "rank=0,kind=kill"},
                .words = {"rank=", ",", "=", "phase=save"},
                .share = 0.3,
                .read = {}};
  inject.read = [](const std::string& text) { parse_injection(text); };
  return {yaml, saved, line, inject};
}

}  // namespace lockstep::test
