#include "config/dialect_hf.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace lockstep::hf {

namespace {

bool negative(const Node& value) { return value.text.starts_with('-'); }

bool zero(const Node& value) { return value.text == "0" || value.text == "0.0"; }


const Node* either(const Node* first, const Node* second) { return first != nullptr ? first : second; }

void lower_evaluation(Lowering& lowering) {
  const Node* const strategy = lowering.said("eval_strategy");
  if (strategy == nullptr) return;
  if (strategy->text == "no" || strategy->text == "false") {
    lowering.set("eval.every", "null", *strategy);
  } else if (strategy->text == "steps") {
    const Node* const steps = either(lowering.said("eval_steps"), lowering.said("logging_steps"));
    lowering.set("eval.every", steps == nullptr ? lowering.text("eval_steps") : steps->text, *either(steps, strategy));
  } else {
    lowering.refuse(*strategy, "evaluations come by steps (eval_steps) and at the end: it is steps or no");
  }
}

void lower_logging(Lowering& lowering) {
  const Node* const strategy = lowering.said("logging_strategy");
  const Node* const steps = lowering.said("logging_steps");
  const std::string how = strategy == nullptr ? "steps" : strategy->text;
  if (how == "steps") {
    if (steps != nullptr) lowering.set("log.every", *steps);
  } else {
    lowering.refuse(*strategy, "records are written by steps: it is steps, with logging_steps");
  }
}

void lower_saving(Lowering& lowering) {
  const Node* const strategy = lowering.said("save_strategy");
  const Node* const steps = lowering.said("save_steps");
  const std::string how = strategy == nullptr ? "steps" : strategy->text;
  if (how == "no" || how == "false") {
    lowering.set("checkpoint.every", "null", *strategy);
    lowering.set("checkpoint.at_end", "false", *strategy);
  } else if (how == "steps") {
    if (steps != nullptr || strategy != nullptr)
      lowering.set("checkpoint.every", lowering.text("save_steps"), *either(steps, strategy));
  } else if (how == "epoch") {
    lowering.set("checkpoint.every_epochs", "1", *strategy);
  } else {
    lowering.refuse(*strategy, "it is no, steps or epoch");
  }
}

}  // namespace

void jointly(const Node&, Lowering&) {}

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
  lowering.set("checkpoint.best_metric", name, value);
}

void greater_is_better(const Node& value, Lowering& lowering) {
  const std::optional<bool> truth = flag_word(value.text);
  lowering.set("checkpoint.best_direction", truth ? (*truth ? "higher" : "lower") : value.text, value);
}

void recompute(const Node& value, Lowering& lowering) {
  const std::optional<bool> truth = flag_word(value.text);
  lowering.set("train.recompute", truth ? (*truth ? "block" : "none") : value.text, value);
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

void seed(const Node& value, Lowering& lowering) {
  if (negative(value)) return lowering.refuse(value, "a run starts from a seed that is known: say a number from 0 on");
  lowering.set("train.seed", value);
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
  lowering.refuse(value, "it is one of float32, float64, bfloat16 and float16");
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
  lowering.refuse(value, "schedules are GPipe, 1F1B, Interleaved1F1B, InterleavedZeroBubble and ZBVZeroBubble");
}

void lower_length(Lowering& lowering) {
  const Node* const steps = lowering.said("max_steps");
  const Node* const epochs = lowering.said("num_train_epochs");
  const bool by_steps = steps != nullptr && !negative(*steps);
  if (by_steps) lowering.set("train.max_steps", *steps);
  if (epochs == nullptr || by_steps) return;
  if (negative(*epochs)) return lowering.refuse(*epochs, "a run without an end needs max_steps");
  lowering.set("train.epochs", *epochs);
}

void lower_optimizer(Lowering& lowering) {
  const Node* const first = lowering.said("adam_beta1");
  const Node* const second = lowering.said("adam_beta2");
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
  const Node* const type = lowering.said("lr_scheduler_type");
  const Node* const more = lowering.said("lr_scheduler_kwargs");
  const std::string name = type == nullptr ? "linear" : type->text;
  if (type != nullptr) {
    if (name == "constant_with_warmup" || name == "constant")
      lowering.set("schedule.name", "constant", *type);
    else if (name == "cosine_with_min_lr")
      lowering.set("schedule.name", "cosine", *type);
    else
      lowering.set("schedule.name", *type);
  }
  if (more == nullptr) return;
  for (const auto& [key, value] : more->entries) {
    if (key == "min_lr") {
      lowering.set("schedule.min_lr", value);
    } else {
      lowering.refuse(value, fmt::format("of a schedule min_lr can be said here, no {}", key));
    }
  }
}

void lower_cadence(Lowering& lowering) {
  lower_evaluation(lowering);
  lower_logging(lowering);
  lower_saving(lowering);
}

void lower_prefetch(Lowering& lowering) {
  const Node* const workers = lowering.said("dataloader_num_workers");
  const Node* const ahead = lowering.said("dataloader_prefetch_factor");
  if (ahead != nullptr && ahead->text != "auto" && (workers == nullptr || !zero(*workers)))
    lowering.set("data.prefetch", *ahead);
}

}  // namespace lockstep::hf
