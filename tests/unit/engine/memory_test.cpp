// The memory plan against what the allocator counts while the engine runs the step.
#include "engine/engine.hpp"
#include "engine/make_model_plan.hpp"
#include "exchange/hf_config.hpp"
#include "harness/share.hpp"
#include "model/text_cache.hpp"
#include "program/memory_estimate.hpp"
#include "tensor/arena.hpp"
#include "tensor/functions/checked_function.hpp"
#include "tensor/gemm.hpp"
#include "tensor/live_memory.hpp"
#include "tensor/runtime.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <future>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(memory)

using namespace lockstep;

namespace {

struct Shape {
  std::string config;
  std::int64_t samples, length;
  int micro_batches = 1;
  double dropout = 0;  // where the config says nothing
};

Architecture described(const Shape& shape) {
  Architecture architecture = describe(parse_hf_config(shape.config, "test"));
  if (const double rate = shape.dropout; rate > 0)
    architecture.config.dropout = {.embedding = rate, .attention = rate, .residual = rate};
  return architecture;
}

/// Scratch memory that a plan counts in round numbers.
constexpr double in_round_numbers = 2 << 20;

/// Runs a job in a thread of its own, with which what products keep from one to the next is let go: each job counts it.
/// Each call of a function is compared with its description.
template <class Work>
void apart(const Work& work) {
  std::async(std::launch::async, [&] {
    set_up_runtime(1);
    compare_calls(true);
    work();
  }).get();
}

std::string gpt2(std::int64_t vocabulary, std::int64_t channels, std::int64_t layers, double dropout = 0) {
  return fmt::format(
      R"({{"model_type": "gpt2", "vocab_size": {}, "n_embd": {}, "n_layer": {}, "n_head": {}, "n_positions": 2048,
    "resid_pdrop": {}, "embd_pdrop": {}, "attn_pdrop": {}}})",
      vocabulary, channels, layers, channels / 64, dropout, dropout, dropout);
}

std::string llama(std::int64_t vocabulary, std::int64_t channels, std::int64_t feed_forward, std::int64_t layers) {
  return fmt::format(R"({{"model_type": "llama", "vocab_size": {}, "hidden_size": {}, "intermediate_size": {},
    "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "max_position_embeddings": 2048,
    "tie_word_embeddings": false}})",
                     vocabulary, channels, feed_forward, layers, channels / 64, channels / 128);
}

/// `more`: keys of the family.
std::string of_family(const std::string& family, const std::string& more, std::int64_t channels,
                      std::int64_t feed_forward, std::int64_t layers) {
  return fmt::format(R"({{"model_type": "{}", "vocab_size": 512, "hidden_size": {}, "intermediate_size": {},
    "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, {} }})",
                     family, channels, feed_forward, layers, channels / 64, channels / 128, more);
}

Batch made_batch(std::int64_t samples, std::int64_t length) {
  Batch batch;
  batch.samples = samples;
  batch.length = length;
  for (std::int64_t i = 0; i < samples * length; ++i) {
    if (i % length == 0) batch.numbers.push_back(i / length);
    if (i % length == 0) batch.documents.push_back(i);
    batch.tokens.push_back(static_cast<std::int32_t>(i % 31));
    batch.labels.push_back(static_cast<std::int32_t>(i % 29));
    batch.positions.push_back(static_cast<std::int32_t>(i % length));
  }
  batch.documents.push_back(samples * length);
  batch.valid_tokens = samples * length;
  return batch;
}

struct Peaks {
  std::int64_t planned = 0, counted = 0, weights = 0;
  std::int64_t on_host_planned = 0, on_host_counted = 0;
  std::int64_t held = 0;  // of it, for the whole run
  std::string at;
};

OptimizerOptions plain_sgd() {
  OptimizerOptions options;
  options.name = OptimizerName::sgd;  // keeps nothing, so that activations weigh more
  return options;
}

