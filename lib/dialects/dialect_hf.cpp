#include "dialects/dialect_hf.hpp"

#include "options/interpret.hpp"
#include "plugin/plugins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace lockstep::hf {

namespace {

bool negative(const Node& value) { return value.text.starts_with('-'); }

bool zero(const Node& value) { return value.text == "0" || value.text == "0.0"; }

const Node* either(const Node* first, const Node* second) { return first != nullptr ? first : second; }

/// A number as text, without an exponent or zeros behind it.
std::string decimal(double number) {
  std::string text = fmt::format("{:.9f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

/// A number of steps as a cadence. From 0 to 1 it is a part of the run, which is rounded up there.
std::string cadence_of(const std::string& steps, const Lowering& lowering) {
  const std::optional<double> part = number_in(steps);
  if (!part || *part <= 0 || *part >= 1) return steps;
  const std::optional<double> whole = number_in(lowering.text("max_steps"));
  if (whole && *whole > 0) return decimal(std::ceil(*part * *whole));
  const std::optional<double> epochs = number_in(lowering.text("num_train_epochs"));
  return epochs ? decimal(*part * *epochs) + " epochs" : steps;
}

/// What a strategy and its steps come to; without both nothing is set.
void lower_strategy(std::string_view strategy_key, const Node* steps, std::string_view steps_key,
                    std::string_view canonical, Lowering& lowering) {
  const Node* const strategy = lowering.given(strategy_key);
  const std::string how = lowering.text(strategy_key);
  if (how == "steps") {
    if (steps != nullptr || strategy != nullptr)
      lowering.set(canonical, cadence_of(steps == nullptr ? lowering.text(steps_key) : steps->text, lowering),
                   *either(steps, strategy));
  } else if (how == "no" || how == "false") {
    if (strategy != nullptr) lowering.set(canonical, "never", *strategy);
  } else if (how == "epoch") {
    lowering.set(canonical, "1 epochs", *strategy);
  } else {
    lowering.refuse(*strategy, "it must be no, steps or epoch");
  }
}

/// Steps, or from 0 to 1 a part of the run. There constant has no warm-up.
void lower_warmup(const std::string& schedule, Lowering& lowering) {
  const Node* const steps = lowering.given("warmup_steps");
  const Node* const ratio = lowering.given("warmup_ratio");
  const Node* const warmup = steps != nullptr && (!zero(*steps) || ratio == nullptr) ? steps : ratio;
  if (warmup == nullptr || schedule == "constant") return;
  const double number = number_in(warmup->text).value_or(0);
  const bool is_part = warmup == ratio || (number > 0 && number < 1);
  lowering.set(is_part ? "schedule.warmup_ratio" : "schedule.warmup_steps", *warmup);
  if (!zero(*warmup) && !lowering.is_set("schedule.warmup_from")) lowering.set("schedule.warmup_from", "zero", *warmup);
}

}  // namespace

void jointly(const Node&, Lowering&) {}

void no_token(const Node& value, Lowering& lowering) {
  if (value.text.starts_with('<') && value.text.ends_with('>')) return;  // written in place of a token
  Node hidden = value;
  hidden.text = "a token";
  lowering.refuse(hidden, "a configuration must not hold one: HF_TOKEN is read from the environment");
}

void export_at_end(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("checkpoint.export_at_end", "true", value);
}

void adafactor(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("optimizer.name", "adafactor", value);
}

void max_grad_norm(const Node& value, Lowering& lowering) {
  lowering.set("optimizer.clip_norm", zero(value) ? "null" : value.text, value);
}

void weight_decay(const Node& value, Lowering& lowering) {
  lowering.set("optimizer.weight_decay", value);
  lowering.set("optimizer.decay", "all", value);
}

void save_total_limit(const Node& value, Lowering& lowering) {
  constexpr const char* all = "1000000000";  // none is removed: more than any run saves
  lowering.set("checkpoint.keep_last", negative(value) ? all : zero(value) ? "1" : value.text, value);
}

void start_point(const Node& value, Lowering& lowering) {
  const bool path = value.text.find('/') != std::string::npos;
  lowering.set("checkpoint.resume", path ? value.text : "./" + value.text, value);
}

void resume_from_checkpoint(const Node& value, Lowering& lowering) {
  const std::optional<bool> truth = flag_word(value.text);
  if (truth) return lowering.set("checkpoint.resume", *truth ? "auto" : "never", value);
  start_point(value, lowering);
}

void metric(const Node& value, Lowering& lowering) {
  const std::string name = value.text.starts_with("eval_") ? value.text.substr(5) : value.text;
  for (const std::string_view measured : {"loss", "perplexity", "accuracy"}) {
    const std::string end = fmt::format("_{}", measured);
    if (!name.ends_with(end) || name.size() == end.size()) continue;
    lowering.set("checkpoint.best_dataset", name.substr(0, name.size() - end.size()), value);
    return lowering.set("checkpoint.best_metric", std::string(measured), value);
  }
  lowering.set("checkpoint.best_metric", name, value);
}

void greater_is_better(const Node& value, Lowering& lowering) {
  const std::optional<bool> truth = flag_word(value.text);
  lowering.set("checkpoint.best_direction", truth ? (*truth ? "higher" : "lower") : value.text, value);
}

void logging_dir(const Node& value, Lowering& lowering) {
  if (value.text != "auto") lowering.set("log.tensorboard_dir", value);
}

void recompute(const Node& value, Lowering& lowering) {
  const std::optional<bool> truth = flag_word(value.text);
  lowering.set("train.recompute", truth ? (*truth ? "block" : "none") : value.text, value);
}

void lower_recomputation(Lowering& lowering) {
  static constexpr std::array known{
      DialectKey{.name = "every_n_layers", .value = DialectKey::Value::number, .lower = jointly},
      DialectKey{.name = "use_reentrant", .state = DialectKey::State::moot},
      DialectKey{.name = "preserve_rng_state", .state = DialectKey::State::moot},
      DialectKey{.name = "determinism_check", .state = DialectKey::State::moot},
      DialectKey{.name = "early_stop", .state = DialectKey::State::moot},
      DialectKey{.name = "debug", .state = DialectKey::State::moot},
  };
  for (const std::string key : {"activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"})
    if (const Node* const map = lowering.given(key)) lowering.part(known, key, *map);
  const Node* kwargs = lowering.given("activation_checkpointing_kwargs");
  if (kwargs == nullptr) kwargs = lowering.given("gradient_checkpointing_kwargs");
  const Node* const every = kwargs == nullptr ? nullptr : kwargs->find("every_n_layers");
  for (const char* key : {"gradient_checkpointing", "activation_checkpointing"}) {
    const Node* const value = lowering.given(key);
    if (value == nullptr) continue;
    if (every != nullptr && every->text != "1" && lowering.on(key, false))
      lowering.set("train.recompute", "every:" + every->text, *every);
    else
      recompute(*value, lowering);
  }
}

void device(const Node& value, Lowering& lowering) {
  lowering.set("train.device", value.text.substr(0, value.text.find(':')), value);
}

void use_cpu(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("train.device", "cpu", value);
}

void node_storage(const Node& value, Lowering& lowering) {
  lowering.set("checkpoint.storage", flag_word(value.text).value_or(false) ? "per_node" : "shared", value);
}

void dtype(const Node& value, std::string_view canonical, Lowering& lowering) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> names{{{"float32", "fp32"},
                                                                                        {"torch.float32", "fp32"},
                                                                                        {"fp32", "fp32"},
                                                                                        {"no", "fp32"},
                                                                                        {"float64", "fp64"},
                                                                                        {"torch.float64", "fp64"},
                                                                                        {"bfloat16", "bf16"},
                                                                                        {"torch.bfloat16", "bf16"},
                                                                                        {"bf16", "bf16"},
                                                                                        {"float16", "fp16"},
                                                                                        {"torch.float16", "fp16"},
                                                                                        {"fp16", "fp16"}}};
  for (const auto& [theirs, ours] : names)
    if (value.text == theirs) return lowering.set(canonical, std::string(ours), value);
  lowering.refuse(value, "it must be one of float32, float64, bfloat16 and float16");
}

void bucket_cap(const Node& value, Lowering& lowering) {
  lowering.set("parallel.bucket_size", value.text + "MiB", value);
}

void offload(std::initializer_list<const char*> what, const Node& because_of, Lowering& lowering) {
  Node list;
  list.kind = Node::Kind::list;
  list.origin = because_of.origin;
  for (const char* word : what) {
    Node item;
    item.kind = Node::Kind::scalar;
    item.text = word;
    item.origin = because_of.origin;
    list.items.push_back(std::move(item));
  }
  lowering.set("train.offload", std::move(list));
}

void one_unit(const Node& because_of, Lowering& lowering) {
  lowering.set("parallel.bucket_size", "1000000GiB", because_of);  // above the size of any model
}

void pipeline_schedule(const std::string& name, const Node& value, Lowering& lowering) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> names{
      {{"GPipe", "gpipe"},
       {"1F1B", "1f1b"},
       {"Interleaved1F1B", "interleaved_1f1b"},
       {"InterleavedZeroBubble", "interleaved_zero_bubble"},
       {"ZBVZeroBubble", "zbv"}}};
  for (const auto& [theirs, ours] : names)
    if (name == theirs) return lowering.set("parallel.schedule", std::string(ours), value);
  for (const auto& brought : Plugins::opened().pipeline_schedules())
    if (name == brought.table->name) return lowering.set("parallel.schedule", name, value);
  lowering.refuse(value, "it must be one of GPipe, 1F1B, Interleaved1F1B, InterleavedZeroBubble and ZBVZeroBubble");
}

