// The routing of the device, run on the host, against the CPU's kernels, which are plain loops.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/routing.cu"
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

BOOST_AUTO_TEST_CASE(more_than_1024_experts_are_refused) {
  Values<float> none(0);
  Values<std::int32_t> chosen(0);
  BOOST_CHECK_THROW(
      cuda::route<float>(none.data(), {0, 1025, 1}, Choose::largest, chosen.data(), none.data(), none.data()),
      std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
