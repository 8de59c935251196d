// Trials of the updates of optimizers.
#include "trial/trials.hpp"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::trial {

namespace {

template <class T>
void describe_elements_of(KernelCall<T>& call, std::int64_t count, std::string_view form = "") {
  call.facts.shape = fmt::format("{}{}", count, form);
}

/// Borders within vectors, an empty stretch, and elements that belong to none.
template <class Factors>
std::vector<Stretch<Factors>> stretches_of(std::int64_t length, const Factors& first, const Factors& second) {
  const std::int64_t border = length / 2 + 1;
  if (length < 16) return {{0, length, first}};
  return {{0, 3, first}, {3, 3, second}, {3, border, second}, {border + 2, length - 1, first}};
}

/// The weights of a unit in the form of the configuration. The reference keeps them as a master in fp64 for each form.
template <class T>
UpdatedWeights<Math<T>> weights_of(KernelCall<T>& call, const TrialSizes& sizes, std::int64_t length) {
  const WeightForm form = call.tested() == Number::fp64 ? WeightForm::master : sizes.weights;
  UpdatedWeights<Math<T>> weights;
  const Draw rest = normal(0.001);
  if constexpr (std::is_same_v<T, double>) {
    const Draw both = [&call, rest](const RandomStream& stream, std::uint64_t i) {
      return rounded_to(normal()(stream, i), Number::bf16) +
             call.value("rest", rest, Number::bf16, static_cast<std::int64_t>(i));
    };
    switch (form) {
      case WeightForm::master: weights.master = call.updated(wide, "weights", length); break;
      case WeightForm::master_and_copy:
        weights.master = call.updated(wide, "weights", length);
        weights.compute = call.updated(compute_copy, "compute", length);
        break;
      case WeightForm::only_bf16: weights.master = call.updated(brief, "weights", length); break;
      case WeightForm::compensated: weights.master = call.updated(real, "weights", length, both); break;
    }
  } else {
    switch (form) {
      case WeightForm::master: weights.master = call.updated(wide, "weights", length); break;
      case WeightForm::master_and_copy:
        weights.master = call.updated(wide, "weights", length);
        weights.compute = call.updated(compute_copy, "compute", length);
        break;
      case WeightForm::only_bf16: weights.short_weights = call.updated(brief, "weights", length); break;
      case WeightForm::compensated:
        weights.short_weights = call.updated(brief, "weights", length);
        weights.compensation = call.updated(brief, "rest", length, rest);
        call.add_up("weights", "rest");
        break;
    }
  }
  return weights;
}

/// The entry for state in bf16. The reference keeps this state in fp64.
template <class T>
constexpr auto adamw_of_brief_state = [] {
  if constexpr (std::is_same_v<T, double>)
    return &Kernels<T>::adamw;
  else
    return &Kernels<T>::adamw_short_state;
}();
template <class T>
constexpr auto lion_of_brief_state = [] {
  if constexpr (std::is_same_v<T, double>)
    return &Kernels<T>::lion;
  else
    return &Kernels<T>::lion_short_state;
}();
template <class T>
constexpr auto muon_lead_of_brief_state = [] {
  if constexpr (std::is_same_v<T, double>)
    return &Kernels<T>::muon_lead;
  else
    return &Kernels<T>::muon_lead_short_state;
}();

template <class T, class Entry, class Role>
void describe_adamw(KernelCall<T>& call, const TrialSizes& sizes, Entry entry, Role state) {
  using M = Math<T>;
  const std::int64_t length = sizes.elements;
  const AdamWFactors<M> first{M(0.5), M(0.99), M(0.9), M(0.95), M(0.125), M(0.3), M(1e-6)};
  const AdamWFactors<M> second{M(2), M(1), M(0.8), M(0.99), M(0.25), M(0.9), M(1e-8)};
  describe_elements_of(call, length);
  call(entry, stretches_of(length, first, second), length, weights_of(call, sizes, length),
       call.in(wide, "gradient", length), call.updated(state, "first", length, normal(0.5)),
       call.updated(state, "second", length, uniform(0.1, 1)));
}

/// Averages are large or small beside the gradient, so that rounding does not decide the sign of their sum.
Draw averages() {
  return [](const RandomStream& stream, std::uint64_t i) {
    const double size = 0.5 + 0.5 * stream.uniform(i);
    return (i % 2 == 0 ? size : -size) * (i / 2 % 2 == 0 ? 1 : 1.0 / 64);
  };
}
Draw lion_gradients() {
  return [](const RandomStream& stream, std::uint64_t i) {
    const double size = 1 + stream.uniform(i);
    return i / 4 % 2 == 0 ? size : -size;
  };
}

template <class T, class Entry, class Role>
void describe_lion(KernelCall<T>& call, const TrialSizes& sizes, Entry entry, Role state) {
  using M = Math<T>;
  const std::int64_t length = sizes.elements;
  const LionFactors<M> first{M(1), M(0.125), M(0.99), M(0.9), M(0.99)}, second{M(0.5), M(0.25), M(1), M(0.9), M(0.95)};
  describe_elements_of(call, length);
  call(entry, stretches_of(length, first, second), length, weights_of(call, sizes, length),
       call.in(wide, "gradient", length, lion_gradients()), call.updated(state, "average", length, averages()));
}

template <class T, class Entry, class Role>
void describe_muon_lead(KernelCall<T>& call, const TrialSizes& sizes, Entry entry, Role state) {
  using M = Math<T>;
  const std::int64_t length = sizes.elements;
  const bool looks_ahead = sizes.variant == 0, keeps = sizes.variant < 2;
  describe_elements_of(call, length, looks_ahead ? " Nesterov" : keeps ? "" : " without momentum");
  call(entry, length, M(0.5), M(keeps ? 0.75 : 0), looks_ahead, call.in(wide, "gradient", length),
       keeps ? call.updated(state, "average", length) : nullptr, call.out(wide, "directions", length));
}

/// A matrix of about that many elements, with as many columns as the model has channels.
Extent matrix_of(const TrialSizes& sizes) {
  return {std::max<std::int64_t>(1, sizes.elements / sizes.model.channels), sizes.model.channels};
}

/// The three passes of Adafactor.
enum class AdafactorStage { sums, means, follow };

/// A pass over a matrix whose second moments are kept by rows and columns, or, as the second variant, over a vector.
template <class T>
AdafactorPass<Math<T>> adafactor_pass(KernelCall<T>& call, const TrialSizes& sizes, AdafactorStage stage) {
  using M = Math<T>;
  const bool factored = sizes.variant == 0;
  const Extent matrix = matrix_of(sizes);
  const std::int64_t rows = factored ? matrix.rows : 1, columns = factored ? matrix.columns : sizes.elements;
  const std::int64_t count = rows * columns, factors = factored ? rows + columns : columns;
  const std::int64_t first_sums = factored ? rows + columns + 1 : 2;
  AdafactorPass<M> pass{.parts = {AdafactorPart{.matrix = factored ? Shape{rows, columns} : Shape{columns},
                                                .rows = rows,
                                                .columns = columns,
                                                .runs = {{0, 0, columns}},
                                                .sums_a_matrix = first_sums,
                                                .toward = 0.25,
                                                .eps = 1e-6,
                                                .least_scale = 1e-3,
                                                .clip = 1,
                                                .rate = 0.125,
                                                .decay = 0.01,
                                                .momentum = 0.5,
                                                .scales = true}},
                        .factored = factored,
                        .scale = M(0.5),
                        .gradient = call.in(wide, "gradient", count)};
  // Kernels read these through pointers that could write.
  const auto read = [&](auto role, std::string_view name, std::int64_t length, const Fill& fill) {
    const auto* const values = call.in(role, name, length, fill);
    return const_cast<std::remove_const_t<std::remove_pointer_t<decltype(values)>>*>(values);
  };
  const Draw squares = uniform(0.5, 1);
  const bool follows_squares = stage == (factored ? AdafactorStage::means : AdafactorStage::sums);
  const std::string_view squaring = factored ? "adafactor_means" : "adafactor_sums";
  describe_elements_of(call, count, factored ? " factored" : "");
  pass.first = stage == AdafactorStage::sums
                   ? call.updated(real, "first", first_sums, constant(0))
                   : read(real, "first", first_sums, result_of("adafactor_sums", uniform(1, 9)));
  if (follows_squares) {
    pass.states[0] = call.updated(wide, "squares", factored ? rows : columns, squares);
    if (factored) pass.states[1] = call.updated(wide, "squares of columns", columns, squares);
    pass.factors = call.out(wide, "factors", factors);
    if (factored) pass.second = call.updated(real, "second", 1, constant(0));
  }
  if (stage == AdafactorStage::sums) {
    pass.weights.master = read(wide, "weights", count, normal());
  } else if (stage == AdafactorStage::follow) {
    pass.factors = read(wide, "factors", factors, result_of(squaring, squares));
    if (factored) pass.second = read(real, "second", 1, result_of(squaring, uniform(1, 9)));
    pass.states[factored ? 2 : 1] = call.updated(wide, "averages", count, normal());
    pass.weights = weights_of(call, sizes, count);
  }
  return pass;
}

}  // namespace

