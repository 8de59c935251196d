// Ways to divide a step that nobody chose: meshes, models, sizes and options drawn from a seed, each equal to one rank.
#include "composition_job.hpp"
#include "harness/share.hpp"

#include <boost/test/unit_test.hpp>

#include <ATen/ops/sub.h>

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string_view>

BOOST_AUTO_TEST_SUITE(drawn_compositions)

using namespace lockstep;
using namespace lockstep::test;

namespace {

std::uint64_t seed() {
  const char* const given = std::getenv("LOCKSTEP_TEST_SEED");
  return given ? std::stoull(given) : 1;
}

/// Values of one draw, in the order in which they are asked for.
class Dice {
 public:
  explicit Dice(std::uint64_t draw) : random_(seed(), fmt::format("composition {}", draw)) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_.below(next_++, static_cast<std::uint64_t>(bound)));
  }
  std::int64_t from(std::int64_t least, std::int64_t most) { return least + below(most - least + 1); }
  bool one_in(std::int64_t chances) { return below(chances) == 0; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

 private:
  RandomStream random_;
  std::uint64_t next_ = 0;
};

std::vector<std::int64_t> divisors(std::int64_t of) {
  std::vector<std::int64_t> all;
  for (std::int64_t by = 1; by <= of; ++by)
    if (of % by == 0) all.push_back(by);
  return all;
}

/// Each prime factor of the ranks goes to an axis.
void draw_mesh(Dice& dice, int ranks, Composition& how) {
  const std::vector<int*> axes{&how.stages, &how.replicas, &how.shards, &how.ring, &how.ulysses, &how.tensor};
  for (int factor = 2; ranks > 1; ++factor)
    for (; ranks % factor == 0; ranks /= factor) *dice.one_of(axes) *= factor;
}

void draw_options(Dice& dice, Composition& how) {
  how.zero = static_cast<int>(dice.from(1, 3));
  const std::vector<std::int64_t> inner = divisors(how.shards);
  if (how.zero == 3 && inner.size() > 2)
    how.inner = static_cast<int>(inner[static_cast<std::size_t>(dice.below(std::ssize(inner) - 1))]);
  how.after_backward = dice.one_in(2);
  how.accumulate = dice.one_of(std::vector{Accumulate::whole, Accumulate::sums, Accumulate::shards});
  if (how.shards == 1 && how.accumulate == Accumulate::shards) how.accumulate = Accumulate::whole;
  how.prefetch = static_cast<int>(dice.from(0, 2));
  how.micro_batch = dice.from(1, 4);
  how.recompute = dice.one_in(3) ? RecomputePolicy::block : RecomputePolicy::none;
  if (how.recompute.every > 0)
    how.recompute.keeps = KeepSet::at(static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(KeepSet::count))));
  how.bucket_bytes = dice.one_in(3) ? dice.from(1, 1 << 16) : 0;
  how.schedule =
      dice.one_of(std::vector<PipelineSchedule>(std::begin(pipeline_schedules), std::end(pipeline_schedules)));
  const bool one_stage =
      how.schedule == PipelineSchedule::gpipe || how.schedule == PipelineSchedule::one_f_one_b || how.stages == 1;
  how.chunks = one_stage ? 1 : how.schedule == PipelineSchedule::zbv ? 2 : static_cast<int>(dice.from(2, 3));
  how.optimizer = dice.one_in(4) ? OptimizerName::sgd : OptimizerName::adamw;
  how.offload.optimizer = dice.one_in(5) && how.optimizer == OptimizerName::adamw;
  how.offload.shards = dice.one_in(5) && how.shards > 1;
  how.offload.activations = dice.one_in(5) && how.recompute == RecomputePolicy::none;
  how.folds = how.ring * how.ulysses > 1 && how.shards > 1 && how.inner == 1 && dice.one_in(2);
  how.sequence = how.tensor > 1 && dice.one_in(2);
}

