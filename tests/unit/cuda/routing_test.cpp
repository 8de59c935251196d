// The routing of the device, run on the host, against the CPU's kernels, which are plain loops.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/routing.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_routing)

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Case {
  RoutingShape shape;
  std::int64_t channels = 12;
  Start start = Start::aligned;
  bool has_padding = true;
};

constexpr std::int64_t samples_count = 3;

std::vector<std::int32_t> samples_for(const Case& of) {
  std::vector<std::int32_t> samples;
  for (std::int64_t t = 0; t < of.shape.tokens; ++t)
    samples.push_back(of.has_padding && t % 5 == 2 ? -1 : static_cast<std::int32_t>(t % samples_count));
  return samples;
}

/// Logits with ties.
std::vector<double> logits_for(const Case& of) {
  std::vector<double> logits = normal_values(of.shape.tokens * of.shape.experts, 1);
  for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i]);
  return logits;
}

template <class T>
struct Inputs {
  explicit Inputs(const Case& of)
      : samples(samples_for(of)),
        logits(logits_for(of)),
        dweights(normal_values(of.shape.tokens * of.shape.per_token, 2)),
        residual(normal_values(of.shape.tokens * of.channels, 3), of.start),
        dy(normal_values(of.shape.tokens * of.channels, 4), of.start),
        x(normal_values(of.shape.tokens * of.channels, 5), of.start) {}
  std::vector<std::int32_t> samples;
  Values<Math<T>> logits, dweights, residual, dy;
  Values<T> x;
};

#define LOCKSTEP_CALL(name, ...) device ? cuda::name(__VA_ARGS__) : lockstep::name(__VA_ARGS__)

/// The results of all functions: those of the device, or the CPU's.
template <class T, bool device>
Results computed(const Case& of, Inputs<T>& in) {
  using M = Math<T>;
  const RoutingShape& shape = of.shape;
  const std::int64_t choices = shape.tokens * shape.per_token, E = shape.experts;
  std::int32_t* const samples = in.samples.data();
  std::int32_t* const padding = of.has_padding ? samples : nullptr;
  Values<std::int32_t> chosen(choices), places(choices);
  Values<M> weights(choices), weights_again(choices), probabilities(shape.tokens * E), sums(2 * samples_count * E);
  Values<M> slopes(samples_count * E), dweights(choices), y(shape.tokens * of.channels, of.start);
  Values<T> dlogits(shape.tokens * E), dlogits_alone(shape.tokens * E), dx(shape.tokens * of.channels, of.start);
  Values<std::int64_t> offsets(E + 1);
  Values<double> counts(std::vector<double>(static_cast<std::size_t>(E), 5)), loss(1);
  LOCKSTEP_CALL(route, in.logits.data(), shape, Choose::largest, chosen.data(), weights.data(), probabilities.data());
  LOCKSTEP_CALL(route, in.logits.data(), shape, Choose::given, chosen.data(), weights_again.data(),
                probabilities.data());
  LOCKSTEP_CALL(sum_by_sample, probabilities.data(), chosen.data(), samples, shape, samples_count, sums.data());
  LOCKSTEP_CALL(aux_loss, sums.data(), samples_count, E, 7, 0.5, slopes.data(), loss.data());
  LOCKSTEP_CALL(count_choices, chosen.data(), samples, shape, counts.data());
  const AuxSlopes<M> aux{samples, slopes.data()};
  LOCKSTEP_CALL(route_backward<T>, in.dweights.data(), weights.data(), probabilities.data(), chosen.data(), aux, shape,
                dlogits.data());
  LOCKSTEP_CALL(route_backward<T>, in.dweights.data(), weights.data(), probabilities.data(), chosen.data(),
                AuxSlopes<M>{}, shape, dlogits_alone.data());
  LOCKSTEP_CALL(group_by_expert, chosen.data(), padding, shape, offsets.data(), places.data());
  const auto rows = static_cast<std::int64_t>(offsets[E]);
  Values<T> dispatched(rows * of.channels, of.start), drows(rows * of.channels, of.start);
  LOCKSTEP_CALL(dispatch_rows, in.x.data(), places.data(), shape, of.channels, dispatched.data());
  LOCKSTEP_CALL(dispatch_backward, dispatched.data(), places.data(), shape, of.channels, dx.data());
  LOCKSTEP_CALL(combine_rows, in.residual.data(), dispatched.data(), weights.data(), places.data(), shape, of.channels,
                y.data());
  LOCKSTEP_CALL(combine_backward, in.dy.data(), dispatched.data(), weights.data(), places.data(), shape, of.channels,
                drows.data(), dweights.data());
  return {chosen.all(),   places.all(),        offsets.all(), counts.all(), dispatched.all(),
          weights.all(),  probabilities.all(), sums.all(),    slopes.all(), loss.all(),
          dlogits.all(),  dlogits_alone.all(), dx.all(),      y.all(),      drows.all(),
          dweights.all(), weights_again.all()};
}