struct Job {
  Job(const Shape& shape, Precision precision, RecomputePolicy recompute, bool in_backward = false,
      std::optional<DType> output = {}, const OptimizerOptions& options = plain_sgd(),
      const OffloadOptions& offload = {}, WeightMemory kept = WeightMemory::master,
      const std::optional<TextShape>& texts = {})
      : before(live_bytes()),
        host_before(live_bytes(Arena::host)),
        session(solo_communicator()),
        architecture(described(shape)),
        types(types_of(precision, options, output, kept)),
        model(architecture, precision, types.states, {}, {}, {}, unit_memory_of(offload, in_backward, kept)),
        optimizer(make_optimizer(options, model.parameters())),
        programs(make_catalogue(
            make_mesh("world", {{"dp_replicate", 1}}),
            plan_of(architecture, types, {shape.samples, shape.length}, {}, {.threads = 1, .multiplier = multiplier()}),
            {.micro_batches = shape.micro_batches,
             .eval_micro_batches = 1,
             .recompute = recompute,
             .update = {.clips = !in_backward,
                        .heartbeat_bytes = heartbeat_bytes_of(architecture.config),
                        .in_backward = in_backward},
             .offload = offload,
             .eval_reduction_bytes = heartbeat_bytes,
             .draw_bytes = texts ? draw_bytes_of(texts->texts) : 0},
            text_plans(texts))),
        transport(make_transport(session, programs)),
        engine(model, *optimizer, programs, session, transport, in_backward ? std::nullopt : std::optional(1.0)),
        batches(static_cast<std::size_t>(shape.micro_batches), made_batch(shape.samples, shape.length)) {
    model.set_output_type(scalar_type(types.handed_out()));
    for (const Parameter* parameter : model.parameters())
      weights += parameter->elements() * size_of(master_dtype(precision));
  }

  std::optional<TextPlans> text_plans(const std::optional<TextShape>& texts) const {
    if (!texts) return {};
    const Processor processor{.threads = 1, .multiplier = multiplier()};
    return TextPlans{plan_of(architecture, types, prompt_pass(*texts), {}, processor),
                     plan_of(architecture, types, token_pass(*texts), {}, processor)};
  }

  static UnitTypes types_of(Precision precision, const OptimizerOptions& options, std::optional<DType> output,
                            WeightMemory kept) {
    UnitTypes types = unit_types(precision, states_of(options, master_dtype(precision)));
    if (kept == WeightMemory::compute) types.only = types.compute;
    types.output = output;
    return types;
  }

  Peaks train() {
    reset_peak_live_bytes();
    engine.run_step({.step = 0, .micro_batches = batches, .valid_tokens = 0},
                    {.step = 0, .valid_tokens = 1, .lr = 1e-4, .failure = nullptr});
    return peaks(programs.train);
  }

  Peaks evaluate() {
    reset_peak_live_bytes();
    engine.evaluate({batches.front()}, 0);
    return peaks(programs.eval);
  }

  /// A pass over as many texts as there are places: of rows [first, first + count) of each.
  Peaks continue_texts(const TextShape& texts, ProgramPhase phase, std::int64_t first, std::int64_t count) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(first + count), 7);
    std::vector<TextRows> rows;
    for (std::int32_t slot = 0; slot < texts.texts; ++slot)
      rows.push_back({.slot = slot, .tokens = tokens, .first = first, .count = count});
    reset_peak_live_bytes();
    engine.continue_texts(pass_over(rows), phase, [](std::size_t, std::span<const double>) { return DrawnToken{}; }, 0);
    return peaks(phase == ProgramPhase::prompt ? programs.prompt : programs.token);
  }

  Peaks peaks(const StepProgram& program) const {
    const RankClass& ranks = program.class_of(0);
    const MemoryUse use = memory_of(ranks);
    std::int64_t held = 0;
    for (const auto& [kind, bytes] : use.bytes) held += lives_all_run(kind) ? bytes : 0;
    return {use.peak_bytes,
            peak_live_bytes() - before,
            weights,
            memory_of(ranks, Arena::host).peak_bytes,
            peak_live_bytes(Arena::host) - host_before,
            held,
            to_text(program, ranks.actions[static_cast<std::size_t>(use.peak_action)])};
  }

  std::int64_t before, host_before, weights = 0;
  Session session;
  Architecture architecture;
  UnitTypes types;
  Model model;
  std::unique_ptr<Optimizer> optimizer;
  Catalogue programs;
  Transport transport;
  Engine engine;
  std::vector<Batch> batches;
};