/// How the ranks of a stage share out experts, or that they do not. Along tp they have rows of their own to send there.
void draw_experts(Dice& dice, Composition& how) {
  how.sequence = how.tensor > 1;
  how.experts = static_cast<int>(dice.one_of(divisors(how.ranks() / how.stages)));
  how.apart = dice.one_in(2);
  how.capacity = dice.one_of(std::vector{1.0, 1.5, 2.0, 2.0 * how.experts});  // the last: what there is goes at once
}

/// A model whose blocks so many ranks can share, in as many blocks as there are stages or more.
Architecture draw_model(Dice& dice, const Composition& how, bool experts, std::string& words) {
  TinyModel of{.vocabulary = vocabulary};
  const int sharers = how.tensor * how.ulysses;
  of.heads = sharers * dice.from(1, sharers > 4 ? 1 : 3);
  const auto share = [](std::int64_t heads, std::int64_t ranks) { return heads % ranks == 0 || ranks % heads == 0; };
  std::vector<std::int64_t> keys;  // that divide the heads, and divide the ranks or are a multiple of them
  for (const std::int64_t key_heads : divisors(of.heads))
    if (share(key_heads, how.tensor) && share(std::max<std::int64_t>(1, key_heads / how.tensor), how.ulysses))
      keys.push_back(key_heads);
  of.key_value_heads = dice.one_of(keys);
  of.width = of.heads * 2 * dice.from(1, 3);
  const bool drops = dice.one_in(4);
  while (drops && of.width < 8) of.width *= 2;  // a row of which dropout leaves nothing is a tie of all experts
  of.intermediate = how.tensor * dice.from(2, 6) - dice.below(2);
  of.layers = std::max<std::int64_t>(1, how.stages * how.chunks - dice.from(0, 2)) + dice.below(3);
  of.tied = dice.one_in(2);
  of.positions = dice.from(length, length + 3);
  using Make = Architecture (*)(const TinyModel&);
  struct Drawn {
    std::string_view name;
    Make make;
  };
  std::vector<Drawn> families{{"gpt2", tiny_gpt2}, {"llama", tiny_llama}, {"qwen3", tiny_qwen3}};
  if (experts) {
    families = {{"mixtral", tiny_mixtral}};
    of.experts = how.experts * dice.from(how.experts == 1 ? 2 : 1, how.experts < 3 ? 5 : 3);
    if (4 % how.experts == 0)
      families.insert(families.end(), {{"qwen3_moe", tiny_qwen3_moe}, {"qwen2_moe", tiny_qwen2_moe}});
    if (dice.one_in(2)) of.aux = 0.5;
  }
  const Drawn family = dice.one_of(families);
  Architecture architecture = family.make(of);
  if (drops) architecture.config.dropout = {.embedding = 0.1, .attention = 0.2, .residual = 0.3};
  words = fmt::format("{} of {} layers, {} of {} heads, width {}, MLP {}{}{}{}{}", family.name, of.layers,
                      of.key_value_heads, of.heads, of.width, of.intermediate,
                      family.name == "mixtral" ? fmt::format(", {} experts", of.experts) : "", of.tied ? ", tied" : "",
                      of.aux > 0 ? ", balanced" : "", drops ? ", dropout" : "");
  return architecture;
}

bool differ(double got, double want, double bound) { return !(std::abs(got - want) <= bound * std::abs(want)); }

/// What one rank has after each step.
struct OneStep {
  StepOutcome outcome;
  std::map<std::string, at::Tensor> weights;
};

std::vector<OneStep> steps_of_one_rank(const Composition& how, std::optional<double> clip) {
  Composition alone{.micro_batch = global_batch, .family = how.family};
  alone.optimizer = how.optimizer;
  Job one(solo_communicator(), alone, Precision::fp64, clip);
  std::vector<OneStep> steps(2);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    steps[step].outcome = one.step(static_cast<std::int64_t>(step));
    for (const Parameter* parameter : one.model().parameters())
      steps[step].weights[parameter->name()] = parameter->master().clone().cpu();
  }
  return steps;
}