void one_micro_batch(std::string_view batch, std::string_view accumulation, Lowering& lowering) {
  const Node* const said = lowering.given(batch);
  if (said != nullptr && lowering.given(accumulation) == nullptr && !lowering.is_set("train.global_batch"))
    lowering.set("train.accumulation", "1", *said);
}

void lower_length(Lowering& lowering) {
  const Node* const steps = lowering.given("max_steps");
  const Node* const epochs = lowering.given("num_train_epochs");
  const bool by_steps = steps != nullptr && !negative(*steps);
  if (by_steps && !lowering.is_set_above("train.epochs", *steps)) lowering.set("train.max_steps", *steps);
  if (epochs == nullptr || by_steps || lowering.is_set_above("train.max_steps", *epochs)) return;
  if (negative(*epochs)) return lowering.refuse(*epochs, "a run without an end needs max_steps");
  lowering.set("train.epochs", *epochs);
}

void lower_optimizer(Lowering& lowering) {
  const Node* const first = lowering.given("adam_beta1");
  const Node* const second = lowering.given("adam_beta2");
  if (first == nullptr && second == nullptr) return;
  Node betas;
  betas.kind = Node::Kind::list;
  betas.origin = either(first, second)->origin;
  for (const auto& [said, otherwise] : {std::pair(first, "0.9"), std::pair(second, "0.999")}) {
    Node beta;
    beta.kind = Node::Kind::scalar;
    beta.text = said == nullptr ? otherwise : said->text;
    beta.origin = said == nullptr ? betas.origin : said->origin;
    betas.items.push_back(beta);
  }
  lowering.set("optimizer.betas", betas);
}

