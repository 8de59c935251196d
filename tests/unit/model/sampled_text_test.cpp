#include "model/sampled_text.hpp"

#include "base/error.hpp"
#include "small_models.hpp"

#include <ATen/core/Tensor.h>

#include <boost/test/unit_test.hpp>

#include <limits>
#include <set>

BOOST_AUTO_TEST_SUITE(generation)

using namespace lockstep;

namespace {

/// All weights 0: all logits are equal.
Model even_model() {
  Model model(small_gpt2(), Precision::fp32);
  for (const auto& unit : model.units()) unit->master().zero_();
  return model;
}

/// A text by a model on one rank: what the engine's must equal.
std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options, const Continuation& next = {}) {
  SampledText text(prompt, options, {model.config().max_positions}, next);
  while (!text.ended()) {
    const TextInput seen = text.seen();
    const at::Tensor logits = model.logits(to_tensors(seen.batch, model.config())).select(0, seen.last).to(at::kDouble);
    text.append(text.draw(values_of<double>(logits)));
  }
  return text.tokens();
}

}  // namespace

BOOST_AUTO_TEST_CASE(temperature_0_takes_the_most_likely_token_of_the_logits) {
  Model model(small_llama(), Precision::fp32);
  model.initialise(3);
  for (const auto& unit : model.units()) unit->master().mul_(5);  // logits that differ
  SampleOptions options;
  options.max_tokens = 6;
  options.temperature = 0;
  const std::vector<std::int32_t> text = generate(model, {1, 7}, options);
  BOOST_TEST(text.size() == 8u);
  for (std::size_t seen = 2; seen < text.size(); ++seen) {
    Batch batch = counting_batch(1, static_cast<std::int64_t>(seen), 29);
    batch.tokens.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(seen));
    const at::Tensor logits = model.logits(to_tensors(batch, model.config()));
    BOOST_TEST(logits[-1].argmax().item<std::int64_t>() == text[seen]);
  }
}

BOOST_AUTO_TEST_CASE(a_draw_depends_on_seed_and_prompt_and_continues_a_shorter_one) {
  Model model(small_gpt2(), Precision::fp32);
  model.initialise(3);
  SampleOptions options;
  options.max_tokens = 12;
  options.temperature = 1;
  const auto text = generate(model, {1, 7}, options);
  BOOST_TEST(text == generate(model, {1, 7}, options));
  options.seed = 1;
  BOOST_TEST(text != generate(model, {1, 7}, options));
  options.seed = 0;
  options.max_tokens = 5;
  BOOST_TEST(std::vector<std::int32_t>(text.begin(), text.begin() + 7) == generate(model, {1, 7}, options));
}

BOOST_AUTO_TEST_CASE(equal_logits_are_drawn_evenly_among_the_top_k) {
  const Model model = even_model();
  SampleOptions options;
  options.max_tokens = 400;
  options.top_k = 4;
  std::vector<int> counts(23);
  const auto text = generate(model, {5}, options);
  for (std::size_t i = 1; i < text.size(); ++i) ++counts[static_cast<std::size_t>(text[i])];
  for (std::size_t token = 0; token < 4; ++token) BOOST_TEST((counts[token] > 60 && counts[token] < 140));
  BOOST_TEST(counts[0] + counts[1] + counts[2] + counts[3] == 400);
}

BOOST_AUTO_TEST_CASE(text_longer_than_the_context_goes_on_and_the_stop_token_ends_it) {
  const Model model = even_model();
  SampleOptions options;
  options.max_tokens = 50;  // the context is 32
  options.temperature = 0;
  BOOST_TEST(generate(model, {5, 6}, options).size() == 52u);
  BOOST_TEST(generate(model, {5, 6}, options, {.stop_token = 0}) == (std::vector<std::int32_t>{5, 6, 0}));
}

BOOST_AUTO_TEST_CASE(only_candidates_are_drawn_however_likely_other_tokens_are) {
  const Model model = even_model();
  const std::vector<std::int32_t> candidates{2, 3, 11};
  SampleOptions options;
  options.max_tokens = 90;
  for (const double temperature : {0.0, 1.0}) {
    for (const std::optional<std::int64_t> top_k : {std::optional<std::int64_t>(), std::optional<std::int64_t>(5)}) {
      options.temperature = temperature;
      options.top_k = top_k;
      const auto text = generate(model, {5}, options, {.candidates = candidates});
      const std::set<std::int32_t> drawn(text.begin() + 1, text.end());
      // without them temperature 0 takes token 0, the first of equal ones, and a draw takes others as well
      BOOST_TEST((drawn == (temperature > 0 ? std::set<std::int32_t>{2, 3, 11} : std::set<std::int32_t>{2})));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_empty_prompt_is_an_error) { BOOST_CHECK_THROW(SampledText({}, SampleOptions{}, {32}), Error); }

BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_are_an_error) {
  const SampledText text({1}, SampleOptions{}, {32});
  const std::vector<double> logits{1, std::numeric_limits<double>::quiet_NaN(), 0};
  BOOST_CHECK_EXCEPTION(text.draw(logits), Error, [](const Error& e) { return e.code() == ExitCode::numerics; });
}

BOOST_AUTO_TEST_CASE(a_text_of_no_tokens_has_ended) {
  SampleOptions options;
  options.max_tokens = 0;
  BOOST_TEST(SampledText({4}, options, {32}).ended());
}

BOOST_AUTO_TEST_SUITE_END()