/// What is unequal to one rank after two steps, in words; of one of the ranks.
std::string difference_of(const Composition& how, std::optional<double> clip) {
  const std::vector<OneStep> one = with_clear_choices(how.family, [&] { return steps_of_one_rank(how, clip); });
  Job many(all_ranks(), how, Precision::fp64, clip);
  for (std::size_t step = 0; step < one.size(); ++step) {
    const double bound = step == 0 ? 1e-12 : 1e-9;
    const auto number = static_cast<std::int64_t>(step);
    const StepOutcome &want = one[step].outcome, got = many.step(number);
    if (differ(got.loss, want.loss, bound))
      return fmt::format("step {}: loss {} against {}", step, got.loss, want.loss);
    if (differ(got.gradient_norm, want.gradient_norm, bound))
      return fmt::format("step {}: norm {} against {}", step, got.gradient_norm, want.gradient_norm);
    if (differ(got.aux_loss.value_or(-1), want.aux_loss.value_or(-1), bound))
      return fmt::format("step {}: loss of routers {} against {}", step, got.aux_loss.value_or(-1),
                         want.aux_loss.value_or(-1));
    if (got.expert_loads != want.expert_loads) return fmt::format("step {}: tokens go to other experts", step);
    if (const auto fault = many.trace_fault(number)) return *fault;
    for (const LogicalTensor& tensor : many.tensors()) {
      const at::Tensor& weight = one[step].weights.at(tensor.name);
      const double error = norm_of(at::sub(many.whole_weight(tensor), weight.view(tensor.shape)));
      if (!(error <= 1e-9 * norm_of(weight)))
        return fmt::format("step {}: {} differs by {} of {}", step, tensor.name, error, norm_of(weight));
    }
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_drawn_composition_equals_one_rank) {
  const int ranks = test::world().size();
  const int count = all_cases() ? 60 : 3;
  const Draws before = draws();
  int done = 0, refused = 0, shared_out = 0;
  for (std::uint64_t draw = 0; done < count && refused < 20 * count; ++draw) {
    Dice dice(static_cast<std::uint64_t>(ranks) * 100000 + draw);
    Composition how;
    const bool experts = dice.one_in(2);
    draw_mesh(dice, ranks, how);
    draw_options(dice, how);
    if (experts) draw_experts(dice, how);
    const std::optional<double> clip = dice.one_in(2) ? std::optional(0.5) : std::nullopt;
    std::string model;
    const std::string name = fmt::format("drawn {}{}", draw, dice.one_in(2) ? in_documents : "");
    drawn_models()[name] = draw_model(dice, how, experts, model);
    how.family = name.c_str();
    try {
      const std::string problem = difference_of(how, clip);
      BOOST_TEST(problem.empty(), "LOCKSTEP_TEST_SEED=" << seed() << ", " << how.text() << " (" << model
                                                        << (clip ? ", clipped" : "") << "): " << problem);
      ++done;
      shared_out += how.experts > 1 ? 1 : 0;
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      ++refused;  // by the plan, which is the same on all ranks
    }
    drawn_models().erase(name);
  }
  BOOST_TEST(done == count, refused << " draws were refused");
  const int made = draws().made - before.made, again = draws().again - before.again;
  BOOST_TEST(10 * again <= made, again << " of " << made << " models were drawn again for experts all but equal");
  if (test::world().rank() == 0)
    std::printf(
        "# %d compositions drawn on %d ranks with seed %llu, %d with parallel experts, %d more refused; of %d models "
        "with experts %d again\n",
        done, ranks, static_cast<unsigned long long>(seed()), shared_out, refused, made, again);
}

BOOST_AUTO_TEST_SUITE_END()