void lower_schedule(Lowering& lowering) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> names{
      {{"constant_with_warmup", "constant"},
       {"cosine_with_restarts", "cosine"},
       {"cosine_with_min_lr", "cosine"},
       {"warmup_stable_decay", "wsd"}}};
  const Node* const type = lowering.given("lr_scheduler_type");
  const Node* const more = lowering.given("lr_scheduler_kwargs");
  const std::string name = lowering.text("lr_scheduler_type");
  if (type != nullptr) {
    const auto other = std::ranges::find(names, name, &std::pair<std::string_view, std::string_view>::first);
    lowering.set("schedule.name", other == names.end() ? name : std::string(other->second), *type);
  }
  lower_warmup(name, lowering);
  if (name == "warmup_stable_decay" && (more == nullptr || more->find("decay_type") == nullptr) &&
      !lowering.is_set("schedule.cooldown_shape"))
    lowering.set("schedule.cooldown_shape", "cosine", *type);
  if (name == "polynomial" && (more == nullptr || more->find("power") == nullptr))
    lowering.set("schedule.power", "1", *type);
  if (name == "polynomial" && (more == nullptr || more->find("lr_end") == nullptr))
    lowering.set("schedule.min_lr", "1e-7", *type);
  if (more == nullptr) return;
  for (const auto& [key, value] : more->entries) {
    if (key == "min_lr_rate") {
      const Node* const in_force = lowering.value_set("optimizer.lr");
      const std::optional<double> rate = number_in(value.text);
      const std::optional<double> lr = number_in(in_force ? in_force->text : lowering.text("learning_rate"));
      if (!rate || !lr) return lowering.refuse(value, "it and learning_rate must be numbers");
      lowering.set("schedule.min_lr", fmt::format("{:.9g}", *rate * *lr), value);
    } else if (key == "min_lr" || (key == "lr_end" && name == "polynomial")) {
      lowering.set("schedule.min_lr", value);
    } else if (key == "power" || key == "timescale") {
      lowering.set("schedule." + key, value);
    } else if (key == "num_decay_steps") {
      lowering.set("schedule.cooldown_steps", value);
    } else if (key == "decay_type" && name == "warmup_stable_decay") {
      lowering.set("schedule.cooldown_shape", value.text == "1-sqrt" ? "sqrt" : value.text, value);
    } else if (key == "num_cycles" && name == "cosine_with_restarts") {
      lowering.set("schedule.cycles", value);
    } else {
      lowering.refuse(
          value,
          "only min_lr, min_lr_rate, lr_end, power, timescale, num_decay_steps, decay_type and the num_cycles of "
          "cosine_with_restarts are supported, each for its schedule");
    }
  }
}