#undef LOCKSTEP_CALL

template <class T>
void check(const Case& of, const std::string& type) {
  Inputs<T> in(of);
  const Results wanted = computed<T, false>(of, in);
  const Results found = in_any_order([&] { return computed<T, true>(of, in); });
  const std::string name = type + ", " + std::to_string(of.shape.experts) + " experts, result ";
  constexpr std::size_t exact = 5;  // choices, places and copies
  for (std::size_t i = 0; i < wanted.size(); ++i)
    check_near(found[i], wanted[i], i < exact ? 0 : 2 * rounding<T>, name + std::to_string(i));
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_are_routed_as_on_the_cpu_in_all_types) {
  for_each_type([]<class T>(const std::string& type) {
    check<T>({{19, 8, 2}}, type);
    check<T>({{11, 5, 3, false}, 7, Start::unaligned}, type);
  });
}

BOOST_AUTO_TEST_CASE(many_experts_and_tokens_are_routed) {
  check<float>({{300, 70, 4}, 8, Start::aligned, false}, "fp32");
  check<double>({{40, 33, 33, false}, 300}, "fp64");
}

BOOST_AUTO_TEST_CASE(logits_that_are_no_numbers_choose_experts_that_exist) {
  Values<float> logits(std::vector<double>(2 * 6, NAN)), weights(2 * 3), probabilities(2 * 6);
  logits.data()[6 + 4] = 1;
  Values<std::int32_t> chosen(2 * 3);
  cuda::route<float>(logits.data(), {2, 6, 3}, Choose::largest, chosen.data(), weights.data(), probabilities.data());
  check_near(chosen.all(), {0, 1, 2, 0, 1, 4}, 0, "chosen");
}

namespace {

/// The routing of the last eight of so many tokens to 2 of 64 experts, forward and backward. The others are zero.
Results end_of_routing(std::int64_t tokens) {
  constexpr std::int64_t experts = 64, per_token = 2, last = 8;
  const std::int64_t begin = tokens - last;
  const RoutingShape shape{tokens, experts, per_token};
  DistantMemory<float> logits(tokens * experts), probabilities(tokens * experts), dlogits(tokens * experts);
  DistantMemory<float> weights(tokens * per_token), dweights(tokens * per_token);
  DistantMemory<std::int32_t> chosen(tokens * per_token), samples(tokens);
  std::vector<float> slopes(3 * experts);
  for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] = static_cast<float>(i % 7) / 8;
  logits.set(begin * experts, normal_values(last * experts, 1));
  dweights.set(begin * per_token, normal_values(last * per_token, 2));
  samples.set(begin, std::vector<double>(last, 2));
  const on_host::LastBlocks only(1);
  cuda::route<float>(logits.data(), shape, Choose::largest, chosen.data(), weights.data(), probabilities.data());
  cuda::route_backward<float>(dweights.data(), weights.data(), probabilities.data(), chosen.data(),
                              {samples.data(), slopes.data()}, shape, dlogits.data());
  return {chosen.values(begin * per_token, last * per_token), weights.values(begin * per_token, last * per_token),
          probabilities.values(begin * experts, last * experts), dlogits.values(begin * experts, last * experts)};
}

