// A run that goes on elsewhere: from each way to divide a step to each other one, on one to eight ranks, the state is
// the same to the bit, and the losses, samples and numbers of tokens are those of one rank that was never interrupted.
// A few of all pairs; with LOCKSTEP_TEST_ALL each of them, in fp64 and in fp32, for twenty steps. With
// LOCKSTEP_TEST_DEVICE each run goes on across devices: in fp64 from the CPU to the device of tests, in fp32 back; of
// all pairs a third do.
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/save.hpp"
#include "comm/together.hpp"
#include "config/reshard_config.hpp"
#include "config/train_config.hpp"
#include "device/device.hpp"
#include "harness/share.hpp"
#include "harness/test_device.hpp"
#include "programs.hpp"
#include "reshard/reshard.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/run_directory.hpp"
#include "train/resume_or_start.hpp"
#include "train/run_setup.hpp"
#include "train/train_job.hpp"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <thread>

BOOST_AUTO_TEST_SUITE(layout_changes)

using namespace lockstep;
using test::call;
using test::has_test_device;
using test::open_test_device;
using test::Workplace;
using test::world;

namespace {

struct Division {
  const char* name;
  int ranks;
  std::vector<std::string> options;
  const char* axes;  // as checkpoint-reshard is told of them
};

// No number of ranks but 2 and 3 divides what is shared out; eight leave some with nothing of a router.
const std::vector<Division>& divisions() {
  static const std::vector<Division> all{
      {"one rank", 1, {}, "dp_replicate=1"},
      {"DDP", 7, {}, "dp_replicate=7"},
      {"ZeRO-2", 5, {"--parallel.dp_shard", "5", "--parallel.zero", "2"}, "dp_shard=5"},
      {"ZeRO-3", 8, {"--parallel.dp_shard", "8"}, "dp_shard=8"},
      {"HSDP", 6, {"--parallel.dp_replicate", "2", "--parallel.dp_shard", "3"}, "dp_replicate=2,dp_shard=3"},
      {"TP", 4, {"--parallel.tp", "4", "--parallel.sequence_parallel", "true"}, "tp=4"},
      {"1F1B", 3, {"--parallel.pp", "3", "--parallel.micro_batches", "6"}, "pp=3"},
      {"ZBV", 2, {"--parallel.pp", "2", "--parallel.schedule", "zbv", "--parallel.micro_batches", "6"}, "pp=2"},
      {"Ulysses", 2, {"--parallel.ulysses", "2"}, "ulysses=2"},
      {"ring", 3, {"--parallel.ring", "3"}, "ring=3"},
      {"EP", 6, {"--parallel.ep", "3", "--parallel.dp_shard", "6"}, "dp_shard=6"},
      {"TP × ZeRO-3",
       6,
       {"--parallel.tp", "2", "--parallel.dp_shard", "3", "--parallel.sequence_parallel", "true"},
       "tp=2,dp_shard=3"},
      {"1F1B × DDP",
       4,
       {"--parallel.pp", "2", "--parallel.dp_replicate", "2", "--parallel.micro_batches", "3"},
       "pp=2,dp_replicate=2"},
  };
  return all;
}

// In fp32 the head's matrix is the embedding's.
constexpr const char* model = R"({{"model_type": "mixtral", "vocab_size": 257, "max_position_embeddings": 32,
  "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 12, "head_dim": 2, "num_key_value_heads": 2,
  "initializer_range": 0.2, "intermediate_size": 7, "tie_word_embeddings": {}, "num_local_experts": 3,
  "num_experts_per_tok": 2, "output_router_logits": true, "router_aux_loss_coef": 0.01}})";
constexpr int saved_at = 3;

enum class Place : std::uint8_t { cpu, device };

struct Kind {
  const char* dtype;
  double bound;         // of losses, relative
  Place before, after;  // where the first run and the one that goes on compute
};
constexpr Kind fp64{"fp64", 1e-9, Place::cpu, Place::device}, fp32{"fp32", 1e-5, Place::device, Place::cpu};

std::string model_of(const Kind& kind) { return fmt::format(fmt::runtime(model), kind.bound > fp64.bound); }

/// Of the pairs that lie five apart in the list, each other one: all divisions are left in one type, and entered in the
/// other.
bool is_wanted(const Kind& kind, int from, int to) {
  const int count = static_cast<int>(std::size(divisions()));
  if (test::all_cases()) return !has_test_device() || (from + 2 * to) % 3 == (kind.bound == fp64.bound ? 0 : 1);
  return (to - from + count) % count == 5 && (from % 2 == 0) == (kind.bound == fp64.bound);
}
int last_step() { return saved_at + (test::all_cases() ? 20 : 3); }

struct Step {
  double loss = 0, epoch = 0;
  std::int64_t tokens = 0;
};
using Steps = std::map<std::int64_t, Step>;

