// The bodies of the programs as functions, one after the other in one process a rank: text to a trained and inspected
// model.
#include "train/train_job.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "comm/together.hpp"
#include "config/command_line.hpp"
#include "data/prepare.hpp"
#include "harness/mpi_test.hpp"
#include "harness/temporary_folder.hpp"
#include "store/inspect.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <sstream>

BOOST_AUTO_TEST_SUITE(programs)

using namespace lockstep;
using test::world;

namespace {

constexpr std::string_view small_model = R"({"model_type": "gpt2", "vocab_size": 257, "n_embd": 12, "n_layer": 1,
  "n_head": 3, "n_positions": 16, "activation_function": "gelu_new", "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
  "layer_norm_epsilon": 1e-5, "initializer_range": 0.2, "tie_word_embeddings": true})";

/// A folder that rank 0 makes, fills and removes, known to all.
struct Workplace {
  std::optional<TemporaryFolder> own;
  Path path;
  Workplace() {
    path = rank0_tells(world(), "make a folder", [this] {
      own.emplace();
      std::string text;
      for (int i = 0; i < 400; ++i) text += fmt::format("line {} of a text\n", i * i);
      publish_file(own->path / "text.txt", text);
      publish_file(own->path / "model.json", small_model);
      return own->path.string();
    });
  }
  ~Workplace() { world().barrier(); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
};

/// Standard output goes nowhere as long as this lives: the harness reports there.
class Silence {
 public:
  Silence() : before_(::dup(STDOUT_FILENO)) {
    const FileDescriptor nowhere = open_file("/dev/null", O_WRONLY);
    ::dup2(nowhere.get(), STDOUT_FILENO);
  }
  ~Silence() {
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int before_;
};

/// What the program whose body is `body` returns for a command line. Collective over `ranks`.
template <class Config>
int call(const std::function<int(const Config&, Session&, Output&)>& body, std::unique_ptr<Communicator> ranks,
         const std::vector<std::string>& arguments) {
  const Silence silence;
  const auto line = parse_command_line<Config>(arguments);
  BOOST_TEST(!line.answer);
  Session session(std::move(ranks));
  Log log({.program = "test", .level = LogLevel::error});
  Output output(line.common, line.settings, log);
  return body(line.config, session, output);
}

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

void prepare(const Path& folder) {
  const std::vector<std::string> arguments{(folder / "text.txt").string(),
                                           "--output",
                                           (folder / "data").string(),
                                           "--data.tokenizer",
                                           "bytes",
                                           "--data.validation",
                                           "tail:0.1"};
  MPI_REQUIRE(call<PrepareConfig>(prepare_data, world().split(0, "world"), arguments) == 0);
}

/// The steps that checkpoint-inspect lists, "2 4".
std::string steps_of(const Path& run) {
  return rank0_tells(world(), "inspect", [&] {
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
  const Workplace place;
  prepare(place.path);
  MPI_REQUIRE(call_train(place.path, "run", 3) == 0);
  BOOST_TEST(steps_of(place.path / "run") == "2 3");
  MPI_REQUIRE(call_train(place.path, "run", 5) == 0);  // goes on where it was; the last two are kept
  BOOST_TEST(steps_of(place.path / "run") == "4 5");
}

LOCKSTEP_MPI_TEST(a_failure_of_the_last_rank_is_thrown_by_all, test::at_least(1)) {
  const Workplace place;
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
