// Trials of the routing of tokens to experts. Products of experts: trial/product_trials.cpp.
#include "trial/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::trial {

namespace {

/// The sizes of a routing and its common arguments. Each result is named as in the trial that makes it.
template <class T>
struct Routed {
  Routed(KernelCall<T>& call_of_trial, const TrialSizes& sizes)
      : call(call_of_trial),
        shape{sizes.rows, sizes.model.experts.count, sizes.model.experts.per_token, sizes.model.experts.normalised},
        of_rows(sizes.samples()),
        samples(sizes.sample_count()),
        channels(sizes.model.channels),
        rows(std::ranges::count_if(of_rows, [](std::int32_t sample) { return sample >= 0; }) * shape.per_token),
        by_expert{shape.tokens, shape.experts},
        by_choice{shape.tokens, shape.per_token} {
    call.facts.shape = fmt::format("{} to {} of {}", shape.tokens, shape.per_token, shape.experts);
  }
  const std::int32_t* chosen() const { return call.in(index32, "chosen", by_choice, result_of("route")); }
  const std::int32_t* row_samples() const { return call.in(index32, "samples of rows", shape.tokens, given(of_rows)); }
  const std::int32_t* places() const { return call.in(index32, "places", by_choice, result_of("group_by_expert")); }
  const Math<T>* weights() const { return call.in(wide, "weights", by_choice, result_of("route", uniform(0, 1))); }
  const Math<T>* probabilities() const {
    return call.in(wide, "probabilities", by_expert, result_of("route", uniform(0, 1)));
  }
  /// Rows of channels, for the kernels that move them.
  void moves_rows() const { call.facts.shape = fmt::format("{}x{} to {}", shape.tokens, channels, rows); }

  KernelCall<T>& call;
  RoutingShape shape;
  std::vector<std::int32_t> of_rows;
  std::int64_t samples, channels, rows;
  Extent by_expert, by_choice;
};

}  // namespace

std::vector<Trial> expert_trials() {
  return {
      make_trial(
          "route",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const Routed<T> of(call, sizes);
            const bool is_given = sizes.variant == 1;
            call.facts.terms = of.shape.experts;
            const auto given_choices = [&](const RandomStream&, std::uint64_t i) {
              return static_cast<double>(i % static_cast<std::uint64_t>(of.shape.per_token));
            };
            call(&Kernels<T>::route, call.in(wide, "logits", of.by_expert), of.shape,
                 is_given ? Choose::given : Choose::largest,
                 is_given ? call.updated(index32, "chosen", of.by_choice, Draw(given_choices))
                          : call.out(index32, "chosen", of.by_choice),
                 call.out(wide, "weights", of.by_choice), call.out(wide, "probabilities", of.by_expert));
          },
          variants<2>),
      make_trial("route_backward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   AuxSlopes<Math<T>> aux;
                   if (sizes.model.experts.aux_coefficient > 0)
                     aux = {of.row_samples(), call.in(wide, "slopes", {of.samples, of.shape.experts}, normal(0.1))};
                   call.facts.terms = of.shape.experts;
                   call(&Kernels<T>::route_backward, call.in(wide, "dweights", of.by_choice), of.weights(),
                        of.probabilities(), of.chosen(), aux, of.shape, call.out(stored, "dlogits", of.by_expert));
                 }),
      make_trial("count_choices",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   call(&Kernels<T>::count_choices, of.chosen(), of.row_samples(), of.shape,
                        call.updated(real, "counts", of.shape.experts, constant(5)));
                 }),
      make_trial("sum_by_sample",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   call.facts.terms = sizes.document;
                   call(&Kernels<T>::sum_by_sample, of.probabilities(), of.chosen(), of.row_samples(), of.shape,
                        of.samples, call.out(wide, "sums", {2 * of.samples, of.shape.experts}));
                 }),
      make_trial("aux_loss",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   call.facts.terms = of.samples * of.shape.experts;
                   call(&Kernels<T>::aux_loss,
                        call.in(wide, "sums", {2 * of.samples, of.shape.experts},
                                result_of("sum_by_sample", uniform(0, 9))),
                        of.samples, of.shape.experts, sizes.document, 0.25,
                        call.out(wide, "slopes", {of.samples, of.shape.experts}), call.out(real, "loss", 1));
                 }),
      make_trial("group_by_expert",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   call(&Kernels<T>::group_by_expert, of.chosen(), of.row_samples(), of.shape,
                        call.out(index64, "offsets", of.shape.experts + 1), call.out(index32, "places", of.by_choice));
                 }),
      make_trial("dispatch_rows",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   of.moves_rows();
                   call(&Kernels<T>::dispatch_rows, call.in(stored, "x", {of.shape.tokens, of.channels}), of.places(),
                        of.shape, of.channels, call.out(stored, "rows", {of.rows, of.channels}));
                 }),
      make_trial("dispatch_backward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   of.moves_rows();
                   call.facts.terms = of.shape.per_token;
                   call(&Kernels<T>::dispatch_backward, call.in(stored, "drows", {of.rows, of.channels}), of.places(),
                        of.shape, of.channels, call.out(stored, "dx", {of.shape.tokens, of.channels}));
                 }),
      make_trial(
          "combine_rows",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const Routed<T> of(call, sizes);
            of.moves_rows();
            const Extent tokens{of.shape.tokens, of.channels};
            const bool adds = sizes.variant == 0;
            if (!adds) call.facts.shape += " without residual";
            call.facts.terms = of.shape.per_token + 1;
            call(&Kernels<T>::combine_rows, adds ? call.in(wide, "residual", tokens) : nullptr,
                 call.in(stored, "rows", {of.rows, of.channels}), of.weights(), of.places(), of.shape, of.channels,
                 call.out(wide, "y", tokens));
          },
          variants<2>),
      make_trial("combine_backward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Routed<T> of(call, sizes);
                   of.moves_rows();
                   call.facts.terms = of.channels;
                   call(&Kernels<T>::combine_backward, call.in(wide, "dy", {of.shape.tokens, of.channels}),
                        call.in(stored, "rows", {of.rows, of.channels}), of.weights(), of.places(), of.shape,
                        of.channels, call.out(stored, "drows", {of.rows, of.channels}),
                        call.out(wide, "dweights", of.by_choice));
                 }),
  };
}

}  // namespace lockstep::trial