Steps steps_of(const Path& run) {
  Steps steps;
  for (const std::string& line : split(read_file(run / "records.jsonl"), '\n')) {
    if (line.empty()) continue;
    const Json record = parse_json(line, "a record");
    if (record.at("kind") != "step") continue;
    steps[record.at("step").get<std::int64_t>()] = {record.at("loss").get<double>(), record.at("epoch").get<double>(),
                                                    record.at("tokens").get<std::int64_t>()};
  }
  return steps;
}

/// Checked by rank 0: `got` has the steps from `first` on as one rank has them.
void check_steps(const Steps& got, const Steps& want, std::int64_t first, double bound, const std::string& what) {
  BOOST_TEST(!got.empty(), what);
  if (!got.empty()) BOOST_TEST(got.begin()->first == first, what);
  for (const auto& [number, step] : got) {
    const Step& one = want.at(number);
    BOOST_TEST(std::abs(step.loss - one.loss) <= bound * one.loss,
               what << ", step " << number << ": loss " << step.loss << " against " << one.loss);
    BOOST_TEST(step.tokens == one.tokens, what << ", step " << number);
    BOOST_TEST(step.epoch == one.epoch, what << ", step " << number);
  }
}

/// What train does with a checkpoint but for the steps: it is loaded, and saved at once.
int load_and_save(const TrainConfig& config, Session& session, Output& output) {
  Communicator& ranks = session.world();
  const Machines machines = set_up_machines(config, ranks);
  const TrainPlan plan = agree_on_plan(config, ranks);
  RunState state(config, plan, ranks.rank());
  state.fill(config, plan, world_of(plan, machines), {}, session, output.log());
  SaveRequest request{config.train.run_dir, state.train_state.step, world_of(plan, machines)};
  request.documents = {{"config.yaml", to_yaml(output.settings(), tool_of(config), PrintExtent::full)},
                       {"config.json", to_text(*plan.architecture.config.original)},
                       {"dataset", dataset_identity(plan.training)}};
  request.ranks_per_file = 1;
  Saver(ranks).save(state.components, request);
  return 0;
}

/// The first ranks of the world at work, while the others sleep.
class Campaign {
 public:
  explicit Campaign(const Path& folder) : folder_(folder) {
    open_test_device();
    if (has_test_device()) other_ = use_device(make_cpu());
  }

  /// The jobs that follow run on the CPU, or on the device of tests, if there is one. Local.
  void go_to(Place place) {
    if (!other_ || place == place_) return;
    other_ = use_device(std::move(other_));
    place_ = place;
  }
  void train_on(const Division& how, const Kind& kind, const Path& run, int steps) {
    on(how, [&](std::unique_ptr<Communicator> ranks) {
      return call<TrainConfig>(train, std::move(ranks), words(how, kind, run, steps));
    });
  }
  void load_and_save_on(const Division& how, const Kind& kind, const Path& checkpoint, const Path& run) {
    on(how, [&](std::unique_ptr<Communicator> ranks) {
      std::vector<std::string> arguments = words(how, kind, run, last_step());
      arguments.insert(arguments.end(), {"--checkpoint.resume", checkpoint.string()});
      return call<TrainConfig>(load_and_save, std::move(ranks), arguments);
    });
  }

 private:
  std::vector<std::string> words(const Division& how, const Kind& kind, const Path& run, int steps) const {
    std::vector<std::string> arguments{"--model.config",
                                       (run.parent_path() / "model.json").string(),
                                       "--data.path",
                                       (folder_ / "data").string(),
                                       "--data.sequence_length",
                                       "13",
                                       "--train.global_batch",
                                       "12",
                                       "--train.max_steps",
                                       fmt::to_string(steps),
                                       "--train.run_dir",
                                       run.string(),
                                       "--log.tensorboard",
                                       "false",
                                       "--log.every",
                                       "1",
                                       "--eval.at_end",
                                       "false",
                                       "--checkpoint.keep_last",
                                       "9",
                                       "--checkpoint.ranks_per_file",
                                       "1",
                                       "--schedule.name",
                                       "constant",
                                       "--optimizer.lr",
                                       "1e-3",
                                       "--optimizer.eps",
                                       "1e-4",
                                       "--precision.dtype",
                                       kind.dtype,
                                       "--train.device",
                                       "cpu"};  // none is opened: the device in use stays
    arguments.insert(arguments.end(), how.options.begin(), how.options.end());
    return arguments;
  }

