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
#include "dialects/dialect.hpp"
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

/// By dialect: the words of a whole configuration.
const std::vector<std::string>& dialect_lines() {
  static const std::vector<std::string> lines{
      "train\n--dialect\nforgather\n--output_dir\nrun\n--max_steps=5\n--per_device_train_batch_size\n2\n--learning_"
      "rate\n1e-4\n"
      "--post_local_sgd.enabled\n--post_local_sgd.period\n4\n--enable_activation_offloading\ny\n"
      "--optimizer_groups\n{a: {regex: wte, config: {lr: "
      "1e-3}}}\n--lockstep.model.config\nmodel\n--lockstep.data.path=text.txt\n"
      "--lockstep.data.sequence_length\n16",
      "train\n--dialect=transformers\n--output_dir\nrun\n--config_name\nmodel\n--train_file\ntext.txt\n--block_"
      "size\n16\n"
      "--per_device_train_batch_size=2\n--max_steps\n5\n--bf16\n--fsdp\nfull_shard auto_wrap\n--fsdp_config\n"
      "{\"offload_params\": true, \"forward_prefetch\": false}\n--lr_scheduler_type\ncosine_with_restarts\n"
      "--lr_scheduler_kwargs\n{\"num_cycles\": 2}\n--report_to\ntensorboard\nwandb\n--label_smoothing_factor\n0.1",
      "train\n--dialect\nxorl\n--model.config_path\nmodel\n--data.datasets\n[{path: a.jsonl, type: tokenized, "
      "max_seq_len: 64}]\n"
      "--data.sample_packing_sequence_len=64\n--train.output_dir\nrun\n--train.lr\n2e-5\n--train.max_steps=5\n"
      "--train.no_decay_modules\nnorm\nbias\n--train.enable_activation_offload\n--train.recompute_modules\n[mlp]\n"
      "--train.micro_batch_size=2\n--lockstep.checkpoint.keep_every\n5",
      "prepare-data\n--dialect\nxorl\n--data.datasets\n[{path: a.jsonl, type: "
      "text}]\n--model.tokenizer_path\ntokenizer\n"
      "--data.val_set_size=0.1\n-o\nout"};
  return lines;
}

/// A value as a key of its kind may have it, on lines of their own where it is several words.
std::string value_of(DialectKey::Value kind, Dice& dice) {
  static const std::vector<std::string> flags{"true", "n", "Yes", "0", "off"};
  static const std::vector<std::string> numbers{"0", "1", "-1", "2e-5", "1e400", "0.5", "9223372036854775808", "nan"};
  static const std::vector<std::string> texts{"no",         "steps", "epoch", "auto",        "cosine", "a/b",
                                              "\"quoted\"", "bf16",  "fsdp2", "muon",        "1F1B",   "ddp",
                                              "",           "a: b",  "true",  "eval_a_loss", "moe_act"};
  static const std::vector<std::string> lists{
      "a\nb",        "[a, b]", "[]",        "full_shard auto_wrap", "[[a], {b: 1}]",
      "[self_attn]", "norm",   "[1, null]", "tensorboard\nwandb"};
  static const std::vector<std::string> maps{"{}",
                                             "{min_lr: 1e-6, power: 2}",
                                             "{\"num_cycles\": 2}",
                                             "{offload_params: true, state_dict_type: SHARDED_STATE_DICT}",
                                             "{a: {regex: w, config: {lr: 1}}}",
                                             "{a: {b: [1, {c: null}]}}",
                                             "[{path: a, shards: 2, shards_idx: 1}, {path: dummy}]"};
  switch (kind) {
    case DialectKey::Value::flag: return dice.pick(flags);
    case DialectKey::Value::number: return dice.pick(numbers);
    case DialectKey::Value::text: return dice.pick(texts);
    case DialectKey::Value::list: return dice.pick(lists);
    case DialectKey::Value::map: return dice.pick(maps);
  }
  return {};
}

/// A whole configuration, or the preset of the dialect, with some more keys, whose values are mostly of their kind.
std::string with_more_keys(Dice& dice) {
  std::string line = dice.pick(dialect_lines());
  const auto named = std::ranges::find_if(dialects(), [&](const Dialect* dialect) {
    return line.find(fmt::format("\n{}\n", dialect->name)) != std::string::npos ||
           line.find(fmt::format("={}\n", dialect->name)) != std::string::npos;
  });
  require(named != dialects().end(), "each line names its dialect");
  const std::span<const DialectKey> keys = (*named)->keys;
  for (std::size_t count = 1 + dice.length(5); count > 0; --count) {
    const DialectKey& key = keys[dice.below(keys.size())];
    const auto kind = dice.one_in(6) ? static_cast<DialectKey::Value>(dice.below(5)) : key.value;
    const bool usual = !key.built_in.empty() && !dice.one_in(3);
    const std::string value =
        (dice.one_in(3) ? "=" : "\n") + (usual ? std::string(key.built_in) : value_of(kind, dice));
    line += fmt::format("\n--{}{}", key.name, key.value == DialectKey::Value::flag && dice.one_in(3) ? "" : value);
  }
  return dice.one_in(2) ? line + "\n--print-config" : line;
}

/// What a line in the words of a dialect comes to reads back the same in ours.
void read_dialect_line(const Path& file, const std::string& text) {
  std::vector<std::string> words = split(text, '\n');
  if (words.front() != "train") return read_command_line(text);
  words.erase(words.begin());
  words.resize(std::min<std::size_t>(words.size(), 1000));
  const auto parsed = parse_command_line<TrainConfig>(words);
  if (parsed.settings.empty()) return;  // it asked for something else
  put_file(file, to_yaml(parsed.settings, tool_of(parsed.config), PrintExtent::full));
  const auto again = parse_command_line<TrainConfig>({file.string(), "--print-config"});
  require(to_json(parsed.settings) == to_json(again.settings),
          "what a dialect comes to reads back as another:\n" + read_file(file));
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

  Target other{.name = "command line of a dialect",
               .seeds = dialect_lines(),
               .refused = {dialect_lines()[1] + "\n--lockstep.model.dropout=0.1\n--lockstep.log.wandb_name=m\xFF"},
               .words = words,
               .made = with_more_keys,
               .read = {}};
  other.read = [file](const std::string& text) { read_dialect_line(file, text); };

  Target inject{.name = "text of an injected failure",
                .seeds = {"rank=1,phase=forward,step=3,kind=throw", "rank=0,kind=kill"},
                .words = {"rank=", ",", "=", "phase=save"},
                .share = 0.3,
                .read = {}};
  inject.read = [](const std::string& text) { parse_injection(text); };
  return {yaml, saved, line, other, inject};
}

}  // namespace lockstep::test
