// A model that no rank could hold whole: it is made, initialised and loaded by boxes under a memory limit, and a rank
// that has no memory for gathered weights says so.
#include "base/error.hpp"
#include "engine/engine.hpp"
#include "engine/make_model_plan.hpp"
#include "harness/mpi_test.hpp"
#include "harness/tiny_models.hpp"
#include "program/batch_plan.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(start)

using namespace lockstep;

namespace {

constexpr std::int64_t mebi = 1 << 20;

/// 17 million parameters: with gradient and moments 256 MiB in fp32.
Architecture large() {
  return test::tiny_llama({.vocabulary = 64,
                           .width = 512,
                           .layers = 4,
                           .heads = 8,
                           .initial = 0.02,
                           .intermediate = 2048,
                           .key_value_heads = 8});
}

/// AddressSanitizer takes much memory for itself: what a limit does to the model cannot be told under it.
#ifdef __SANITIZE_ADDRESS__
constexpr bool can_limit_memory = false;
#else
constexpr bool can_limit_memory = true;
#endif

/// While it lives, this process may have so much more memory of its own than it had, if that can be limited.
class MoreMemory {
 public:
  explicit MoreMemory(std::int64_t bytes) {
    ::getrlimit(RLIMIT_DATA, &before_);
    if (!can_limit_memory) return;
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(own_bytes() + bytes);
    BOOST_REQUIRE(::setrlimit(RLIMIT_DATA, &limit) == 0);
  }
  ~MoreMemory() { ::setrlimit(RLIMIT_DATA, &before_); }
  MoreMemory(const MoreMemory&) = delete;
  MoreMemory& operator=(const MoreMemory&) = delete;

 private:
  static std::int64_t own_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      std::int64_t kibi = 0;
      if (word == "VmData:" && status >> kibi) return kibi * 1024;
    }
    return 0;
  }
  rlimit before_{};
};

/// Weights whose element i is i mod 251; counts what is read.
class Source : public TensorSource {
 public:
  explicit Source(const Architecture& architecture) {
    for (const LogicalTensor& tensor : stored_tensors(architecture))
      tensors_.push_back({tensor.name, tensor.shape, DType::f32});
  }
  const std::vector<TensorDescription>& list() const override { return tensors_; }
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    const TensorDescription& tensor = find_tensor(*this, name);
    const std::int64_t row = elements(tensor.shape) / tensor.shape[0], first = box.begin[0] * row;
    BOOST_REQUIRE(std::ssize(out) == elements(box) * 4);
    for (std::int64_t i = 0; i < elements(box); ++i) {
      const auto value = static_cast<float>((first + i) % 251);
      std::memcpy(out.data() + i * 4, &value, 4);
    }
    elements_read += elements(box);
  }
  mutable std::int64_t elements_read = 0;

 private:
  std::vector<TensorDescription> tensors_;
};

const UpdateStates moments{{{"exp_avg", DType::f32}, {"exp_avg_sq", DType::f32}}};

ShardPlace place_of(int ranks, Rank rank) {
  return {make_mesh("world", {{"dp_shard", ranks}}), {{"dp_shard"}, ranks}, rank};
}

}  // namespace

LOCKSTEP_MPI_TEST(a_model_starts_where_no_rank_could_hold_it_whole, test::at_least(2)) {
  const Architecture architecture = large();
  const int ranks = test::world().size();
  Model(test::tiny_gpt2({.vocabulary = 8, .positions = 4, .width = 4, .layers = 1}),
        Precision::fp32)
      .initialise(1);                                 // threads have their stacks
  const MoreMemory limit((320 / ranks + 64) * mebi);  // memory is taken in steps of a quarter
  {
    Model model(architecture, Precision::fp32, moments, {}, place_of(ranks, test::world().rank()));
    model.initialise(7);
    const Source source(architecture);
    model.load(source);
    std::int64_t own = 0;
    bool right = true;
    for (const Parameter* parameter : model.parameters()) {
      own += parameter->shard_elements();
      const std::int64_t row = parameter->elements() / parameter->shape()[0];
      const std::int64_t first = parameter->box().begin[0] * row;
      const float* values = parameter->master().const_data_ptr<float>();
      for (std::int64_t i = 0; i < parameter->shard_elements(); ++i)
        right = right && values[i] == static_cast<float>((first + i) % 251);
    }
    BOOST_TEST(right);
    BOOST_TEST(source.elements_read == own);
  }
  if (!can_limit_memory) return;
  BOOST_CHECK_EXCEPTION(Model(architecture, Precision::fp32, moments), Error,
                        [](const Error& error) { return error.code() == ExitCode::resources; });
}

LOCKSTEP_MPI_TEST(a_rank_without_memory_for_gathered_weights_says_of_which_unit, test::at_least(2)) {
  const Architecture architecture = large();
  const int ranks = test::world().size();
  Session session(test::world().split(0, "world"));
  const ShardPlace place = place_of(ranks, session.world().rank());
  const UnitTypes types{DType::f32, DType::f32, moments};
  ProgramOptions options;
  options.update.heartbeat_bytes = heartbeat_bytes;
  const Buckets all_in_one{.bytes = std::int64_t{1} << 40};
  const Catalogue programs =
      make_catalogue(place.mesh, plan_of(architecture, types, {1, 4}, all_in_one, {}, place.sharding), options);
  Model model(architecture, Precision::fp32, moments, all_in_one, place);
  model.initialise(7);
  OptimizerOptions adamw;
  const auto optimizer = make_optimizer(adamw, model.parameters());
  Transport transport = make_transport(session, programs);
  Engine engine(model, *optimizer, programs, session, transport, {});
  Batch batch;
  batch.samples = 1;
  batch.length = 4;
  batch.tokens = batch.labels = batch.positions = {0, 1, 2, 3};
  batch.documents = {0, 4};
  batch.valid_tokens = 4;
  const auto step = [&] {
    engine.run_step({.step = 0, .micro_batches = {batch}, .valid_tokens = 0},
                    {.step = 0, .valid_tokens = 4 * ranks, .lr = 1e-3, .failure = nullptr});
  };
  if (!can_limit_memory) return step();
  const MoreMemory limit(16 * mebi);
  BOOST_CHECK_EXCEPTION(step(), Error, [](const Error& error) {
    return error.code() == ExitCode::resources &&
           std::string(error.what()).find("for the gathered weights of unit embedding..head: out of memory") !=
               std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