std::vector<Trial> update_trials() {
  return {
      make_trial("adamw",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   describe_adamw(call, sizes, &Kernels<T>::adamw, wide);
                 }),
      make_trial("adamw_short_state",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   describe_adamw(call, sizes, adamw_of_brief_state<T>, brief);
                 }),
      make_trial("lion", []<class T>(KernelCall<T>& call,
                                     const TrialSizes& sizes) { describe_lion(call, sizes, &Kernels<T>::lion, wide); }),
      make_trial("lion_short_state",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   describe_lion(call, sizes, lion_of_brief_state<T>, brief);
                 }),
      make_trial(
          "sgd",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            using M = Math<T>;
            const std::int64_t length = sizes.elements;
            const bool keeps = sizes.variant == 0;
            const SgdFactors<M> first{M(0.5), M(0.125), M(0.1), M(keeps ? 0.9 : 0), keeps};
            const SgdFactors<M> second{M(1), M(0.25), M(0), M(keeps ? 0.5 : 0), false};
            describe_elements_of(call, length, keeps ? " momentum" : "");
            call(&Kernels<T>::sgd, stretches_of(length, first, second), length, weights_of(call, sizes, length),
                 call.in(wide, "gradient", length), keeps ? call.updated(wide, "buffer", length) : nullptr);
          },
          variants<2>),
      make_trial(
          "muon_lead",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            describe_muon_lead(call, sizes, &Kernels<T>::muon_lead, wide);
          },
          variants<3>),
      make_trial(
          "muon_lead_short_state",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            describe_muon_lead(call, sizes, muon_lead_of_brief_state<T>, brief);
          },
          variants<2>),
      make_trial("orthogonalise",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   constexpr std::int64_t steps = 5;
                   const Extent matrix = matrix_of(sizes);
                   const bool rounds = sizes.brief_products && call.tested() != Number::fp64;
                   const auto least = static_cast<double>(std::min(matrix.rows, matrix.columns)),
                              most = static_cast<double>(std::max(matrix.rows, matrix.columns));
                   call.facts.shape = fmt::format("{}x{}", matrix.rows, matrix.columns);
                   call.facts.flops = steps * (4 * least * least * most + 2 * least * least * least);
                   call.facts.terms = matrix.columns;
                   call.facts.multiplies = true;
                   call.facts.slack = 16;
                   if (rounds) call.facts.within = Number::bf16;
                   const bool is_reference = std::is_same_v<T, double>;
                   call(&Kernels<T>::orthogonalise, call.updated(wide, "matrix", matrix), matrix.rows, matrix.columns,
                        steps, rounds && !is_reference ? IterationType::bf16 : IterationType::of_matrix);
                 }),
      make_trial("muon_follow",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   using M = Math<T>;
                   const std::int64_t before = sizes.has_odd_parts ? 5 : 0, length = sizes.elements;
                   describe_elements_of(call, length);
                   call(&Kernels<T>::muon_follow, before, length, M(0.9), M(0.125),
                        weights_of(call, sizes, before + length), call.in(wide, "directions", length));
                 }),
      make_trial(
          "adafactor_sums",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            call(&Kernels<T>::adafactor_sums, adafactor_pass(call, sizes, AdafactorStage::sums));
          },
          variants<2>),
      make_trial("adafactor_means",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   call(&Kernels<T>::adafactor_means, adafactor_pass(call, sizes, AdafactorStage::means));
                 }),
      make_trial(
          "adafactor_follow",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            call(&Kernels<T>::adafactor_follow, adafactor_pass(call, sizes, AdafactorStage::follow));
          },
          variants<2>),
  };
}

}  // namespace lockstep::trial
