// The bodies of the programs as functions, one after the other in one process a rank: text to a trained and inspected
// model.
#include "train/train_job.hpp"

#include "base/error.hpp"
#include "comm/together.hpp"
#include "programs.hpp"
#include "store/inspect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

BOOST_AUTO_TEST_SUITE(programs)

using namespace lockstep;
using test::call;
using test::prepare;
using test::Workplace;
using test::world;

namespace {

constexpr std::string_view small_model = R"({"model_type": "gpt2", "vocab_size": 257, "n_embd": 12, "n_layer": 1,
  "n_head": 3, "n_positions": 16, "activation_function": "gelu_new", "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
  "layer_norm_epsilon": 1e-5, "initializer_range": 0.2, "tie_word_embeddings": true})";

int call_train(const Path& folder, const std::string& run, int steps, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"--model.config",
                                     (folder / "model.json").string(),
                                     "--data.path",
                                     (folder / "data").string(),
                                     "--data.sequence_length",
                                     "8",
                                     "--train.global_batch",
                                     "8",
                                     "--train.max_steps",
                                     fmt::to_string(steps),
                                     "--train.run_dir",
                                     (folder / run).string(),
                                     "--log.tensorboard",
                                     "false",
                                     "--checkpoint.every",
                                     "2",
                                     "--schedule.name",
                                     "constant"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return call<TrainConfig>(train, world().split(0, "world"), arguments);
}

/// The steps that checkpoint-inspect lists, "2 4".
std::string steps_of(const Path& run) {
  return run_on_rank0(world(), "inspect", [&] {
    InspectConfig config;
    config.subjects = {run.string()};
    std::istringstream lines(inspect(config).text);
    std::vector<int> steps;
    for (std::string line; std::getline(lines, line);)
      if (int step = 0; std::istringstream(line) >> step) steps.push_back(step);
    return fmt::format("{}", fmt::join(steps, " "));
  });
}

}  // namespace

LOCKSTEP_MPI_TEST(text_becomes_a_trained_model_in_one_process, test::at_least(1)) {
  const Workplace place(small_model);
  prepare(place.path);
  MPI_REQUIRE(call_train(place.path, "run", 3) == 0);
  BOOST_TEST(steps_of(place.path / "run") == "2 3");
  MPI_REQUIRE(call_train(place.path, "run", 5) == 0);  // goes on where it was; the last two are kept
  BOOST_TEST(steps_of(place.path / "run") == "4 5");
}

LOCKSTEP_MPI_TEST(a_failure_of_the_last_rank_is_thrown_by_all, test::at_least(1)) {
  const Workplace place(small_model);
  prepare(place.path);
  const std::string failure = fmt::format("rank={},phase=backward,step=3,kind=throw", world().size() - 1);
  BOOST_CHECK_EXCEPTION(call_train(place.path, "run", 5, {"--train.inject", failure}), Error, [](const Error& error) {
    return std::string(error.what()).find("injected") != std::string::npos;
  });
  world().barrier();
  BOOST_TEST(steps_of(place.path / "run") == "2");
  MPI_REQUIRE(call_train(place.path, "run", 5) == 0);
  BOOST_TEST(steps_of(place.path / "run") == "4 5");
}

BOOST_AUTO_TEST_SUITE_END()
