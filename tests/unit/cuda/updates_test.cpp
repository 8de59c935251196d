// The updates of the device, run on the host, against the formulas in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/updates.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

#include <limits>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(cuda_updates)

using namespace lockstep;
using namespace lockstep::test;

namespace {

enum class Kept { master, master_and_copy, short_weights, compensated };

constexpr std::int64_t length = 2300;

/// Stretches with borders within packs, an empty one, and elements that belong to none.
template <class Factors>
std::vector<Stretch<Factors>> stretches_of(const Factors& first, const Factors& second) {
  return {{0, 3, first}, {3, 3, second}, {3, 1030, second}, {1034, 2299, first}};
}

template <class Stretches>
int stretch_at(const Stretches& stretches, std::int64_t i) {
  for (std::size_t s = 0; s < stretches.size(); ++s) {
    if (i >= stretches[s].begin && i < stretches[s].end) return static_cast<int>(s);
  }
  return -1;
}

/// The weights of a unit in one of their forms, and what an update makes of them.
template <class M>
struct Weights {
  explicit Weights(Kept kept, Start start)
      : master(normal_values(length, 1), start),
        copy(length, start),
        weights(normal_values(length, 1), start),
        rest(normal_values(length, 2, 0.001), start) {
    if (kept == Kept::master || kept == Kept::master_and_copy) in_use.master = master.data();
    if (kept == Kept::master_and_copy) in_use.compute = copy.data();
    if (kept == Kept::short_weights || kept == Kept::compensated) in_use.short_weights = weights.data();
    if (kept == Kept::compensated) in_use.compensation = rest.data();
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  double before(std::int64_t i) const {
    if (in_use.master) return master[i];
    return weights[i] + (in_use.compensation ? rest[i] : 0);
  }
  /// Checks element i, whose exact update is `wanted`; `untouched` if it belongs to no stretch.
  bool is_right(std::int64_t i, double wanted, bool untouched) const {
    if (in_use.master) {
      const double copied = load(rounded<Bf16>(master[i]));
      const bool copy_is_right = !in_use.compute || (untouched ? std::isnan(copy[i]) : copy[i] == copied);
      return near(master[i], wanted, 4 * rounding<M>) && copy_is_right;
    }
    const double both = weights[i] + (in_use.compensation ? rest[i] : 0);
    return near(both, wanted, in_use.compensation ? 4e-5 : 0.005);
  }

  Values<M> master;
  Values<Bf16> copy, weights, rest;
  UpdatedWeights<M> in_use;
};

template <class Factors, class M, class S, int states>
struct Update {
  std::vector<Stretch<Factors>> stretches;
  void (*run)(const std::vector<Stretch<Factors>>&, const UpdatedWeights<M>&, const M* gradient, S* const* state);
  /// Changes a weight and its state by the formula.
  void (*formula)(const Factors&, double gradient, double& weight, double* state);
};

template <class Factors, class M, class S, int states>
void check(const Update<Factors, M, S, states>& update, Kept kept, Start start, const std::string& name) {
  std::vector<Results> runs;
  for (const std::uint32_t seed : {1u, 2u}) {
    on_host::draw_orders(seed);
    Weights<M> weights(kept, start);
    Values<M> gradient(normal_values(length, 3), start);
    std::vector<Values<S>> state;
    S* pointers[2] = {};
    for (int s = 0; s < states; ++s) {
      std::vector<double> values = normal_values(length, 4 + static_cast<std::uint32_t>(s), 0.1);
      for (double& value : values) value = s == 1 ? std::abs(value) : value;
      state.emplace_back(values, start);
    }
    for (int s = 0; s < states; ++s) pointers[s] = state[static_cast<std::size_t>(s)].data();
    std::vector<double> wanted, wanted_state[2];
    for (std::int64_t i = 0; i < length; ++i) {
      double weight = weights.before(i), own[2] = {};
      for (int s = 0; s < states; ++s) own[s] = state[static_cast<std::size_t>(s)][i];
      const int in = stretch_at(update.stretches, i);
      if (in >= 0) update.formula(update.stretches[static_cast<std::size_t>(in)].factors, gradient[i], weight, own);
      wanted.push_back(weight);
      for (int s = 0; s < states; ++s) wanted_state[s].push_back(own[s]);
    }
    update.run(update.stretches, weights.in_use, gradient.data(), pointers);
    int wrong = 0;
    for (std::int64_t i = 0; i < length; ++i)
      wrong += weights.is_right(i, wanted[static_cast<std::size_t>(i)], stretch_at(update.stretches, i) < 0) ? 0 : 1;
    BOOST_CHECK_MESSAGE(wrong == 0, name << ", kept " << static_cast<int>(kept) << ": " << wrong << " weights");
    for (int s = 0; s < states; ++s)
      check_near(state[static_cast<std::size_t>(s)].all(), wanted_state[s], rounding<S>, name + ", state");
  }
}

template <class Factors, class M, class S, int states>
void check_all_forms(const Update<Factors, M, S, states>& update, const std::string& name) {
  for (const Start start : {Start::aligned, Start::unaligned}) {
    check(update, Kept::master, start, name);
    check(update, Kept::master_and_copy, start, name);
    if constexpr (std::is_same_v<M, float>) {
      check(update, Kept::short_weights, start, name);
      check(update, Kept::compensated, start, name);
    }
  }
}

template <class M, class S>
void check_adamw(const std::string& name) {
  using Factors = AdamWFactors<M>;
  const Factors first{M(0.5), M(0.99), M(0.9), M(0.95), M(0.01), M(0.3), M(1e-6)};
  const Factors second{M(2), M(1), M(0.8), M(0.99), M(0.02), M(0.9), M(1e-8)};
  check_all_forms<Factors, M, S, 2>(
      {stretches_of(first, second),
       [](const auto& stretches, const UpdatedWeights<M>& weights, const M* gradient, S* const* state) {
         cuda::adamw<M, S>(stretches, length, weights, gradient, state[0], state[1]);
       },
       [](const Factors& f, double gradient, double& weight, double* state) {
         const double g = gradient * f.gradient_scale;
         state[0] = f.beta1 * state[0] + (1 - f.beta1) * g;
         state[1] = f.beta2 * state[1] + (1 - f.beta2) * g * g;
         weight = weight * f.keep - f.step_size * state[0] / (std::sqrt(state[1]) / f.correction + f.epsilon);
       }},
      name);
}

template <class M, class S>
void check_lion(const std::string& name) {
  using Factors = LionFactors<M>;
  check_all_forms<Factors, M, S, 1>(
      {stretches_of(Factors{M(0.5), M(0.01), M(0.99), M(0.9), M(0.99)}, Factors{M(1), M(0.1), M(1), M(0.5), M(0.75)}),
       [](const auto& stretches, const UpdatedWeights<M>& weights, const M* gradient, S* const* state) {
         cuda::lion<M, S>(stretches, length, weights, gradient, state[0]);
       },
       [](const Factors& f, double gradient, double& weight, double* state) {
         const double g = gradient * f.gradient_scale, direction = f.beta1 * state[0] + (1 - f.beta1) * g;
         weight = weight * f.keep - f.lr * ((direction > 0) - (direction < 0));
         state[0] = f.beta2 * state[0] + (1 - f.beta2) * g;
       }},
      name);
}

template <class M, bool has_buffer>
void check_sgd(const std::string& name) {
  using Factors = SgdFactors<M>;
  check_all_forms<Factors, M, M, has_buffer ? 1 : 0>(
      {stretches_of(Factors{M(0.5), M(0.01), M(0.1), M(0.9), true}, Factors{M(1), M(0.1), M(0), M(0.5), false}),
       [](const auto& stretches, const UpdatedWeights<M>& weights, const M* gradient, M* const* state) {
         cuda::sgd<M>(stretches, length, weights, gradient, has_buffer ? state[0] : nullptr);
       },
       [](const Factors& f, double gradient, double& weight, double* state) {
         const double g = gradient * f.gradient_scale + f.decay * weight;
         state[0] = f.momentum * state[0] + g;
         weight -= f.lr * (!has_buffer ? g : f.nesterov ? g + f.momentum * state[0] : state[0]);
       }},
      name);
}

}  // namespace

BOOST_AUTO_TEST_CASE(adamw_follows_its_formula_in_all_forms_of_weights) {
  check_adamw<float, float>("fp32");
  check_adamw<float, Bf16>("bf16 state");
  check_adamw<double, double>("fp64");
}

BOOST_AUTO_TEST_CASE(lion_follows_its_formula_in_all_forms_of_weights) {
  check_lion<float, float>("fp32");
  check_lion<float, Bf16>("bf16 state");
  check_lion<double, double>("fp64");
}

BOOST_AUTO_TEST_CASE(sgd_follows_its_formula_with_and_without_momentum) {
  check_sgd<float, true>("fp32");
  check_sgd<float, false>("fp32, plain");
  check_sgd<double, true>("fp64");
}

BOOST_AUTO_TEST_CASE(more_stretches_than_one_launch_takes_are_all_updated) {
  constexpr int count = 200;
  std::vector<Stretch<SgdFactors<float>>> stretches;
  for (std::int64_t s = 0; s < count; ++s)
    stretches.push_back({7 * s, 7 * s + 7, {1, static_cast<float>(s), 0, 0, false}});
  Values<float> weights(std::vector<double>(7 * count, 1)), gradient(std::vector<double>(7 * count, 1));
  cuda::sgd<float>(stretches, 7 * count, {.master = weights.data()}, gradient.data(), nullptr);
  for (std::int64_t i = 0; i < 7 * count; ++i) BOOST_REQUIRE_EQUAL(weights[i], 1 - static_cast<double>(i / 7));
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_spoils_its_weight_alone) {
  Values<float> gradient(normal_values(16, 1)), weights(normal_values(16, 2)), average(normal_values(16, 3));
  gradient.data()[5] = NAN;
  gradient.data()[9] = std::numeric_limits<float>::infinity();
  cuda::lion<float, float>({{0, 16, {1, 0.1f, 1, 0.9f, 0.9f}}}, 16, {.master = weights.data()}, gradient.data(),
                           average.data());
  for (std::int64_t i = 0; i < 16; ++i) {
    BOOST_TEST(std::isnan(weights[i]) == (i == 5));
    BOOST_TEST(std::isfinite(average[i]) == (i != 5 && i != 9));
  }
}

BOOST_AUTO_TEST_CASE(muon_leads_and_follows_by_its_formula) {
  constexpr std::int64_t count = 37;
  for (const bool looks_ahead : {true, false}) {
    Values<float> gradient(normal_values(count, 1)), directions(count);
    Values<Bf16> average(normal_values(count, 2));
    std::vector<double> wanted, kept;
    for (std::int64_t i = 0; i < count; ++i) {
      const double g = 0.5 * gradient[i], after = average[i] + 0.25 * (g - average[i]);
      kept.push_back(after);
      wanted.push_back(looks_ahead ? g + 0.75 * (after - g) : after);
    }
    cuda::muon_lead<float, Bf16>(count, 0.5f, 0.75f, looks_ahead, gradient.data(), average.data(), directions.data());
    check_near(directions.all(), wanted, 1e-6, "directions");
    check_near(average.all(), kept, rounding<Bf16>, "average");
    cuda::muon_lead<float, Bf16>(count, 0.5f, 0.75f, looks_ahead, gradient.data(), nullptr, directions.data());
    for (std::int64_t i = 0; i < count; ++i) BOOST_TEST(directions[i] == 0.5 * gradient[i]);
  }
  Values<double> weights(normal_values(count + 5, 3)), directions(normal_values(count, 4));
  std::vector<double> wanted = weights.all();
  for (std::int64_t i = 0; i < count; ++i)
    wanted[static_cast<std::size_t>(i + 5)] = weights[i + 5] * 0.9 - 0.1 * directions[i];
  cuda::muon_follow<double>(5, count, 0.9, 0.1, {.master = weights.data()}, directions.data());
  check_near(weights.all(), wanted, 1e-14, "weights");
}

namespace {

constexpr std::int64_t looked_at = 12;  // elements at the end of a unit

/// What an update makes of the last elements of a unit of `count` elements; the others are zero, and stay so. Only its
/// last two blocks run.
template <class S, class Update>
Results at_the_end(std::int64_t count, bool has_master, const Update& update) {
  const std::int64_t begin = count - looked_at;
  DistantMemory<float> master(count), gradient(count);
  DistantMemory<Bf16> short_weights(count), rest(count), compute(count);
  DistantMemory<S> first(count), second(count);
  master.set(begin, normal_values(looked_at, 1));
  short_weights.set(begin, normal_values(looked_at, 1));
  rest.set(begin, normal_values(looked_at, 2, 0.001));
  gradient.set(begin, normal_values(looked_at, 3));
  first.set(begin, normal_values(looked_at, 4));
  second.set(begin, std::vector<double>(looked_at, 0.5));
  const UpdatedWeights<float> weights =
      has_master ? UpdatedWeights<float>{.master = master.data(), .compute = compute.data()}
                 : UpdatedWeights<float>{.short_weights = short_weights.data(), .compensation = rest.data()};
  const on_host::LastBlocks only(2);
  update(count, weights, gradient.data(), first.data(), second.data());
  Results found;
  const auto add = [&](auto& memory) {
    found.push_back(memory.values(begin, looked_at));
    for (const int bits : {31, 32}) {  // where an index of fewer bits would lead
      const std::int64_t other = begin % (std::int64_t{1} << bits);
      if (other != begin) found.push_back(memory.values(other, looked_at));
    }
  };
  add(master);
  add(compute);
  add(short_weights);
  add(rest);
  add(first);
  add(second);
  return found;
}

/// Checks that the end of a unit of billions of elements is updated as that of a small one.
template <class S, class Update>
void check_far(const std::string& name, const Update& update) {
  constexpr std::int64_t extra = 1024 * 4 + 14;
  for (const bool has_master : {true, false}) {
    const Results near_by = at_the_end<S>(extra, has_master, update);
    for (const int bits : {31, 32}) {
      const Results far = at_the_end<S>((std::int64_t{1} << bits) + extra, has_master, update);
      const std::size_t repeats = far.size() / near_by.size();
      for (std::size_t i = 0; i < far.size(); ++i) {
        const bool is_elsewhere = i % repeats != 0;
        const std::vector<double> untouched(looked_at, 0);
        BOOST_CHECK_MESSAGE(far[i] == (is_elsewhere ? untouched : near_by[i / repeats]),
                            name << " beyond 2^" << bits << (has_master ? "" : ", weights in bf16") << ", buffer "
                                 << i / repeats << (is_elsewhere ? " elsewhere" : ""));
      }
    }
    BOOST_CHECK(near_by[has_master ? 0 : 2] != normal_values(looked_at, 1));
  }
}

/// All elements of a unit in two stretches, of which the last six are the second.
template <class Factors>
std::vector<Stretch<Factors>> whole_unit(std::int64_t count, const Factors& first, const Factors& second) {
  return {{0, count - 6, first}, {count - 6, count, second}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(elements_behind_billions_of_others_are_updated) {
  const auto adamw = [](std::int64_t count, const UpdatedWeights<float>& weights, const float* gradient, auto* first,
                        auto* second) {
    using S = std::remove_pointer_t<decltype(first)>;
    const AdamWFactors<float> one{0.5f, 0.99f, 0.9f, 0.95f, 0.125f, 0.3f, 1e-6f};
    const AdamWFactors<float> other{2, 1, 0.8f, 0.99f, 0.25f, 0.9f, 1e-8f};
    cuda::adamw<float, S>(whole_unit(count, one, other), count, weights, gradient, first, second);
  };
  check_far<float>("adamw", adamw);
  check_far<Bf16>("adamw of bf16", adamw);
  check_far<float>("lion", [](std::int64_t count, const UpdatedWeights<float>& weights, const float* gradient,
                              float* average, float*) {
    const LionFactors<float> one{1, 0.125f, 0.99f, 0.9f, 0.99f}, other{0.5f, 0.25f, 1, 0.9f, 0.95f};
    cuda::lion<float, float>(whole_unit(count, one, other), count, weights, gradient, average);
  });
  check_far<float>("sgd", [](std::int64_t count, const UpdatedWeights<float>& weights, const float* gradient,
                             float* buffer, float*) {
    const SgdFactors<float> one{0.5f, 0.125f, 0.1f, 0.9f, true}, other{1, 0.25f, 0, 0.5f, false};
    cuda::sgd<float>(whole_unit(count, one, other), count, weights, gradient, buffer);
  });
  check_far<float>("muon", [](std::int64_t count, const UpdatedWeights<float>& weights, const float* gradient,
                              float* average, float* directions) {
    cuda::muon_lead<float, float>(count, 0.5f, 0.75f, true, gradient, average, directions);
    cuda::muon_follow<float>(0, count, 0.9f, 0.1f, weights, directions);
    cuda::muon_follow<float>(count - 5, 5, 0.9f, 0.1f, weights, directions + count - 5);
  });
}

BOOST_AUTO_TEST_SUITE_END()