void check(const std::string& what, const Peaks& peaks) {
  const auto error = static_cast<double>(std::abs(peaks.planned - peaks.counted));
  const std::string text = fmt::format("{}: {} bytes planned, {} of them for the whole run, {} counted at most; {}",
                                       what, peaks.planned, peaks.held, peaks.counted, peaks.at);
  BOOST_TEST(peaks.on_host_planned == peaks.on_host_counted, text);
  BOOST_TEST(peaks.weights >= std::int64_t{64} << 20, text);
  BOOST_TEST(error < 0.05 * static_cast<double>(peaks.counted), text);
  BOOST_TEST(error < 0.05 * static_cast<double>(peaks.counted - peaks.held) + in_round_numbers, text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_planned_peak_of_a_step_is_the_counted_one) {
  set_up_runtime(1);
  const std::vector<std::pair<std::string, Shape>> shapes{
      {"gpt2, layers", {gpt2(512, 512, 6), 2, 64, 2}},
      {"gpt2 with dropout", {gpt2(512, 512, 6, 0.1), 2, 64, 2}},
      {"gpt2, vocabulary", {gpt2(40000, 512, 1), 2, 64}},
      {"llama, one long sample", {llama(512, 768, 4096, 2), 1, 256}},
      {"llama, vocabulary", {llama(32000, 384, 1024, 1), 1, 128}},
      {"qwen3 of the shape of llama", {of_family("qwen3", R"("head_dim": 96)", 768, 3072, 2), 1, 512}},
      {"mixtral", {of_family("mixtral", R"("num_local_experts": 4)", 512, 1024, 3), 1, 512}},
      {"mixtral with dropout", {of_family("mixtral", R"("num_local_experts": 4)", 512, 1024, 3), 1, 512, 1, 0.1}},
      {"mixtral, balanced",
       {of_family("mixtral", R"("num_local_experts": 4, "output_router_logits": true)", 512, 1024, 3), 1, 512}},
      {"qwen3_moe, many experts of which one has all rows",
       {of_family("qwen3_moe", R"("num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 192)", 768, 512,
                  2),
        1, 512}},
      {"qwen2_moe, a shared expert wider than those of a token",
       {of_family("qwen2_moe", R"("num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 192,
                                  "shared_expert_intermediate_size": 1536)",
                  768, 512, 3),
        1, 512}},
      {"mistral of the shape of llama", {of_family("mistral", R"("sliding_window": 100)", 768, 3072, 2), 1, 512}},
  };
  test::Share share(4);
  for (const auto& [name, shape] : shapes) {
    for (const auto& [precision, type] :
         {std::pair(Precision::fp32, "fp32"), {Precision::bf16, "bf16"}, {Precision::fp16, "fp16"}}) {
      for (const auto& [policy, recompute] :
           {std::pair(RecomputePolicy::none, "kept"), {RecomputePolicy::block, "recomputed"}}) {
        if (policy == RecomputePolicy::block && name.find("vocabulary") != std::string::npos) continue;  // one layer
        if (precision == Precision::fp16 && name.find("llama") != std::string::npos) continue;           // slow
        // In fp16 products of an expert's rows take less scratch memory than the plan, which knows none of their sizes.
        if (precision == Precision::fp16 && name.find("experts") != std::string::npos) continue;
        if (!share.takes()) continue;
        const std::string what = fmt::format("{}, {}, {}", name, type, recompute);
        apart([&] {
          Job job(shape, precision, policy);
          check(what, job.train());
          if (policy == RecomputePolicy::none) check(what + ", evaluation", job.evaluate());
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_planned_peak_of_a_pass_over_texts_is_the_counted_one) {
  set_up_runtime(1);
  const std::vector<std::pair<std::string, Shape>> shapes{
      {"gpt2, layers", {gpt2(512, 512, 6), 1, 8}},
      {"gpt2, vocabulary", {gpt2(40000, 512, 1), 1, 8}},
      {"llama", {llama(512, 768, 4096, 2), 1, 8}},
      {"mixtral", {of_family("mixtral", R"("num_local_experts": 4)", 512, 1024, 3), 1, 8}},
      {"mistral with a window", {of_family("mistral", R"("sliding_window": 100)", 768, 3072, 2), 1, 8}},
  };
  const TextShape texts{.texts = 3, .piece = 170, .positions = 400};
  for (const auto& [name, shape] : shapes)
    for (const auto& [precision, type] : {std::pair(Precision::fp32, "fp32"), {Precision::bf16, "bf16"}})
      apart([&] {
        Job job(shape, precision, RecomputePolicy::none, false, {}, plain_sgd(), {}, WeightMemory::master, texts);
        const TextCache cache(job.model, texts);
        const std::string what = fmt::format("{}, {}", name, type);
        check(what + ", prompts", job.continue_texts(texts, ProgramPhase::prompt, 0, texts.piece));
        check(what + ", later prompts", job.continue_texts(texts, ProgramPhase::prompt, texts.piece, texts.piece));
        check(what + ", tokens", job.continue_texts(texts, ProgramPhase::token, texts.positions - 1, 1));
      });
}

BOOST_AUTO_TEST_CASE(what_is_kept_for_a_repetition_takes_the_memory_that_is_planned) {
  set_up_runtime(1);
  const std::vector<std::pair<std::string, Shape>> shapes{
      {"gpt2 with dropout", {gpt2(512, 512, 6, 0.1), 2, 64, 2}},
      {"llama", {llama(512, 512, 1408, 6), 2, 128}},
      {"qwen3", {of_family("qwen3", R"("head_dim": 96)", 768, 3072, 2), 1, 512}},
      {"mixtral", {of_family("mixtral", R"("num_local_experts": 4)", 512, 1024, 3), 1, 512}},
      {"qwen2_moe",
       {of_family("qwen2_moe", R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 384,
                                  "shared_expert_intermediate_size": 1536)",
                  768, 512, 3),
        1, 512}},
  };
  test::Share share(7);
  for (const auto& [name, shape] : shapes) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      for (const KeepSet keeps : {KeepSet{Keep::attention},
                                  {Keep::attention, Keep::projections},
                                  {Keep::mlp, Keep::experts},
                                  {Keep::projections, Keep::mlp},
                                  {Keep::attention, Keep::projections, Keep::mlp, Keep::experts}}) {
        if (!share.takes()) continue;
        const std::string what =
            fmt::format("{} {}, kept {}", name, precision == Precision::fp32 ? "fp32" : "bf16", keeps.text());
        apart([&] { check(what, Job(shape, precision, {1, keeps}).train()); });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(outputs_that_are_cast_take_the_memory_that_is_planned) {
  set_up_runtime(1);
  const Shape shape{llama(512, 512, 1408, 6), 2, 128};
  for (const RecomputePolicy& policy : {RecomputePolicy::none, RecomputePolicy::block}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      apart([&] {
        Job job(shape, precision, policy, false, DType::bf16);
        const std::string what = policy == RecomputePolicy::none ? "kept" : "recomputed";
        check("bf16 outputs, " + what, job.train());
        check("bf16 outputs, evaluation", job.evaluate());
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(weights_in_bf16_alone_take_two_bytes_each_as_planned) {
  set_up_runtime(1);
  const Shape shape{llama(512, 512, 1408, 6), 2, 128};
  OptimizerOptions options;
  options.kahan = true;
  for (const bool offloaded : {false, true}) {
    const OffloadOptions offload{.optimizer = offloaded};
    std::int64_t both = 0;
    apart([&] { both = Job(shape, Precision::bf16, RecomputePolicy::none, false, {}, {}, offload).train().counted; });
    apart([&] {
      Job job(shape, Precision::bf16, RecomputePolicy::none, false, {}, options, offload, WeightMemory::compute);
      const Peaks alone = job.train();
      check("weights in bf16 alone", alone);
      // without the master, and with a compensation of half its size; that of two units where state is offloaded
      BOOST_TEST(alone.counted < both - alone.weights / 3);
      BOOST_TEST(job.model.units().front()->master().scalar_type() == at::kBFloat16);
    });
  }
}

BOOST_AUTO_TEST_CASE(an_optimizer_in_backward_takes_the_memory_of_one_gradient_as_planned) {
  set_up_runtime(1);
  const Shape shape{llama(512, 512, 1408, 6), 2, 128};
  const Peaks after = Job(shape, Precision::fp32, RecomputePolicy::block).train();
  const Peaks within = Job(shape, Precision::fp32, RecomputePolicy::block, true).train();
  check("updated in backward", within);
  BOOST_TEST(within.counted < after.counted - within.weights / 2);
}

BOOST_AUTO_TEST_CASE(an_offloaded_optimizer_leaves_the_state_of_two_units_on_the_device_as_planned) {
  set_up_runtime(1);
  const Shape shape{llama(512, 512, 1408, 6), 1, 32};
  for (const bool in_backward : {false, true}) {
    const Job kept(shape, Precision::fp32, RecomputePolicy::none, in_backward, {}, OptimizerOptions());
    Job offloaded(shape, Precision::fp32, RecomputePolicy::none, in_backward, {}, OptimizerOptions(),
                  {.optimizer = true});
    const Peaks peaks = offloaded.train();
    check("optimizer offloaded", peaks);
    BOOST_TEST(peaks.on_host_counted >= 2 * peaks.weights);
    BOOST_TEST(memory_of(kept.programs.train.class_of(0)).peak_bytes - peaks.counted > peaks.weights);
  }
}

BOOST_AUTO_TEST_CASE(offloaded_activations_leave_those_of_two_blocks_on_the_device_as_planned) {
  set_up_runtime(1);
  test::Share share(5);
  for (const std::string& config :
       {llama(512, 512, 1408, 6), gpt2(512, 512, 6), of_family("qwen3", R"("head_dim": 64)", 512, 1408, 6)}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      for (const RecomputePolicy& recompute : {RecomputePolicy::none, RecomputePolicy{3}}) {
        if (!share.takes()) continue;
        apart([&] {
          const Shape shape{config, 2, 256, 2};
          const Job kept(shape, precision, recompute);
          const std::int64_t without = memory_of(kept.programs.train.class_of(0)).peak_bytes;
          Job offloaded(shape, precision, recompute, false, {}, plain_sgd(), {.activations = true});
          const Peaks peaks = offloaded.train();
          check("activations offloaded", peaks);
          BOOST_TEST(peaks.on_host_counted > 0);
          BOOST_TEST(peaks.counted < without - peaks.on_host_counted / 2);
          BOOST_TEST(live_bytes(Arena::host) == offloaded.host_before);  // let go with the step
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(host_memory_has_a_limit_of_its_own_and_counts_what_is_let_go) {
  const std::int64_t before = live_bytes(Arena::host), device = live_bytes();
  limit_host_memory(before + (3 << 20));
  {
    const at::Tensor first = empty_in(Arena::host, 2 << 20, at::kByte);
    BOOST_TEST(live_bytes(Arena::host) == before + (2 << 20));
    BOOST_CHECK_EXCEPTION(empty_in(Arena::host, 2 << 20, at::kByte), Error, [](const Error& error) {
      return error.code() == ExitCode::resources &&
             std::string(error.what()).find("cannot take 2.0 MiB of host memory: ") != std::string::npos;
    });
  }
  BOOST_TEST(live_bytes(Arena::host) == before);
  BOOST_TEST(live_bytes() == device);
  limit_host_memory(0);
}

BOOST_AUTO_TEST_CASE(the_less_blocks_are_recomputed_the_more_memory_a_step_takes_as_planned) {
  set_up_runtime(1);
  std::int64_t before = 0;
  for (const int every : {1, 2, 3, 0}) {  // of 6 layers 6, 3, 2, none
    Job job({llama(512, 512, 1408, 6), 2, 128}, Precision::fp32, {every});
    const Peaks peaks = job.train();
    check(fmt::format("recomputed every {}", every), peaks);
    BOOST_TEST(peaks.counted > before);
    before = peaks.counted;
  }
}

BOOST_AUTO_TEST_SUITE_END()
