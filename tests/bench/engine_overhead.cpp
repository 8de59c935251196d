// engine_overhead [ROUNDS]: what the engine itself costs for each action, on one rank, and prints the medians as one
// JSON line, in microseconds: of a step of 100,000 actions that compute nothing (dispatch and trace), and of filling
// and emptying as many slots.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "comm/communicator.hpp"
#include "engine/engine.hpp"
#include "engine/make_model_plan.hpp"
#include "exchange/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace lockstep;

namespace {

constexpr int actions = 100'000;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Microseconds an action of `work`, which does all of them.
template <class Work>
double measured(int rounds, Work&& work) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const double start_s = monotonic_seconds();
    work();
    times.push_back((monotonic_seconds() - start_s) * 1e6 / actions);
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  const Architecture architecture = describe(parse_hf_config(R"({"model_type": "gpt2", "vocab_size": 17, "n_embd": 8,
    "n_layer": 1, "n_head": 2, "n_positions": 16, "activation_function": "gelu_new", "attn_pdrop": 0, "embd_pdrop": 0,
    "resid_pdrop": 0, "layer_norm_epsilon": 1e-5, "initializer_range": 0.2, "tie_word_embeddings": true})",
                                                             "a model"));
  const OptimizerOptions options;
  const UnitTypes types = unit_types(Precision::fp32, states_of(options, DType::f32));
  Model model(architecture, Precision::fp32, types.states);
  const auto optimizer = make_optimizer(options, model.parameters());
  Catalogue programs =
      make_catalogue(make_mesh("world", {{"dp_replicate", 1}}), plan_of(architecture, types, {1, 4}),
                     {.micro_batches = 1, .update = {.clips = true, .heartbeat_bytes = heartbeat_bytes}});
  RankClass& list = programs.train.classes.front();
  const auto clip = std::ranges::find(list.actions, Op::clip, &Action::op);

  Action empty = *clip;
  empty.waits.clear();
  list.actions.assign(actions, empty);
  programs.train.micro_batches = 0;

  Session session(solo_communicator());
  Transport transport = make_transport(session, programs);
  Engine engine(model, *optimizer, programs, session, transport, 1.0);
  StepBatch batch;
  std::int64_t step = 0;
  const double dispatch_us =
      measured(rounds, [&] { engine.run_step(batch, {.step = step++, .valid_tokens = 1, .failure = nullptr}); });
  invariant(std::ranges::count(engine.trace(), TraceEntry::Event::computed, &TraceEntry::event) == actions,
            "every action was carried out");

  RankClass holder;
  for (int i = 0; i < actions; ++i) holder.slots.push_back({SlotKind::boundary, boundary_subject(1), i, 64});
  for (int i = 0; i < actions; ++i) {
    Action& action = holder.actions.emplace_back(empty);
    action.slots.acquires = action.slots.releases = {i};
  }
  const SlotIndex index(holder);
  const at::Tensor memory = model.units().front()->master();
  TraceLog log;
  const double slots_us = measured(rounds, [&] {
    log.clear();
    SlotStore store(holder, index, log);
    for (int i = 0; i < actions; ++i) {
      store.acquire(i, {.input = {}, .value = memory});
      store.release(i);
    }
  });
  invariant(std::ssize(log.entries()) == 2 * actions, "every slot was filled and emptied");
  fmt::print("{}\n",
             to_text(Json{{"dispatch_us", dispatch_us}, {"slots_us", slots_us}, {"us", dispatch_us + slots_us}}));
  return 0;
}