std::string_view evaluation_key(const Lowering& lowering) {
  const bool former = lowering.given_beyond_preset("evaluation_strategy") != nullptr &&
                      lowering.given_beyond_preset("eval_strategy") == nullptr;
  return former ? "evaluation_strategy" : "eval_strategy";
}

void lower_cadence(Lowering& lowering) {
  const Node* const logged = lowering.given("logging_steps");
  const Node* const evaluated = lowering.given("eval_steps");
  lower_strategy("logging_strategy", logged, "logging_steps", "log.every", lowering);
  const std::string_view strategy = evaluation_key(lowering);
  if (lowering.given(strategy) != nullptr)  // without steps of its own transformers takes those of the log
    lower_strategy(strategy, either(evaluated, lowering.text("eval_steps").empty() ? logged : nullptr), "eval_steps",
                   "eval.every", lowering);
  lower_strategy("save_strategy", lowering.given("save_steps"), "save_steps", "checkpoint.every", lowering);
  if (const Node* const saved = lowering.given("save_strategy");
      saved != nullptr && (saved->text == "no" || saved->text == "false"))
    lowering.set("checkpoint.at_end", "false", *saved);
}

void lower_delay(const std::string& unit, Lowering& lowering) {
  const Node* const delay = lowering.given("eval_delay");
  const std::string how = lowering.text(evaluation_key(lowering));
  if (delay == nullptr || zero(*delay) || how == "no" || how == "false") return;
  lowering.set("eval.delay", delay->text + " " + unit, *delay);
}

void lower_prefetch(Lowering& lowering) {
  const Node* const workers = lowering.given("dataloader_num_workers");
  const Node* const ahead = lowering.given("dataloader_prefetch_factor");
  if (ahead != nullptr && ahead->text != "auto" && (workers == nullptr || !zero(*workers)))
    lowering.set("data.prefetch", *ahead);
}

}  // namespace lockstep::hf
