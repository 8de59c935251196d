#include "reshard/reshard.hpp"

#include "base/json.hpp"
#include "comm/failure.hpp"
#include "harness/mpi_test.hpp"
#include "harness/shared_folder.hpp"
#include "harness/test_job.hpp"
#include "store/run_directory.hpp"

#include <map>

BOOST_AUTO_TEST_SUITE(reshard_on_ranks)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// All files of a checkpoint; of the manifest what does not say who made it and when.
std::map<std::string, std::string> bytes_of_files(const Path& checkpoint) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoint))
    if (entry.is_regular_file()) files[entry.path().lexically_relative(checkpoint).string()] = read_file(entry.path());
  Json manifest = parse_json(files.at("MANIFEST.json"), "manifest");
  for (const char* const own : {"uuid", "created", "hash"}) BOOST_TEST(manifest.erase(own) == 1, own);
  files["MANIFEST.json"] = to_text(manifest);
  return files;
}

/// A checkpoint of all ranks whose tensors have several pieces: of blocks, of one row, in two views, of few bytes.
Path save_large(const Path& run) {
  const World world = single_axis_world(test::world().size());
  const auto whole = [&](Shape shape, DType dtype) { return replicated(std::move(shape), dtype, world.mesh); };
  Job job(world, test::world().rank(),
          {{"rows", whole({1100, 1000}, DType::f32)},
           {"row", whole({1, 900000}, DType::f64)},
           {"moments", whole({700, 600}, DType::bf16)},
           {"few", whole({5}, DType::i64)},
           {"none", whole({0, 3}, DType::f32)}});
  job.advance_to(3);
  save(test::world(), job.components(), job.request(run));
  return checkpoint_folder(run, 3);
}

ReshardConfig config_of(const char* target) {
  ReshardConfig config;
  config.to = ReshardTarget::parse(target);
  return config;
}

void reshard_by(Session& session, const Path& from, const ReshardConfig& config, const Path& to,
                std::uint64_t memory = std::uint64_t{1} << 30) {
  const auto source = open_checkpoint_source(from);
  reshard(session, *source, plan_reshard(*source, config), to, memory);
}

}  // namespace

LOCKSTEP_MPI_TEST(any_number_of_ranks_writes_the_bytes_of_one, at_least(1)) {
  const SharedFolder folder;
  const Path source = save_large(folder.path / "run");
  std::vector<ReshardConfig> configs{config_of("parts=1"),
                                     config_of("parts=3"),
                                     config_of("dp_shard=4,parts=2"),
                                     config_of("dp_shard=2,dp_replicate=3"),
                                     config_of("parts=2"),
                                     config_of("parts=1")};
  configs[2].cast = CastDtype::bf16;
  configs[4].only = {NamePattern::parse("model")};
  configs[4].skip = {NamePattern::parse("moments")};
  configs[5].cast = CastDtype::fp64;
  Session session(world().split(0, "all"));
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const Path many = folder.path / fmt::format("many-{}", i), one = folder.path / fmt::format("one-{}", i);
    const std::uint64_t memory = i == 2 ? 1 : std::uint64_t{1} << 30;  // all in rows, or nothing
    reshard_by(session, source, configs[i], many, memory);
    if (world().rank() != 0) continue;
    Session alone(solo_communicator());
    reshard_by(alone, source, configs[i], one, memory);
    const auto want = bytes_of_files(one), have = bytes_of_files(many);
    for (const auto& [name, bytes] : want) BOOST_TEST((have.contains(name) && have.at(name) == bytes), name);
    BOOST_TEST(have.size() == want.size());
  }
}

LOCKSTEP_MPI_TEST(a_rank_that_fails_in_any_phase_ends_all_with_its_error_and_nothing_is_left, at_least(1)) {
  const SharedFolder folder;
  const Path source = save_large(folder.path / "run");
  const Path target = folder.path / "out/new";
  for (const Phase phase : {Phase::save_stage, Phase::save_write, Phase::save_seal, Phase::save_commit}) {
    for (int victim = 0; victim < world().size(); ++victim) {
      if (victim > 0 && phase == Phase::save_stage) continue;  // rank 0 works alone after all have entered
      Session session(world().split(0, "all"));
      session.configure({.watchdog_s = 0, .injection = Injection{.rank = victim, .phase = phase, .code = 4}});
      std::string message;
      try {
        reshard_by(session, source, config_of("parts=3"), target);
      } catch (const AgreedError& error) {
        message = error.what();
        BOOST_TEST((error.code() == ExitCode::storage));
        BOOST_TEST(error.owner() == victim);
      }
      BOOST_TEST(message.find("injected") != std::string::npos, message);
      world().barrier();
      if (world().rank() == 0 && is_there(target.parent_path()))
        for (const Path& left : list_folder(target.parent_path()))
          BOOST_TEST(left.filename().string().ends_with(".lock"), left.string());
      world().barrier();
    }
  }
}

LOCKSTEP_MPI_TEST(a_request_to_stop_that_one_rank_gets_ends_all_and_nothing_is_left, at_least(1)) {
  const SharedFolder folder;
  const Path source = save_large(folder.path / "run");
  Session session(world().split(0, "all"));
  if (world().rank() == world().size() - 1) session.request_stop(StopLevel::after_step);
  std::string message;
  try {
    reshard_by(session, source, config_of("parts=2"), folder.path / "new");
  } catch (const AgreedError& error) {
    message = error.what();
    BOOST_TEST((error.code() == ExitCode::verdict));
  }
  BOOST_TEST(message.find("stopped on request: nothing is written") != std::string::npos, message);
  BOOST_TEST(!is_there(folder.path / "new"));
}

LOCKSTEP_MPI_TEST(damage_that_one_rank_reads_ends_all_with_the_code_of_one_process, at_least(1)) {
  const SharedFolder folder;
  const Path source = save_large(folder.path / "run");
  if (world().rank() == 0) {  // in the last bytes of a piece of some part
    const Path part = source / "replicated/part-0000.h5";
    std::string bytes = read_file(part);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    publish_file(part, bytes);
  }
  world().barrier();
  Session session(world().split(0, "all"));
  std::string message;
  try {
    reshard_by(session, source, config_of("parts=1"), folder.path / "new");
  } catch (const AgreedError& error) {
    message = error.what();
    BOOST_TEST((error.code() == ExitCode::input));
  }
  BOOST_TEST(message.find("does not match its hash") != std::string::npos, message);
  BOOST_TEST(!is_there(folder.path / "new"));
}

BOOST_AUTO_TEST_SUITE_END()
