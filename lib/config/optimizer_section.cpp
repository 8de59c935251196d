// The sections precision, optimizer and schedule of train.
#include "config/train_choices.hpp"
#include "config/train_sections.hpp"
#include "options/option.hpp"
#include "options/ranges.hpp"

namespace lockstep {

namespace {

// Why checkpoint.allow_change cannot permit a change.
constexpr std::string_view state_of_others =
    "the checkpoint holds the optimizer state of the tensors that were trained";

/// What `rule`, an UpdateRule or what a group changes of one, has of each update rule.
template <class Rule>
void describe_rule(Declaration& visit, Rule& rule) {
  visit.field("betas", rule.betas,
              {.brief = "betas of adamw (first and second moment) and of lion",
               .min = 0,
               .max = 1,
               .on_resume = OnResume::fixed()});
  visit.field("eps", rule.eps,
              {.brief = "epsilon of adamw, added to the root of the second moment",
               .min = 0,
               .above_min = true,
               .on_resume = OnResume::fixed()});
  visit.field("momentum", rule.momentum,
              {.brief = "momentum of sgd", .min = 0, .max = 1, .on_resume = OnResume::fixed()});
  visit.field("nesterov", rule.nesterov, {.brief = "Nesterov momentum for sgd", .on_resume = OnResume::fixed()});
  visit.field("state_dtype", rule.state_dtype,
              {.brief = "type of optimizer state: weights (as the weights) or bf16",
               .details = "It applies to the moments of adamw and the averages of lion and muon",
               .on_resume = OnResume::fixed()});
  visit.field("muon_momentum", rule.muon_momentum,
              {.brief = "momentum of muon; 0: none", .min = 0, .max = 1, .on_resume = OnResume::fixed()});
  visit.field("muon_nesterov", rule.muon_nesterov,
              {.brief = "Nesterov momentum for muon", .on_resume = OnResume::fixed()});
  visit.field("muon_steps", rule.muon_steps,
              {.brief = "Newton-Schulz iterations of muon", .min = 1, .max = 99, .on_resume = OnResume::fixed()});
  visit.field("muon_adjust", rule.muon_adjust,
              {.brief = "learning-rate factor of muon: original or match_rms_adamw", .on_resume = OnResume::fixed()});
  visit.field("adafactor_decay", rule.adafactor_decay,
              {.brief = "exponent N of adafactor's decay rate 1 - t^N at step t (from 1)",
               .max = 0,
               .on_resume = OnResume::fixed()});
  visit.field("adafactor_eps", rule.adafactor_eps,
              {.brief = "epsilons of adafactor: for squared gradients, and for weight scale",
               .details = "The first is added to squared gradients. The second is the least root mean square of "
                          "weights that adafactor_scale uses",
               .min = 0,
               .above_min = true,
               .on_resume = OnResume::fixed()});
  visit.field(
      "adafactor_clip", rule.adafactor_clip,
      {.brief = "clipping threshold of adafactor's update",
       .details = "A tensor's update is divided by its root mean square over this value, if that is more than 1",
       .min = 0,
       .above_min = true,
       .on_resume = OnResume::fixed()});
  visit.field(
      "adafactor_scale", rule.adafactor_scale,
      {.brief = "scale adafactor's learning rate by the root mean square of weights", .on_resume = OnResume::fixed()});
  visit.field("adafactor_relative_step", rule.adafactor_relative_step,
              {.brief = "limit adafactor's learning rate to 1/sqrt(t) at step t", .on_resume = OnResume::fixed()});
  visit.field("adafactor_momentum", rule.adafactor_momentum,
              {.brief = "momentum of adafactor; 0: none, and no memory for it",
               .min = 0,
               .max = 1,
               .on_resume = OnResume::fixed()});
}

}  // namespace

void describe(Declaration& visit, PrecisionOptions& precision) {
  visit.field("dtype", precision.dtype,
              {.brief = "compute type: fp32, fp64, bf16 or fp16 (mixed precision)",
               .details = "bf16 and fp16 keep fp32 master weights. fp16 uses a loss scale; its gradients overflow and "
                          "vanish easily, and it is slow on CPU",
               .on_resume = OnResume::fixed()});
  visit.field(
      "reduce_dtype", precision.reduce_dtype,
      {.brief = "type of gradient reduction over ranks",
       .details =
           "Each gradient is cast, summed in fp32 or wider, rounded once, and kept in the type of the master weights",
       .unset = "the master weights' type, fp32 or fp64",
       .on_resume = OnResume::fixed()});
  visit.field("output_dtype", precision.output_dtype,
              {.brief = "type of activations between blocks and pipeline stages",
               .details = "The activation and its gradient are cast when they leave a block, and cast back where the "
                          "next block begins",
               .unset = "the master weights' type, fp32 or fp64",
               .on_resume = OnResume::fixed()});
  visit.field("weights", precision.weights,
              {.brief = "type of master weights: master (fp32 or fp64) or bf16",
               .details = "bf16 keeps no other copy and needs precision.dtype bf16. Updates that are small beside a "
                          "weight are then lost unless optimizer.kahan keeps them",
               .on_resume = OnResume::fixed()});
  visit.field("matmul", precision.matmul,
              {.brief = "precision of products of fp32 matrices on a GPU",
               .details = "On the CPU it has no effect: products have the precision of fp32"});
  visit.field("product_search", precision.product_search,
              {.brief = "choose the algorithms of matrix products on a GPU by time",
               .details = "After the first step, one rank of each kind of GPU times the first eight proposals of "
                          "cublasLt for each product, and all ranks with such a GPU take the fastest ones. "
                          "products.json in the run folder keeps them for resumed runs. A GPU, driver or cublasLt "
                          "that is not in it chooses anew. On the CPU it has no effect"});
  visit.field("matrix_unit", precision.matrix_unit,
              {.brief = "use the matrix unit (Intel AMX) for matrix products",
               .details = "fp32 products are computed as six products of three bf16 parts, with the accuracy of fp32. "
                          "false uses the library's routines"});
  LossScaleOptions& scale = precision.loss_scale;
  visit.field("init_scale", scale.init_scale,
              {.brief = "initial fp16 loss scale",
               .details = "The loss gradient is multiplied by it; gradients are divided by it before their norm is "
                          "taken and weights are updated",
               .min = 0,
               .above_min = true,
               .on_resume = OnResume::fixed()});
  visit.field("growth_factor", scale.growth_factor,
              {.brief = "growth factor of the loss scale",
               .details = "It applies after precision.growth_interval steps without overflow",
               .min = 1,
               .above_min = true,
               .on_resume = OnResume::fixed()});
  visit.field("backoff_factor", scale.backoff_factor,
              {.brief = "backoff factor of the loss scale on overflow",
               .details = "The step is skipped then, and counts neither for the schedule nor for moments",
               .min = 0,
               .max = 1,
               .above_min = true,
               .on_resume = OnResume::fixed()});
  visit.field("growth_interval", scale.growth_interval,
              {.brief = "consecutive steps without overflow before the loss scale grows",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .on_resume = OnResume::fixed()});
  visit.field("min_scale", scale.min_scale,
              {.brief = "minimum loss scale; below it the run ends with code 6", .min = 0});
}

void describe(Declaration& visit, OptimizerOptions& optimizer) {
  visit.field("name", optimizer.name,
              {.brief = "optimizer: adamw, sgd, lion, muon, adafactor, or a plug-in's",
               .details = "Plug-ins add names",
               .on_resume = OnResume::fixed(state_of_others)});
  visit.field("lr", optimizer.lr,
              {.brief = "peak learning rate, reached at the end of warm-up",
               .unit = "1/step",
               .min = 0,
               .max = 1,
               .on_resume = OnResume::fixed()});
  describe_rule(visit, optimizer);
  visit.field(
      "kahan", optimizer.kahan,
      {.brief = "Kahan summation for bf16 weights (one more bf16 value a weight)",
       .details = "The rounding error of each weight is kept and added with the next step (compensated summation)",
       .on_resume = OnResume::fixed()});
  visit.field("muon_lr", optimizer.muon_lr,
              {.brief = "peak learning rate of muon's matrices, scaled as optimizer.lr",
               .unset = "optimizer.lr",
               .unit = "1/step",
               .min = 0,
               .max = 1,
               .on_resume = OnResume::fixed()});
  visit.field("weight_decay", optimizer.weight_decay,
              {.brief = "weight decay",
               .details = "It is decoupled and multiplied by the learning rate for adamw, lion, muon and adafactor, "
                          "and added to the gradient for sgd",
               .min = 0,
               .on_resume = OnResume::fixed()});
  visit.field("decay", optimizer.decay,
              {.brief = "tensors with weight decay: matrices or all", .on_resume = OnResume::fixed()});
  visit.field(
      "decay_exclude", optimizer.decay_exclude,
      {.brief = "patterns of tensors without weight decay", .value_name = "REGEX", .on_resume = OnResume::fixed()});
  visit.field("frozen", optimizer.frozen,
              {.brief = "patterns of frozen tensors",
               .details = "They have no gradient, no optimizer state and no part in the gradient norm",
               .value_name = "REGEX",
               .on_resume = OnResume::fixed(state_of_others)});
  visit.field("unmatched", optimizer.unmatched,
              {.brief = "pattern that matches no tensor: refuse or warn",
               .details = "It applies to the patterns of groups, decay_exclude and frozen"});
  visit.field("clip_norm", optimizer.clip_norm,
              {.brief = "gradient clipping: maximum global norm",
               .unset = "no clipping",
               .min = 0,
               .above_min = true,
               .on_resume = OnResume::fixed()});
  visit.field("in_backward", optimizer.in_backward,
              {.brief = "update weights during backward (optimizer in backward)",
               .details = "Gradients of few blocks exist at once. It needs one micro-batch a step and no clip_norm"});
  visit.field("groups", optimizer.groups,
              {.brief = "parameter groups with their own learning rate, decay or optimizer",
               .details = "The first group that matches a tensor counts",
               .on_resume = OnResume::fixed()});
}

void describe(Declaration& visit, OptimizerGroup& group) {
  visit.field("match", group.match,
              {.brief = "patterns of tensor names in this group", .value_name = "REGEX", .required = true});
  visit.field(
      "optimizer", group.name,
      {.brief = "optimizer of these tensors", .details = "muon is for matrices only", .unset = "as without the group"});
  visit.field("lr", group.lr,
              {.brief = "peak learning rate, scaled as optimizer.lr",
               .unset = "as without the group",
               .unit = "1/step",
               .min = 0,
               .max = 1});
  visit.field("lr_scale", group.lr_scale, {.brief = "factor of the learning rate", .min = 0});
  visit.field("weight_decay", group.weight_decay,
              {.brief = "weight decay, instead of optimizer.weight_decay and its exclusions", .min = 0});
  describe_rule(visit, group);
}

void describe(Declaration& visit, ScheduleOptions& schedule) {
  const auto steps = [&](const std::string& name, auto& value, OptionFacts facts) {
    facts.unit = "steps";
    facts.min = facts.min.value_or(1);
    facts.max = most_count;
    if (!facts.on_resume.is_fixed()) facts.on_resume = OnResume::fixed();
    visit.field(name, value, facts);
  };
  const auto ratio = [&](const std::string& name, std::optional<double>& value, const std::string& steps_option,
                         std::string_view compared_as, bool above_min) {
    visit.field(name, value,
                {.brief = steps_option + " as a fraction of the run's steps, rounded up",
                 .unset = "given by " + steps_option,
                 .min = 0,
                 .max = 1,
                 .above_min = above_min,
                 .on_resume = OnResume::resolved(compared_as)});
  };
  const auto rate = [&](const std::string& name, auto& value, const std::string& brief) {
    visit.field(name, value, {.brief = brief, .unit = "1/step", .min = 0, .max = 1, .on_resume = OnResume::fixed()});
  };
  visit.field("name", schedule.name,
              {.brief = "learning-rate schedule after warm-up",
               .details = "Plug-ins add names",
               .on_resume = OnResume::fixed()});
  rate("start_lr", schedule.start_lr, "learning rate at the start of warm-up");
  steps("warmup_steps", schedule.warmup_steps,
        {.brief = "warm-up: steps over which the learning rate rises linearly",
         .details = "The last of them has optimizer.lr, or the next step does (schedule.warmup_from)",
         .min = 0,
         .on_resume = OnResume::resolved()});
  ratio("warmup_ratio", schedule.warmup_ratio, "warmup_steps", "schedule.warmup_steps", false);
  visit.field("warmup_from", schedule.warmup_from,
              {.brief = "first step of warm-up: one or zero", .on_resume = OnResume::fixed()});
  steps("decay_steps", schedule.decay_steps,
        {.brief = "step at which the decay ends",
         .details = "The learning rate is schedule.min_lr there, and schedule.constant_lr with infinite",
         .unset = "the last step of the run",
         .on_resume = OnResume::resolved()});
  ratio("decay_ratio", schedule.decay_ratio, "decay_steps", "schedule.decay_steps", true);
  rate("min_lr", schedule.min_lr, "learning rate at the end of the decay (absolute, not a fraction)");
  steps(
      "cooldown_steps", schedule.cooldown_steps,
      {.brief = "cooldown: steps in which wsd or infinite falls to schedule.min_lr",
       .details =
           "They are the last steps before schedule.decay_steps with wsd, and the last steps of the run with infinite",
       .unset = "infinite stays at constant_lr",
       .on_resume = OnResume::resolved()});
  ratio("cooldown_ratio", schedule.cooldown_ratio, "cooldown_steps", "schedule.cooldown_steps", true);
  visit.field("cooldown_shape", schedule.cooldown_shape,
              {.brief = "shape of the wsd cooldown: linear, cosine or sqrt", .on_resume = OnResume::fixed()});
  rate("constant_lr", schedule.constant_lr, "learning rate of the infinite schedule between decay and cooldown");
  visit.field("cycles", schedule.cycles,
              {.brief = "cycles of cosine with restarts", .min = 1, .max = most_count, .on_resume = OnResume::fixed()});
  visit.field("power", schedule.power,
              {.brief = "power of the polynomial schedule",
               .min = 0,
               .max = 100,
               .above_min = true,
               .on_resume = OnResume::fixed()});
  steps("timescale", schedule.timescale,
        {.brief = "steps after which inverse_sqrt begins to fall",
         .details = "The learning rate is half its peak after four times as many steps",
         .unset = "the steps of warm-up, or 10000"});
}

}  // namespace lockstep