  template <class Work>
  void on(const Division& how, const Work& work) {
    const bool mine = world().rank() < how.ranks;
    auto ranks = world().split(mine ? 0 : 1, "world");
    const Path done = folder_ / fmt::format("done-{}", ++jobs_);
    std::string failure;
    if (mine) {
      try {
        if (const int code = work(std::move(ranks)); code != 0) failure = fmt::format("ends with {}", code);
      } catch (const std::exception& error) {
        failure = error.what();
      }
      if (world().rank() == 0) publish_file(done, "");
    } else {
      while (!is_there(done)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    BOOST_TEST(failure.empty(), how.name << ": " << failure);
    MPI_REQUIRE(failure.empty());
  }

  Path folder_;
  int jobs_ = 0;
  Place place_ = Place::cpu;
  std::unique_ptr<Device> other_;  // not in use
};

/// Local.
void reshard(const Path& checkpoint, const Division& how, const Path& output) {
  const std::vector<std::string> arguments{checkpoint.string(), "--to", how.axes, "--output", output.string()};
  BOOST_TEST(call<ReshardConfig>(checkpoint_reshard, solo_communicator(), arguments) == 0);
}

std::string digest_of(const Path& checkpoint) { return to_hex(read_manifest(checkpoint).state_digest); }

/// The parts of a checkpoint, by their names.
std::map<std::string, std::string> parts_of(const Path& checkpoint) {
  std::map<std::string, std::string> parts;
  const CheckpointReader reader(checkpoint);
  for (const StoredFile& file : reader.manifest().files)
    if (file.path != index_file) parts[file.path] = read_file(checkpoint / file.path);
  return parts;
}

/// Collective over world(): rank 0 looks, and what it throws ends the case on all ranks.
void rank0_looks(const std::function<void()>& look) {
  together(world(), "look at what was written", [&] {
    if (world().rank() == 0) look();
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_goes_on_from_each_division_on_each_other_with_the_same_bits_and_losses, *test::ranks({8})) {
  const Workplace place("", 250);  // an epoch ends on the way
  test::prepare(place.path);
  Campaign campaign(place.path);
  const int count = static_cast<int>(std::size(divisions()));
  const auto division = [](int number) -> const Division& { return divisions()[static_cast<std::size_t>(number)]; };
  int pairs = 0;
  for (const Kind& kind : {fp64, fp32}) {
    const Path home = place.path / kind.dtype;
    rank0_looks([&] {
      make_folder(home);
      publish_file(home / "model.json", model_of(kind));
    });
    const auto run_from = [&](int from) { return home / fmt::format("from-{}", from); };
    Steps want;
    campaign.go_to(Place::cpu);
    campaign.train_on(division(0), kind, home / "whole", last_step());
    rank0_looks([&] { want = steps_of(home / "whole"); });
    campaign.go_to(kind.before);
    for (int from = 0; from < count; ++from) {
      campaign.train_on(division(from), kind, run_from(from), saved_at);
      rank0_looks([&] { check_steps(steps_of(run_from(from)), want, 1, kind.bound, division(from).name); });
    }
    for (int number = 0; number < count * count; ++number) {
      const int from = number / count, to = number % count;
      if (!is_wanted(kind, from, to)) continue;
      const std::string what = fmt::format("{} to {} in {}", division(from).name, division(to).name, kind.dtype);
      const Path saved = checkpoint_folder(run_from(from), saved_at);
      const Path run = home / "there", back = home / "back", resharded = home / "resharded", again = home / "again";
      rank0_looks([&] {
        reshard(saved, division(to), resharded);
        reshard(resharded, division(from), again);
        BOOST_TEST(digest_of(resharded) == digest_of(saved), what);
        BOOST_TEST(digest_of(again) == digest_of(saved), what);
        BOOST_TEST(verify_checkpoint(again, VerifyLevel::fingerprints).defects.empty(), what);
      });
      campaign.go_to(kind.after);
      campaign.load_and_save_on(division(to), kind, number % 2 == 0 ? saved : resharded, run);
      campaign.go_to(kind.before);
      campaign.load_and_save_on(division(from), kind, checkpoint_folder(run, saved_at), back);
      rank0_looks([&] {
        BOOST_TEST(digest_of(checkpoint_folder(run, saved_at)) == digest_of(saved), what);
        BOOST_TEST(verify_checkpoint(checkpoint_folder(run, saved_at), VerifyLevel::fingerprints).defects.empty(),
                   what);
        const bool same = parts_of(checkpoint_folder(back, saved_at)) == parts_of(saved);
        BOOST_TEST(same, what << ": a part differs when the state has come back");
      });
      campaign.go_to(kind.after);
      campaign.train_on(division(to), kind, run, last_step());
      rank0_looks([&] {
        check_steps(steps_of(run), want, saved_at + 1, kind.bound, what);
        for (const Path& path : {run, back, resharded, again}) remove_tree(path);
      });
      ++pairs;
    }
  }
  if (world().rank() == 0)
    std::cout << "# " << pairs << " pairs, of each " << last_step() - saved_at << " steps" << std::endl;
}

BOOST_AUTO_TEST_SUITE_END()
