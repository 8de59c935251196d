#include "config/train_config.hpp"

#include "base/text.hpp"
#include "config/finalize_config.hpp"
#include "config/fixed_options.hpp"
#include "config/inspect_config.hpp"
#include "config/prepare_config.hpp"
#include "config/reshard_config.hpp"
#include "options/arguments.hpp"
#include "options/former_options.hpp"
#include "options/option.hpp"
#include "sample_config.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace lockstep;
using namespace lockstep::test;

namespace {

const std::string minimal =
    "model: {config: m.json}\ndata: {path: d, sequence_length: 8}\ntrain: {run_dir: r, max_steps: 10, global_batch: "
    "4}\n";

std::string train_problem(std::vector<std::string> more) {
  Files files;
  files.write("c.yaml", minimal);
  more.insert(more.begin(), "c.yaml");
  return message_of<TrainConfig>(more);
}

CommandLine<TrainConfig> train_line(std::vector<std::string> more = {}) {
  Files files;
  files.write("c.yaml", minimal);
  more.insert(more.begin(), "c.yaml");
  return parse_command_line<TrainConfig>(more);
}

/// On one rank, where train.max_steps says how long the run is.
ResolvedRun resolved_of(const TrainConfig& config) {
  return {config.train.global_batch ? *config.train.global_batch : configured_samples_per_rank(config).value(),
          configured_samples_per_rank(config), length_of(config, *config.train.max_steps)};
}

/// What a run that was started with `saved` refuses of `now`, going by its config.yaml alone.
std::vector<Difference> differences_from(const std::vector<std::string>& saved, const TrainConfig& now) {
  return differing_fixed_options(
      {to_yaml(train_line(saved).settings, tool_of(TrainConfig{}), PrintExtent::full), "config.yaml", {}}, now,
      resolved_of(now));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(train_config)

BOOST_AUTO_TEST_CASE(what_a_run_cannot_do_without_is_asked_for_at_once) {
  const std::string text = message_of<TrainConfig>({});
  for (const char* const name :
       {"data.path or data.datasets", "data.sequence_length", "train.run_dir", "train.max_steps or train.epochs",
        "train.global_batch", "model.config or model.path"}) {
    BOOST_TEST(text.find(std::string(name) + " is needed") != std::string::npos, name);
  }
  BOOST_TEST(train_problem({}).empty());
}

BOOST_AUTO_TEST_CASE(an_update_in_backward_neither_clips_nor_skips) {
  const std::string in_backward = "--optimizer.in_backward=true", stops = "--train.on_nonfinite=stop";
  BOOST_TEST(train_problem({in_backward, stops}).empty());
  BOOST_TEST(train_problem({in_backward}).find("cannot skip the step: add --train.on_nonfinite stop") !=
             std::string::npos);
  BOOST_TEST(train_problem({in_backward, stops, "--optimizer.clip_norm=1"})
                 .find("before the norm of all gradients is known") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(words_of_other_trainers_are_answered_with_ours) {
  const std::vector<std::pair<std::string, std::string>> words{
      {"learning_rate", "optimizer.lr"},
      {"learning-rate", "optimizer.lr"},
      {"train.lr", "optimizer.lr"},
      {"optim.lr", "optimizer.lr"},
      {"weight_decay", "optimizer.weight_decay"},
      {"adam_beta2", "optimizer.betas"},
      {"max_grad_norm", "optimizer.clip_norm"},
      {"batch_size", "train.global_batch"},
      {"per_device_train_batch_size", "train.micro_batch"},
      {"max_iters", "train.max_steps"},
      {"num_train_epochs", "train.epochs"},
      {"output_dir", "train.run_dir"},
      {"gradient_checkpointing", "train.recompute"},
      {"recompute_modules", "train.recompute_keeps"},
      {"moe_checkpoint_method", "train.recompute_keeps"},
      {"warmup_iters", "schedule.warmup_steps"},
      {"lr_scheduler_type", "schedule.name"},
      {"seq_length", "data.sequence_length"},
      {"block_size", "data.sequence_length"},
      {"data.seq_len", "data.sequence_length"},
      {"mixed_precision", "precision.dtype"},
      {"model_name_or_path", "model.path"},
      {"eval_interval", "eval.every"},
      {"save_steps", "checkpoint.every"},
      {"fsdp_size", "parallel.dp_shard"},
      {"save_total_limit", "checkpoint.keep_last"},
      {"resume_from_checkpoint", "checkpoint.resume"},
      {"logging_steps", "log.every"},
      {"max_new_tokens", "sample.max_tokens"},
      {"optimizer.weight_deacy", "optimizer.weight_decay"},
      {"optmizer.lr", "optimizer.lr"},
  };
  for (const auto& [word, meant] : words) {
    BOOST_TEST(train_problem({"--" + word, "7"}) ==
               fmt::format("command line: unknown option --{}: did you mean --{}?", word, meant));
  }
  // Nothing that is only remotely alike.
  for (const char* const word : {"optimizer.ema", "train.zeal", "log.even_odd", "tensor_parallel", "pipeline"}) {
    BOOST_TEST(train_problem({std::string("--") + word}) == fmt::format("command line: unknown option --{}", word));
  }
  Files files;
  files.write("w.yaml", "training:\n  max_steps: 10\n");
  BOOST_TEST(message_of<TrainConfig>({"w.yaml"}).find("unknown key \"training\": did you mean \"train\"?") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(values_of_other_trainers_are_answered_with_ours) {
  const auto meant = [](const char* const option, const char* const value) {
    const std::string text = train_problem({std::string("--") + option, value});
    const std::size_t found = text.find("did you mean \"");
    return found == std::string::npos ? text : text.substr(found + 14);
  };
  BOOST_TEST(meant("precision.dtype", "float32") == "fp32\"?");
  BOOST_TEST(meant("precision.dtype", "BFloat16") == "bf16\"?");
  BOOST_TEST(meant("precision.dtype", "torch.float64") == "fp64\"?");
  BOOST_TEST(meant("optimizer.name", "AdamW") == "adamw\"?");
  BOOST_TEST(meant("schedule.name", "cosine_with_warmup") == "cosine\"?");
  BOOST_TEST(meant("train.recompute", "full") == "block\"?");
  BOOST_TEST(meant("train.recompute", "off") == "none\"?");
  BOOST_TEST(meant("train.recompute_keeps", "[moe_act]") == "experts\"?");
  BOOST_TEST(meant("precision.dtype", "half") == "fp16\"?");
  BOOST_TEST(meant("precision.dtype", "int8").ends_with("is not one of fp32, fp64, bf16, fp16"));
  BOOST_TEST(meant("optimizer.betas", "0.9,0.95") == "[0.9, 0.95]\"?");
}

BOOST_AUTO_TEST_CASE(a_misspelt_option_is_not_missing_as_well) {
  Files files;
  files.write("t.yaml",
              "model: {config: m.json}\ndata: {pth: d, sequence_length: 8}\ntrian: {run_dir: r, max_steps: 10, "
              "global_batch: 4}\n");
  BOOST_TEST(message_of<TrainConfig>({"t.yaml"}) ==
             "2 problems in the configuration\nt.yaml:2: unknown key \"data.pth\": did you mean \"data.path\"?\n"
             "t.yaml:3: unknown key \"trian\": did you mean \"train\"?");
  files.write("u.yaml",
              "model: {config: m.json}\ndata: {path: d}\nzzz: 1\ntrain: {run_dir: r, max_steps: 10, "
              "global_batch: 4}\n");
  const std::string both = message_of<TrainConfig>({"u.yaml"});
  BOOST_TEST(both.find("unknown key \"zzz\"") < both.find("data.sequence_length is needed"));
}

BOOST_AUTO_TEST_CASE(a_preset_that_is_turned_to_constant_says_what_else_to_type) {
  BOOST_TEST(
      train_problem({"--schedule.name", "constant", "--schedule.min_lr", "1e-5", "--schedule.decay_steps", "5"}) ==
      "a constant schedule does not decay, so that schedule.decay_steps and schedule.min_lr would have no effect: "
      "add --schedule.decay_steps null --schedule.min_lr 0");
  BOOST_TEST(train_problem({"--schedule.name", "constant", "--schedule.decay_steps", "5"})
                 .ends_with("so that schedule.decay_steps would have no effect: add --schedule.decay_steps null"));
  Files files;
  files.write("c.yaml", minimal + "schedule: {min_lr: 1e-5, decay_steps: 7}\n");
  BOOST_TEST(message_of<TrainConfig>({"c.yaml", "--schedule.name", "constant", "--schedule.decay_steps", "null",
                                      "--schedule.min_lr", "0"}) == "");
}

template <class Config>
void every_count_has_a_range() {
  Config config;
  Declaration declaration;
  describe(declaration, config);
  for (const Option& option : declaration.options()) {
    const bool seed = option.path.ends_with("seed");  // any number will do
    if (option.type.kind != OptionType::Kind::integer || seed) continue;
    BOOST_TEST((option.facts.min && option.facts.max), option.path);
  }
}

BOOST_AUTO_TEST_CASE(counts_have_a_least_and_a_largest_value) {
  every_count_has_a_range<TrainConfig>();
  every_count_has_a_range<PrepareConfig>();
  every_count_has_a_range<InspectConfig>();
  every_count_has_a_range<ReshardConfig>();
  every_count_has_a_range<FinalizeConfig>();
  BOOST_TEST(train_problem({"--train.global_batch", "9223372036854775807"}) ==
             "command line: train.global_batch: 9223372036854775807 is out of range: it must be from 1 to 2147483647");
  BOOST_TEST(train_problem({"--checkpoint.ranks_per_file", "2147483648"}).find("node|RANKS") != std::string::npos);
  BOOST_TEST(train_problem({"--train.threads", "1e8"}).find("it must be from 1 to 4096") != std::string::npos);
  BOOST_TEST(message_of<ReshardConfig>({"c", "-o", "o", "--to", "4"}).find("use --to parts=4") != std::string::npos);
  BOOST_TEST(message_of<ReshardConfig>({"c", "-o", "o", "--to", "parts=2147483648"}).find("from 1 to 2147483647") !=
             std::string::npos);
  const std::string help = *parse_command_line<TrainConfig>({"--help=all"}).answer;
  BOOST_TEST(help.find("2147483647") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(unions_are_spelled_in_help) {
  const std::string help = *parse_command_line<PrepareConfig>({"--help=all"}).answer;
  BOOST_TEST(help.find("--data.validation hash:FRACTION|tail:FRACTION|count:N|none") != std::string::npos);
  BOOST_TEST(parse_command_line<TrainConfig>({"--help=all"}).answer->find("--train.max_time DURATION\n") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(contradictions_are_refused_with_both_options_named) {
  BOOST_TEST(train_problem({"--model.path", "w"}).find("both name a network") != std::string::npos);
  BOOST_TEST(train_problem({"--model.path", "w"}).find("(model.config from c.yaml:1)") != std::string::npos);
  BOOST_TEST(
      train_problem({"--schedule.warmup_steps", "11"}).find("warm-up takes 11 steps, but the decay ends at step 10") !=
      std::string::npos);
  BOOST_TEST(
      train_problem({"--schedule.min_lr", "0.1"}).find("schedule.min_lr 0.1 is above the peak, optimizer.lr 0.0003") !=
      std::string::npos);
  BOOST_TEST(train_problem({"--schedule.name", "constant", "--schedule.min_lr", "1e-5"}).find("does not decay") !=
             std::string::npos);
  BOOST_TEST(
      train_problem({"--train.micro_batch", "5"}).find("train.micro_batch 5 is more than train.global_batch 4") !=
      std::string::npos);
  BOOST_TEST(train_problem({"--parallel.dp_replicate", "5"}).find("5 ranks cannot share 4 samples") !=
             std::string::npos);
  BOOST_TEST(train_problem({"--train.callbacks", "sample"}).find("sample.prompts is empty") != std::string::npos);
  BOOST_TEST(train_problem({"--optimizer.betas", "[0.9, 1]"}).find("must be below 1") != std::string::npos);
  BOOST_TEST(train_problem({"--optimizer.momentum", "0.9"}).find("applies only to optimizer.name sgd") !=
             std::string::npos);
  BOOST_TEST(train_problem({"--optimizer.name", "sgd", "--optimizer.eps", "1e-3"})
                 .find("applies only to optimizer.name adamw") != std::string::npos);
  BOOST_TEST(train_problem({"--optimizer.name", "sgd", "--optimizer.nesterov", "true"})
                 .find("optimizer.nesterov needs momentum") != std::string::npos);
  BOOST_TEST(train_problem({"--optimizer.groups", "{a: {match: \"(\"}}"}) ==
             "command line: optimizer.groups.a.match: \"(\" is not a regular expression: missing closing parenthesis, "
             "at character 2");
  const auto group = [](const std::string& says) {
    return train_problem({"--optimizer.groups", "{a: {match: x, " + says + "}}"});
  };
  BOOST_TEST(group("momentum: 0.5")
                 .find("optimizer.groups.a.momentum applies only to sgd, but the group uses another optimizer") !=
             std::string::npos);
  BOOST_TEST(group("optimizer: lion, betas: [0.9, 1]").find("optimizer.groups.a.betas must be below 1") !=
             std::string::npos);
  BOOST_TEST(group("optimizer: sgd, nesterov: true").find("set optimizer.groups.a.momentum") != std::string::npos);
  BOOST_TEST(group("lr: 0.1, lr_scale: 2").find("both set the learning rate") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(hidden_and_command_line_options_are_in_no_printed_configuration) {
  const std::string printed =
      to_yaml(train_line({"--print-program", "--rank", "2"}).settings, tool_of(TrainConfig{}), PrintExtent::full);
  BOOST_TEST(printed.find("inject") == std::string::npos);
  BOOST_TEST(printed.find("print_program") == std::string::npos);
  BOOST_TEST(*train_line({"--print-program", "--rank", "2"}).config.rank == 2);
  BOOST_TEST(!train_line({"--print-program"}).config.rank);
  BOOST_TEST(train_problem({"--rank", "2"}).find("add --print-program") != std::string::npos);
  BOOST_TEST(*train_line({"--train.inject", "rank=1,kind=nan"}).config.train.inject == "rank=1,kind=nan");
  Files files;
  files.write("p.yaml", "print_program: true\n");
  BOOST_TEST(
      message_of<TrainConfig>({"p.yaml"}).find("p.yaml:1: --print-program: this option belongs on the command line") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_evaluation_alone_takes_no_switch_that_is_about_steps) {
  BOOST_TEST(train_line({"--eval-only"}).config.eval_only);
  BOOST_TEST(train_line({"--plan", "--dry-run"}).config.plan);
  BOOST_TEST(train_problem({"--eval-only", "--profile"})
                 .find("--eval-only runs no training step, so --profile has nothing to measure") != std::string::npos);
  BOOST_TEST(
      train_problem({"--eval-only", "--plan"}).find("--plan shows the steps of a run, but --eval-only runs none") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_evaluation_needs_weights_data_and_a_sequence_length_alone) {
  const std::vector<std::string> needed{"--eval-only",     "--model.path",   "m", "--data.sequence_length", "8",
                                        "--eval.datasets", "[{path: a.txt}]"};
  BOOST_TEST(message_of<TrainConfig>(needed).empty());
  const auto without = [&](std::size_t first) {
    std::vector<std::string> words = needed;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(first),
                words.begin() + static_cast<std::ptrdiff_t>(first) + 2);
    return message_of<TrainConfig>(words);
  };
  BOOST_TEST(without(1).find("model.config or model.path is needed") != std::string::npos);
  BOOST_TEST(without(3).find("data.sequence_length is needed") != std::string::npos);
  BOOST_TEST(without(5).find("eval.datasets or data.path is needed") != std::string::npos);
  std::vector<std::string> scratch = needed;
  scratch[1] = "--model.config";
  BOOST_TEST(message_of<TrainConfig>(scratch).find("--eval-only needs weights: set train.run_dir or") !=
             std::string::npos);
  for (const std::string start : {"best", "latest", "5"}) {
    std::vector<std::string> of_run = needed;
    of_run.insert(of_run.end(), {"--checkpoint.resume", start});
    BOOST_TEST(message_of<TrainConfig>(of_run).find("train.run_dir does not name the run") != std::string::npos, start);
  }
  std::vector<std::string> of_path = scratch;
  of_path.insert(of_path.end(), {"--checkpoint.resume", "./runs/x"});
  BOOST_TEST(message_of<TrainConfig>(of_path).empty());
}

BOOST_AUTO_TEST_CASE(an_evaluation_overlooks_contradictions_between_options_of_training) {
  using Words = std::vector<std::string>;
  for (const Words& wrong : {Words{"--schedule.decay_steps", "2", "--schedule.warmup_steps", "5"},
                             {"--schedule.name", "wsd"},
                             {"--train.epochs", "3"},
                             {"--train.micro_batch", "9"},
                             {"--optimizer.name", "sgd", "--optimizer.nesterov", "true"},
                             {"--optimizer.in_backward", "true"},
                             {"--train.recompute_keeps", "[mlp]"},
                             {"--train.host_memory", "1GiB"},
                             {"--train.callbacks", "[sample]"},
                             {"--train.max_time", "0s"},
                             {"--eval.patience", "2"},
                             {"--divergence.few", "3"},
                             {"--checkpoint.components", "[optimizer]"},
                             {"--checkpoint.max_unpromoted", "3"},
                             {"--log.wandb_project", "p"},
                             {"--log.peak_device", "abacus"},
                             {"--parallel.schedule", "zbv"},
                             {"--parallel.dp_replicate", "8"},
                             {"--post_local_sgd.period", "3"},
                             {"--precision.reduce_dtype", "fp16"},
                             {"--data.repeat_order", "true", "--data.shuffle", "false"}}) {
    BOOST_TEST(!train_problem(wrong).empty(), wrong.front());
    Words evaluated = wrong;
    evaluated.emplace_back("--eval-only");
    BOOST_TEST(train_problem(evaluated).empty(), wrong.front() << ": " << train_problem(evaluated));
  }
  BOOST_TEST(train_problem({"--eval-only", "--dry-run"}).find("a plan is of a training run") != std::string::npos);
  BOOST_TEST(train_problem({"--eval-only", "--print-layout"}).find("a plan is of a training run") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(texts_need_weights_alone_and_overlook_what_only_training_and_evaluations_use) {
  using Words = std::vector<std::string>;
  const auto problem = [](const Words& words) { return message_of<TrainConfig>(words); };
  BOOST_TEST(problem({"--sample", "A text", "--model.path", "m"}).empty());
  BOOST_TEST(problem({"--sample-file", "f.txt", "--model.path", "m"}).empty());
  BOOST_TEST(problem({"--sample", "A text", "--model.config", "m", "--checkpoint.resume", "./runs/x"}).empty());
  BOOST_TEST(problem({"--sample", "A text"}).find("model.config or model.path is needed") != std::string::npos);
  BOOST_TEST(problem({"--sample", "A text", "--model.config", "m"}).find("--sample needs weights") !=
             std::string::npos);
  for (const Words& wrong : {Words{"--data.repeat_order", "true", "--data.shuffle", "false"},
                             {"--parallel.dp_replicate", "8"},
                             {"--eval.patience", "2"},
                             {"--optimizer.in_backward", "true"},
                             {"--train.callbacks", "[sample]"}}) {
    Words words = wrong;
    words.insert(words.end(), {"--sample", "A text"});
    BOOST_TEST(train_problem(words).empty(), wrong.front() << ": " << train_problem(words));
  }
}

BOOST_AUTO_TEST_CASE(a_text_of_the_command_line_is_taken_as_it_is) {
  const auto texts = [](const std::vector<std::string>& words) { return train_line(words).config.sample_texts; };
  BOOST_TEST(texts({"--sample", "[INST] a", "--sample", "{b: 1}", "--sample=null", "--sample=--help", "--sample",
                    "-"}) == (std::vector<std::string>{"[INST] a", "{b: 1}", "null", "--help", "-"}));
  const TrainConfig config = train_line({"--sample.count", "2", "--sample", "c", "--sample.stop", "x"}).config;
  BOOST_TEST(config.sample_texts == std::vector<std::string>{"c"});
  BOOST_TEST(config.sample.count == 2);
  BOOST_TEST(config.sample.stop == std::vector<std::string>{"x"});
  BOOST_TEST(spelling_of("sample_") == "--sample");
}

BOOST_AUTO_TEST_CASE(a_resumed_run_may_change_what_does_not_alter_its_trajectory) {
  BOOST_TEST(differences_from({}, train_line().config).empty());
  TrainConfig later =
      train_line({"--train.micro_batch", "1", "--log.every", "1", "--eval.every", "5", "--train.recompute", "block"})
          .config;
  later.train.max_steps = 20;
  later.schedule.decay_steps = 10;  // without it the decay would move with max_steps
  later.data.path = {"moved"};
  BOOST_TEST(differences_from({}, later).empty());
}

BOOST_AUTO_TEST_CASE(a_decay_that_ends_at_max_steps_may_not_move_unless_the_rate_is_constant) {
  TrainConfig later = train_line().config;
  later.train.max_steps = 20;
  const std::vector<Difference> differences = differences_from({}, later);
  BOOST_REQUIRE(differences.size() == 1u);
  BOOST_TEST(differences[0].option == "schedule.decay_steps");
  BOOST_TEST(differences[0].now == "20");
  const std::vector<std::string> constant{"--schedule.name", "constant"};
  TrainConfig longer = train_line(constant).config;
  longer.train.max_steps = 20;
  BOOST_TEST(differences_from(constant, longer).empty());
}

BOOST_AUTO_TEST_CASE(batch_and_schedule_of_a_resumed_run_are_compared_as_they_were_resolved) {
  TrainConfig same = train_line({"--schedule.warmup_ratio", "0.2", "--schedule.decay_ratio", "1"}).config;
  same.train.global_batch.reset();
  same.train.micro_batch = 2;
  same.train.accumulation = 2;
  BOOST_TEST(differences_from({"--schedule.warmup_steps", "2"}, same).empty());
  same.train.max_steps = 15;
  const std::vector<Difference> differences = differences_from({"--schedule.warmup_steps", "2"}, same);
  BOOST_REQUIRE(differences.size() == 2u);
  BOOST_TEST((differences[0].option == "schedule.warmup_steps" && differences[0].now == "3"));
  BOOST_TEST((differences[1].option == "schedule.decay_steps" && differences[1].now == "15"));
  // What a checkpoint says that it resolved counts, not what its options would come to.
  const CommandLine<TrainConfig> line = train_line();
  const SavedRun other{to_yaml(line.settings, tool_of(TrainConfig{}), PrintExtent::full), "config.yaml",
                       ResolvedRun{8, {}, {10, 0, 10, 0}}};
  const std::vector<Difference> batch = differing_fixed_options(other, line.config, resolved_of(line.config));
  BOOST_REQUIRE(batch.size() == 1u);
  BOOST_TEST((batch[0].option == "train.global_batch" && batch[0].saved == "8" && batch[0].now == "4"));
}

BOOST_AUTO_TEST_CASE(padding_of_packed_documents_is_compared_as_it_was_resolved) {
  const auto differences = [](const std::vector<std::string>& said, std::int64_t saved, std::int64_t padded) {
    const TrainConfig now = train_line({"--data.packing", "best_fit"}).config;
    std::vector<std::string> line{"--data.packing", "best_fit"};
    line.insert(line.end(), said.begin(), said.end());
    ResolvedRun before = resolved_of(now), after = before;
    before.pad_to_multiple_of = saved;
    after.pad_to_multiple_of = padded;
    const std::string yaml = to_yaml(train_line(line).settings, tool_of(TrainConfig{}), PrintExtent::full);
    std::vector<std::string> found;
    for (const Difference& one : differing_fixed_options({yaml, "config.yaml", before}, now, after))
      found.push_back(one.option + ": " + one.saved + " -> " + one.now);
    return join(found, "; ");
  };
  BOOST_TEST(differences({}, 1, 1) == "");
  BOOST_TEST(differences({}, 4, 4) == "");
  BOOST_TEST(differences({"--data.pad_to_multiple_of", "4"}, 4, 4) == "");
  BOOST_TEST(differences({}, 4, 1) == "data.pad_to_multiple_of: 4 -> 1");
  BOOST_TEST(differences({"--data.pad_to_multiple_of", "4"}, 1, 6) == "data.pad_to_multiple_of: 4 -> 6");
}

BOOST_AUTO_TEST_CASE(null_on_the_command_line_takes_back_what_a_file_says_unless_it_is_a_text_of_the_option) {
  Files files;
  files.write("c.yaml", minimal + "checkpoint: {every: 5}\n");
  BOOST_TEST(parse_command_line<TrainConfig>({"c.yaml"}).config.checkpoint.every.steps == 5);
  BOOST_TEST(!parse_command_line<TrainConfig>({"c.yaml", "--checkpoint.every", "null"}).config.checkpoint.every);
  BOOST_TEST(parse_command_line<TrainConfig>({"c.yaml", "--data.train_split", "null"}).config.data.train_split ==
             "null");
}

BOOST_AUTO_TEST_CASE(a_run_that_an_earlier_version_saved_goes_on) {
  std::string saved = to_yaml(train_line().settings, tool_of(TrainConfig{}), PrintExtent::full);
  const auto put = [&](const std::string& from, const std::string& to) {
    const std::size_t at = saved.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    saved.replace(at, from.size(), to);
  };
  put("checkpoint:\n", "checkpoint:\n  every_epochs: 3\n");
  for (const char* const gone : {"  epochs: null", "  warmup_ratio: null", "  decay_ratio: null", "  cycles: null"})
    put(gone, "  #");
  const TrainConfig now = train_line().config;
  BOOST_TEST(differing_fixed_options({saved, "config.yaml", {}}, now, resolved_of(now)).empty());
}

BOOST_AUTO_TEST_CASE(a_resumed_run_must_not_change_what_does) {
  TrainConfig now = train_line().config;
  now.optimizer.lr = 0.01;
  now.train.seed = 7;
  now.optimizer.clip_norm = 1;
  now.optimizer.groups = {{"head", {.match = NamePattern::parse("head"), .lr_scale = 2}}};
  const std::vector<Difference> differences = differences_from({}, now);
  std::vector<std::string> found;
  for (const Difference& one : differences) found.push_back(one.option + ": " + one.saved + " -> " + one.now);
  const std::vector<std::string> expected{"optimizer.lr: 0.0003 -> 0.01", "optimizer.clip_norm: null -> 1.0",
                                          "optimizer.groups: {} -> {head: {match: \"head\", lr_scale: 2.0}}",
                                          "train.seed: 0 -> 7"};
  BOOST_TEST(found == expected, boost::test_tools::per_element());
  BOOST_CHECK_THROW(differing_fixed_options({"model: [", "config.yaml", {}}, now, resolved_of(now)), Error);
  BOOST_CHECK_EXCEPTION(differing_fixed_options({"nonsense: 3\n", "config.yaml", {}}, now, resolved_of(now)), Error,
                        [](const Error& error) { return error.code() == ExitCode::usage; });  // of another version
}

BOOST_AUTO_TEST_CASE(what_may_change_on_resume_is_named_by_option_or_section) {
  const auto allowed = [](const std::vector<std::string>& names, const std::string& option) {
    TrainConfig config;
    config.checkpoint.allow_change = names;
    return may_change(config, option);
  };
  BOOST_TEST(allowed({"optimizer.lr"}, "optimizer.lr"));
  BOOST_TEST(!allowed({"optimizer.lr"}, "optimizer.clip_norm"));
  BOOST_TEST(
      (allowed({"train.seed", "optimizer"}, "optimizer.clip_norm") && allowed({"optimizer"}, "optimizer.groups")));
  BOOST_TEST(!allowed({"optimizer"}, "optimizer.name"));  // never
  BOOST_TEST(!allowed({"data"}, "data.sequence_length"));
  BOOST_TEST(!allowed({"opti"}, "optimizer.lr"));
  BOOST_TEST(allowed({"schedule.warmup_ratio"}, "schedule.warmup_steps"));  // said as a ratio
  BOOST_TEST(!allowed({}, "optimizer.lr"));
  for (const char* const option : {"optimizer.lr", "schedule", "train.seed", "schedule.decay_ratio", "data.shuffle"})
    BOOST_TEST(train_problem({fmt::format("--checkpoint.allow_change=[{}]", option)}).empty(), option);
  for (const char* const option :
       {"optimizer.name", "model.config", "data.path", "eval", "eval.every", "lr", "data.lr", ""})
    BOOST_TEST(!train_problem({fmt::format("--checkpoint.allow_change=[\"{}\"]", option)}).empty(), option);
}

BOOST_AUTO_TEST_CASE(former_names_are_those_of_no_option_and_lead_to_one) {
  TrainConfig config;
  Declaration declaration;
  describe(declaration, config);
  for (const FormerOption& option : former_options()) {
    BOOST_TEST(declaration.find(option.name) == nullptr, option.name);
    BOOST_TEST(declaration.find(option.now) != nullptr, option.now);
    BOOST_TEST(find_former(declaration, std::string(option.name)) == &option);
  }
  const auto every = [&](const std::string& said) {
    Problems problems;
    Node saved = parse_yaml("checkpoint:\n  keep_last: 2\n" + said, "config.yaml", problems);
    update_names(declaration, saved);
    const Node* const section = saved.find("checkpoint");
    BOOST_TEST((section->find("every_epochs") == nullptr && section->find("keep_last")->text == "2"));
    const Node* const found = section->find("every");
    return found == nullptr ? "absent" : found->kind == Node::Kind::null ? "null" : found->text;
  };
  BOOST_TEST(every("  every_epochs: 3\n") == "3 epochs");
  BOOST_TEST(every("  every_epochs: 3\n  every: null\n") == "3 epochs");
  BOOST_TEST(every("  every_epochs: null\n  every: 5\n") == "5");
  BOOST_TEST(every("  every_epochs: 3\n  every: 5\n") == "5");
  BOOST_TEST(every("  every_epochs: null\n") == "absent");
}

BOOST_AUTO_TEST_CASE(the_other_programs_take_flags_and_arguments) {
  const PrepareConfig prepare = parse_command_line<PrepareConfig>({"a.txt", "b", "-o", "out", "--data.validation",
                                                                   "tail:0.1", "--data.tokenizer=chars"})
                                    .config;
  BOOST_TEST(prepare.inputs.size() == 2U);
  BOOST_TEST(prepare.output == "out");
  BOOST_TEST((prepare.data.validation->by == ValidationSplit::Kind::tail));
  const PrepareConfig all = parse_command_line<PrepareConfig>({"a", "-o", "out", "--data.validation", "none"}).config;
  BOOST_TEST((all.data.validation->by == ValidationSplit::Kind::none));
  BOOST_TEST((prepare.data.tokenizer->kind == TokenizerChoice::Kind::chars));
  const InspectConfig inspect = parse_command_line<InspectConfig>({"run", "--verify=hashes"}).config;
  BOOST_TEST((*inspect.verify == VerifyLevel::hashes));
  BOOST_TEST((*parse_command_line<InspectConfig>({"--verify", "run"}).config.verify == VerifyLevel::sizes));
  BOOST_TEST(
      (parse_command_line<ReshardConfig>({"c", "--to", "parts=3", "--output", "o", "-n"}).config.to->parts == 3));
  BOOST_TEST(
      (parse_command_line<FinalizeConfig>({"c", "--recipe", "int8", "--output", "o"}).config.recipe == Recipe::int8));
}

BOOST_AUTO_TEST_CASE(one_file_serves_all_programs) {
  Files files;
  const std::string file =
      "model: {config: m.json}\n"
      "data: {path: corpus, tokenizer: chars, text_field: body, validation_seed: 3, seed: 5, "
      "sequence_length: 8}\n"
      "optimizer:\ntrain: {run_dir: r, max_steps: 10, global_batch: 4}\n"
      "recipe: int8\n";
  files.write("all.yaml", file);
  const PrepareConfig prepare = parse_command_line<PrepareConfig>({"all.yaml", "-o", "out"}).config;
  BOOST_TEST(prepare.text() == std::vector<std::string>{"corpus"});
  BOOST_TEST(prepare.data.text_field == "body");
  BOOST_TEST(prepare.data.seed == 3);
  const PrepareConfig named = parse_command_line<PrepareConfig>({"a.txt", "all.yaml", "-o", "out"}).config;
  BOOST_TEST(named.text() == std::vector<std::string>{"a.txt"});
  BOOST_TEST(*parse_command_line<TrainConfig>({"all.yaml"}).config.data.seed == 5);
  BOOST_TEST(
      (parse_command_line<FinalizeConfig>({"c", "--config", "all.yaml", "-o", "o"}).config.recipe == Recipe::int8));
  // What another program reads is checked all the same.
  files.write("bad.yaml", file + "sample: {max_tokens: many}\ncheckpoint: {kep_last: 2}\nschedulle: {name: cosine}\n");
  BOOST_TEST(message_of<PrepareConfig>({"bad.yaml", "-o", "out"}) ==
             "3 problems in the configuration\n"
             "bad.yaml:6: sample.max_tokens: \"many\" is not a whole number\n"
             "bad.yaml:7: unknown key \"checkpoint.kep_last\": did you mean \"checkpoint.keep_last\"?\n"
             "bad.yaml:8: unknown key \"schedulle\": did you mean \"schedule\"?");
  files.write("shape.yaml", file + "eval: often\ndata_: 1\n");
  BOOST_TEST(message_of<PrepareConfig>({"shape.yaml", "-o", "out"}).find("\"eval\" is a section") != std::string::npos);
  // A key that stands outside of a section that the program has it in is a mistake, whatever others make of it.
  files.write("outside.yaml", file + "threads: 4\n");
  BOOST_TEST(message_of<TrainConfig>({"outside.yaml"}).find("did you mean \"train.threads\"?") != std::string::npos);
  BOOST_TEST(*parse_command_line<PrepareConfig>({"outside.yaml", "-o", "out"}).config.threads == 4);
}

BOOST_AUTO_TEST_CASE(a_value_that_is_not_utf8_is_refused_by_its_option) {
  BOOST_TEST(train_problem({"--train.run_dir=r\xFF"}).find("the value of --train.run_dir is not valid UTF-8") !=
             std::string::npos);
  BOOST_TEST(train_problem({"--optimizer.groups.a.match", "\xFF"})
                 .find("the value of --optimizer.groups is not valid UTF-8") != std::string::npos);
}

namespace {

/// A variable of the environment while this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(paths_expand_the_home_folder_and_variables_in_files_and_on_the_command_line) {
  const Variable home("HOME", "/home/ada");
  const Variable job("LOCKSTEP_TEST_JOB", "4711");
  Files files;
  files.write("base.yaml", minimal);
  files.write(
      "c.yaml",
      "preset: ${LOCKSTEP_TEST_BASE}.yaml\ntrain: {run_dir: ~/runs/$LOCKSTEP_TEST_JOB}\ncheckpoint: {local_dir: "
      "'/scratch/${LOCKSTEP_TEST_JOB}x', metadata: owner=$LOCKSTEP_TEST_JOB}\nlog: {wandb: offline, wandb_name: "
      "~/$USER}\n");
  const Variable base("LOCKSTEP_TEST_BASE", "base");
  const auto line = parse_command_line<TrainConfig>({"c.yaml", "--model.config", "a$$b/~/$1$", "--data.cache", "~",
                                                     "--checkpoint.resume", "~/other/$LOCKSTEP_TEST_JOB"});
  BOOST_TEST(line.config.train.run_dir == "/home/ada/runs/4711");
  BOOST_TEST(line.config.checkpoint.local_dir.value() == "/scratch/4711x");
  BOOST_TEST(line.config.model.config.value() == "a$b/~/$1$");
  BOOST_TEST(line.config.data.cache.value() == "/home/ada");
  BOOST_TEST(line.config.checkpoint.resume.path == "/home/ada/other/4711");
  BOOST_TEST(line.config.checkpoint.metadata.front().value == "$LOCKSTEP_TEST_JOB");  // no path
  BOOST_TEST(line.config.log.wandb_name.value() == "~/$USER");
  const auto groups = parse_command_line<TrainConfig>(
      {"base.yaml", "--data.path", "null", "--data.datasets", R"([{"path": "~/$LOCKSTEP_TEST_JOB"}])"});
  BOOST_TEST(groups.config.data.datasets.front().path == "/home/ada/4711");
}

BOOST_AUTO_TEST_CASE(a_path_without_its_variable_is_refused_by_its_option_and_place) {
  Files files;
  files.write("c.yaml", minimal + "checkpoint:\n  local_dir: /scratch/$LOCKSTEP_TEST_NONE\n");
  BOOST_TEST(message_of<TrainConfig>({"c.yaml"}) ==
             "c.yaml:5: checkpoint.local_dir: \"/scratch/$LOCKSTEP_TEST_NONE\": the environment variable "
             "LOCKSTEP_TEST_NONE is not set");
  const Variable empty("LOCKSTEP_TEST_NONE", "");
  BOOST_TEST(train_problem({"--train.run_dir", "${LOCKSTEP_TEST_NONE}/run"}) ==
             "command line: train.run_dir: \"${LOCKSTEP_TEST_NONE}/run\": the environment variable LOCKSTEP_TEST_NONE "
             "is empty");
  for (const char* const text : {"a${", "a${}", "${B", "${a b}"})
    BOOST_TEST(train_problem({"--train.run_dir", text}).find("after ${, the name of an environment variable and }") !=
               std::string::npos);
  files.write("p.yaml", "preset: $LOCKSTEP_TEST_NONE/base.yaml\n");
  BOOST_TEST(message_of<TrainConfig>({"p.yaml"}).find("p.yaml:1: preset: \"$LOCKSTEP_TEST_NONE/base.yaml\": the") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_written_configuration_has_expanded_paths_and_is_read_back_as_the_same) {
  const auto written = [](const std::vector<std::string>& more) {
    return to_yaml(train_line(more).settings, tool_of(TrainConfig{}), PrintExtent::full);
  };
  std::string text;
  {
    const Variable job("LOCKSTEP_TEST_JOB", "4711");
    text = written({"--checkpoint.local_dir", "/scratch/$LOCKSTEP_TEST_JOB", "--train.run_dir", "a$$HOME",
                    "--data.cache", "./~/b"});
  }
  Files files;
  files.write("config.yaml", text);
  const TrainConfig again = parse_command_line<TrainConfig>({"config.yaml"}).config;
  BOOST_TEST(again.checkpoint.local_dir.value() == "/scratch/4711");
  BOOST_TEST(again.train.run_dir == "a$HOME");
  BOOST_TEST(again.data.cache.value() == "./~/b");
}

BOOST_AUTO_TEST_CASE(a_folder_named_after_the_job_does_not_keep_a_run_from_going_on) {
  const std::vector<std::string> words{"--checkpoint.local_dir", "/scratch/$LOCKSTEP_TEST_JOB"};
  std::string before;
  {
    const Variable job("LOCKSTEP_TEST_JOB", "1");
    before = to_yaml(train_line(words).settings, tool_of(TrainConfig{}), PrintExtent::full);
  }
  const Variable job("LOCKSTEP_TEST_JOB", "2");
  const TrainConfig now = train_line(words).config;
  BOOST_TEST(differing_fixed_options({before, "config.yaml", {}}, now, resolved_of(now)).empty());
}

BOOST_AUTO_TEST_CASE(no_program_declares_an_option_twice) {
  const auto distinct = [](auto config) {
    Declaration declared;
    describe(declared, config);
    std::set<std::string> paths;
    for (const Option& option : declared.options()) BOOST_TEST(paths.insert(option.path).second, option.path);
  };
  distinct(TrainConfig());
  distinct(PrepareConfig());
  distinct(InspectConfig());
  distinct(ReshardConfig());
  distinct(FinalizeConfig());
}

BOOST_AUTO_TEST_CASE(every_count_has_a_range_and_what_is_beyond_it_is_refused) {
  Declaration train;
  TrainConfig config;
  describe(train, config);
  Declaration prepare;
  PrepareConfig other;
  describe(prepare, other);
  int counts = 0;
  for (const Declaration* const declared : {&train, &prepare}) {
    for (const Option& option : declared->options()) {
      if (option.type.kind != OptionType::Kind::integer || option.path.ends_with("seed")) continue;
      BOOST_TEST((option.facts.min && option.facts.max), option.path);
      ++counts;
    }
  }
  BOOST_TEST(counts > 20);
  for (const char* const setting :
       {"train.global_batch=9223372036854775807", "checkpoint.ranks_per_file=2147483648", "train.threads=100000000",
        "data.sequence_length=9223372036854775807", "eval.batches=9223372036854775807"}) {
    const std::string text = train_problem({"--" + std::string(setting)});
    BOOST_TEST(text.find(std::string(setting).substr(0, std::string(setting).find('='))) != std::string::npos, text);
  }
  BOOST_TEST(!message_of<PrepareConfig>({"a.txt", "-o", "out", "--threads", "100000000"}).empty());
  for (const char* const parts : {"parts=2147483648", "{\"parts\": 9223372036854775808}"})
    BOOST_TEST(!message_of<ReshardConfig>({"c", "--to", parts, "--output", "o"}).empty(), parts);
}

BOOST_AUTO_TEST_CASE(the_other_programs_refuse_contradictions) {
  BOOST_TEST(message_of<PrepareConfig>({}).find("INPUT is needed: files, quoted globs or folders of text, or -") !=
             std::string::npos);
  BOOST_TEST(message_of<PrepareConfig>({"a"}) == "--output is needed: the folder to create");
  BOOST_TEST(message_of<InspectConfig>({"a", "--diff"}).find("--diff compares two checkpoints") != std::string::npos);
  BOOST_TEST(message_of<InspectConfig>({"a", "--tree", "--verify"}).find("exclude each other") != std::string::npos);
  BOOST_TEST(message_of<InspectConfig>({"a", "--rebuild-view", "--who"}).find("exclude each other") !=
             std::string::npos);
  BOOST_TEST(message_of<InspectConfig>({"a", "--set", "c.k=1"}).find("--set never changes a checkpoint") !=
             std::string::npos);
  BOOST_TEST(message_of<InspectConfig>({"a", "--output", "b"}).find("no effect without --set") != std::string::npos);
  BOOST_TEST(message_of<InspectConfig>({"a", "t", "--histogram", "--output", "b.png"}) ==
             "--output of --histogram and --curve must end in .svg");
  BOOST_TEST(message_of<InspectConfig>({"a", "--curve", "--output", "b.svg"}) == "");
  for (const char* const setting : {"step", "step=1", ".step=1", "c.=1"})
    BOOST_TEST(
        message_of<InspectConfig>({"a", "-o", "b", "--set", setting}).find("is not of the form COMPONENT.KEY=JSON") !=
        std::string::npos);
  for (const char* const setting : {"c.k=", "c.k=word", "c.k={"})
    BOOST_TEST(
        message_of<InspectConfig>({"a", "-o", "b", "--set", setting}).find("is not JSON; put text in double quotes") !=
        std::string::npos);
  BOOST_TEST(parse_setting("c.k.l={\"a\": \"=\"}").json == "{\"a\": \"=\"}");
  BOOST_TEST(message_of<InspectConfig>({"a", "b", "c"}).find("give a checkpoint and at most one of its tensors") !=
             std::string::npos);
  BOOST_TEST(message_of<ReshardConfig>({"c", "--output", "o"}).find("AXIS=RANKS,… or --consolidate is needed") !=
             std::string::npos);
  BOOST_TEST(
      message_of<ReshardConfig>({"c", "d", "--output", "o", "--consolidate"}).find("add --average to average them") !=
      std::string::npos);
  BOOST_TEST(message_of<ReshardConfig>({"c", "--output", "o", "--average"}).find("has no effect on one checkpoint") !=
             std::string::npos);
  BOOST_TEST(message_of<FinalizeConfig>({"c", "--output", "o", "--recipe", "int8", "--dtype", "fp32"})
                 .find("leave --dtype fp32 out") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(options_of_a_task_that_prepare_data_is_not_given_are_refused) {
  const auto refused = [](const std::vector<std::string>& more, const char* reason) {
    std::vector<std::string> words{"a.txt", "-o", "out"};
    words.insert(words.end(), more.begin(), more.end());
    BOOST_TEST(message_of<PrepareConfig>(words).find(reason) != std::string::npos);
  };
  refused({"--samples.count", "9"}, "samples.* has no effect without --inspect");
  refused({"--bpe.min_count", "9"}, "bpe.* has no effect without --train-tokenizer");
  refused({"--train-tokenizer", "300", "--data.deduplicate", "exact"}, "leave data.deduplicate out");
  BOOST_TEST(message_of<PrepareConfig>({"a.txt", "-o", "out", "--train-tokenizer", "300", "--bpe.min_count", "9"}) ==
             "");
  BOOST_TEST(message_of<PrepareConfig>({"--inspect", "data", "--samples.count", "9"}) == "");
}

BOOST_AUTO_TEST_SUITE_END()