/// Rows of the last three of so many tokens on their way to an expert and back. All tokens have rows of their own, in
/// their order.
Results end_of_exchange(std::int64_t tokens) {
  constexpr std::int64_t channels = 4100, last = 3;
  const std::int64_t begin = tokens - last;
  const RoutingShape shape{tokens, 4, 1};
  DistantMemory<float> x(tokens * channels), rows(tokens * channels), y(tokens * channels), dx(tokens * channels);
  DistantMemory<float> drows(tokens * channels), weights(tokens), dweights(tokens);
  DistantMemory<std::int32_t> places(tokens);
  x.set(begin * channels, normal_values(last * channels, 1));
  weights.set(begin, {0.5, 2, -1});
  places.set(begin, {static_cast<double>(begin + 1), static_cast<double>(begin + 2), static_cast<double>(begin)});
  {
    const on_host::LastBlocks only(5 * last);  // five have a row
    cuda::dispatch_rows<float>(x.data(), places.data(), shape, channels, rows.data());
    cuda::combine_rows<float>(x.data(), rows.data(), weights.data(), places.data(), shape, channels, y.data());
    cuda::dispatch_backward<float>(y.data(), places.data(), shape, channels, dx.data());
  }
  const on_host::LastBlocks only(1);  // which has the last eight places or fewer
  cuda::combine_backward<float>(y.data(), rows.data(), weights.data(), places.data(), shape, channels, drows.data(),
                                dweights.data());
  const auto end_of = [&](DistantMemory<float>& of) { return of.values(begin * channels, last * channels); };
  return {end_of(rows), end_of(y), end_of(dx), end_of(drows), dweights.values(begin, last)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_behind_billions_of_numbers_are_routed) {
  const Results near_by = end_of_routing(8), near_rows = end_of_exchange(3);
  BOOST_CHECK(near_rows[0] != std::vector<double>(near_rows[0].size(), 0));
  for (const int bits : {31, 32}) {
    const std::int64_t numbers = std::int64_t{1} << bits;
    BOOST_CHECK_MESSAGE(end_of_routing(numbers / 64 + 8) == near_by, "logits beyond 2^" << bits);
    // A multiple of eight and three more, so that the same places share a block.
    BOOST_CHECK_MESSAGE(end_of_exchange(numbers / 4096 + 3) == near_rows, "rows beyond 2^" << bits);
  }
}

BOOST_AUTO_TEST_CASE(tokens_of_a_sample_behind_billions_of_numbers_are_summed) {
  constexpr std::int64_t experts = 1024, tokens = (std::int64_t{1} << 22) + 2;
  DistantMemory<float> probabilities(tokens * experts), sums(2 * 2 * experts);
  DistantMemory<std::int32_t> chosen(tokens), samples(tokens);
  for (const std::int64_t token : {tokens - 2, tokens - 1}) {
    samples.data()[token] = 1;
    chosen.data()[token] = 1023;
    probabilities.data()[token * experts + 1023] = 0.25f;
  }
  const on_host::LastBlocks only(1);  // the last 32 experts of the second sample
  cuda::sum_by_sample<float>(probabilities.data(), chosen.data(), samples.data(), {tokens, experts, 1}, 2, sums.data());
  BOOST_TEST(sums.data()[2 * experts - 1] == 2);
  BOOST_TEST(sums.data()[4 * experts - 1] == 0.5f);
}

BOOST_AUTO_TEST_CASE(more_than_1024_experts_are_refused) {
  Values<float> none(0);
  Values<std::int32_t> chosen(0);
  BOOST_CHECK_THROW(
      cuda::route<float>(none.data(), {0, 1025, 1}, Choose::largest, chosen.data(), none.data(), none.data()),
      std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
