#include "base/error.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(save_and_load)

namespace {

struct Shape4 {
  std::vector<std::pair<AxisName, int>> axes;
  std::vector<AxisName> equal_along = {};
};

const std::vector<Shape4> meshes{
    {{{"dp_replicate", 1}}, {"dp_replicate"}},
    {{{"dp_replicate", 3}}, {"dp_replicate"}},
    {{{"dp_replicate", 2}, {"dp_shard", 2}}, {"dp_replicate"}},
    {{{"dp_replicate", 1}, {"dp_shard", 7}}, {"dp_replicate"}},
    {{{"pp", 2}, {"dp_replicate", 2}, {"tp", 2}}, {"dp_replicate"}},
    {{{"pp", 3}, {"dp_replicate", 1}, {"dp_shard", 2}, {"tp", 1}}, {"dp_replicate"}},
};

Job job_on(const Shape4& shape, Rank rank) {
  const Mesh mesh = make_mesh("world", shape.axes);
  return {{mesh, {}}, rank, sharded_model(mesh), Pattern::per_group, shape.equal_along};
}

std::string message_of(const std::exception_ptr& problem, ExitCode code) {
  BOOST_REQUIRE(problem);
  try {
    std::rethrow_exception(problem);
  } catch (const Error& error) {
    BOOST_TEST((error.code() == code));
    return error.what();
  }
  return {};
}

bool says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) BOOST_TEST_MESSAGE("'" << text << "' does not say '" << part << "'");
  return found;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_any_layout_saves_any_other_loads_bit_for_bit_with_one_digest, TemporaryFolder) {
  std::vector<Hash128> digests;
  for (std::size_t from = 0; from < meshes.size(); ++from) {
    const Path run = path / fmt::format("run-{}", from);
    const int writers = world_size(make_mesh("world", meshes[from].axes));
    std::vector<Hash128> digest(static_cast<std::size_t>(writers));
    on_ranks(writers, [&](Communicator& ranks) {
      Job job = job_on(meshes[from], ranks.rank());
      job.advance_to(7);
      SaveRequest request = job.request(run);
      request.ranks_per_file = from % 2 == 0 ? 1 : 2;
      digest[static_cast<std::size_t>(ranks.rank())] = save(ranks, job.components(), request).state_digest;
    });
    digests.insert(digests.end(), digest.begin(), digest.end());
    BOOST_TEST(verify_checkpoint(checkpoint_folder(run, 7), VerifyLevel::fingerprints).defects.empty());
    for (const Shape4& to : meshes) {
      on_ranks(world_size(make_mesh("world", to.axes)), [&](Communicator& ranks) {
        Job job = job_on(to, ranks.rank());
        const CheckpointReader reader(checkpoint_folder(run, 7));
        const LoadReport report = load(ranks, job.world(), reader, job.components());
        if (job.wrong_bytes(7) != 0)
          fail(ExitCode::bug, "rank {} has {} wrong bytes", ranks.rank(), job.wrong_bytes(7));
        if (report.state_digest != digests.front()) fail(ExitCode::bug, "another digest");
      });
    }
  }
  for (const Hash128& digest : digests) BOOST_TEST((digest == digests.front()));
}

BOOST_FIXTURE_TEST_CASE(state_of_each_rank_comes_back_to_the_same_rank, TemporaryFolder) {
  on_ranks(4, [&](Communicator& ranks) {
    Job job = replica(4, ranks.rank());
    job.advance_to(3);
    auto components = job.components();
    components.push_back(job.rng_component());
    save(ranks, components, job.request(path));
    const std::vector<std::byte> right = job.rng;
    std::fill(job.rng.begin(), job.rng.end(), std::byte{0});
    load(ranks, job.world(), CheckpointReader(checkpoint_folder(path, 3)), components);
    if (job.rng != right || job.restored_rank != ranks.rank())
      fail(ExitCode::bug, "rank {} got the state of rank {}", ranks.rank(), job.restored_rank);
  });
}

BOOST_FIXTURE_TEST_CASE(state_of_each_rank_follows_its_policy_where_the_ranks_change, TemporaryFolder) {
  on_ranks(3, [&](Communicator& ranks) {
    Job job = replica(3, ranks.rank());
    job.advance_to(3);
    auto components = job.components();
    components.push_back(job.rng_component());
    save(ranks, components, job.request(path));
  });
  const auto load_on_two = [&](Remap remap) {
    std::vector<int> remapped(2, -9);
    const auto problems = attempt_on_ranks(2, [&](Communicator& ranks) {
      Job job = replica(2, ranks.rank());
      auto components = job.components();
      components.push_back(job.rng_component(remap));
      load(ranks, job.world(), CheckpointReader(checkpoint_folder(path, 3)), components);
      if (job.wrong_bytes(3) != 0) fail(ExitCode::bug, "wrong bytes");
      remapped[static_cast<std::size_t>(ranks.rank())] = job.remapped_cells;
    });
    return std::pair(problems, remapped);
  };
  const auto refused = load_on_two(Remap::exact).first;
  for (const auto& problem : refused)
    BOOST_TEST(says(message_of(problem, ExitCode::usage),
                    "component 'rng' was saved by 3 cells of dp_replicate 3 and is loaded by 2 of dp_replicate 2"));
  for (const auto& [remap, cells] :
       {std::pair(Remap::drop, -1), std::pair(Remap::derive, 0), std::pair(Remap::redistribute, 3)}) {
    const auto [problems, remapped] = load_on_two(remap);
    BOOST_TEST(!problems[0]);
    BOOST_TEST(!problems[1]);
    BOOST_TEST((remapped == std::vector<int>{cells, cells}));
  }
}

BOOST_FIXTURE_TEST_CASE(who_redistributes_state_of_ranks_gets_the_tensors_of_all, TemporaryFolder) {
  const auto content = [](Rank rank) { return std::vector<std::byte>(16, static_cast<std::byte>(40 + rank)); };
  on_ranks(3, [&](Communicator& ranks) {
    Job job = replica(3, ranks.rank());
    job.advance_to(3);
    job.rng = content(ranks.rank());
    auto components = job.components();
    components.push_back(job.rng_component());
    save(ranks, components, job.request(path));
  });
  on_ranks(2, [&](Communicator& ranks) {
    Job job = replica(2, ranks.rank());
    const std::vector<std::byte> before = job.rng;
    auto components = job.components();
    components.push_back(job.rng_component(Remap::redistribute));
    load(ranks, job.world(), CheckpointReader(checkpoint_folder(path, 3)), components);
    const bool whole = job.remapped.size() == 3 && job.remapped["rank=0/state"] == content(0) &&
                       job.remapped["rank=1/state"] == content(1) && job.remapped["rank=2/state"] == content(2);
    if (!whole || job.rng != before) fail(ExitCode::bug, "rank {} did not get what three ranks had", ranks.rank());
  });
}

// As many ranks with the same numbers, at other places.
BOOST_FIXTURE_TEST_CASE(ranks_of_another_mesh_are_others, TemporaryFolder) {
  const auto job_of = [](AxisName axis, Rank rank) { return job_on({.axes = {{std::move(axis), 2}}}, rank); };
  on_ranks(2, [&](Communicator& ranks) {
    Job job = job_of("dp_replicate", ranks.rank());
    job.advance_to(3);
    auto components = job.components();
    components.push_back(job.rng_component());
    save(ranks, components, job.request(path));
  });
  const auto load_along = [&](const AxisName& axis, Remap remap) {
    std::vector<int> told(2, -9);
    const auto problems = attempt_on_ranks(2, [&](Communicator& ranks) {
      Job job = job_of(axis, ranks.rank());
      auto components = job.components();
      components.push_back(job.rng_component(remap));
      load(ranks, job.world(), CheckpointReader(checkpoint_folder(path, 3)), components);
      told[static_cast<std::size_t>(ranks.rank())] = job.remapped_cells;
    });
    return std::pair(problems, told);
  };
  for (const auto& problem : load_along("dp_shard", Remap::exact).first)
    BOOST_TEST(says(message_of(problem, ExitCode::usage),
                    "was saved by 2 cells of dp_replicate 2 and is loaded by 2 of dp_shard 2"));
  BOOST_TEST((load_along("dp_shard", Remap::derive).second == std::vector<int>{0, 0}));
  BOOST_TEST((load_along("dp_replicate", Remap::derive).second == std::vector<int>{-1, -1}));
}

// What nobody compares may differ: the tensor that is saved is that of one rank all the same.
BOOST_FIXTURE_TEST_CASE(pieces_of_replicas_that_are_not_compared_are_never_mixed, TemporaryFolder) {
  const World all = single_axis_world(4);
  constexpr std::size_t bytes = 40'000'000, apart = 1'250'000;  // many pieces, whose ends are equal
  for (const Validation validation : {Validation::none, Validation::quick}) {
    const Path run = path / std::string(name_of(validation));
    on_ranks(4, [&](Communicator& ranks) {
      std::vector<std::byte> state(bytes);
      for (std::size_t i = apart / 2; i < bytes; i += apart) state[i] = static_cast<std::byte>(1 + ranks.rank());
      Component component;
      component.key = "model";
      component.validation = validation;
      component.collect = [&] {
        StateTree tree;
        tree.add("x", replicated({4000, 10000}, DType::u8, all.mesh), state);
        return tree;
      };
      save(ranks, {component}, {run, 1, all});
    });
    const CheckpointReader reader(checkpoint_folder(run, 1));
    std::vector<std::byte> loaded(bytes);
    reader.read(*reader.find_tensor("model/x"), whole({4000, 10000}), loaded);
    std::set<std::byte> seen;
    for (std::size_t i = apart / 2; i < bytes; i += apart) seen.insert(loaded[i]);
    BOOST_TEST(seen.size() == 1u);
    BOOST_TEST(!seen.contains(std::byte{0}));
  }
}

BOOST_FIXTURE_TEST_CASE(one_flipped_bit_in_one_replica_is_named_and_nothing_is_saved, TemporaryFolder) {
  on_ranks(3, [&](Communicator& ranks) {
    Job job = replica(3, ranks.rank());
    job.advance_to(1);
    save(ranks, job.components(), job.request(path));
  });
  const auto problems = attempt_on_ranks(3, [&](Communicator& ranks) {
    Job job = replica(3, ranks.rank());
    job.advance_to(2);
    if (ranks.rank() == 1) job.buffer(0)[333] ^= std::byte{16};
    save(ranks, job.components(), job.request(path));
  });
  for (const auto& problem : problems)
    BOOST_TEST(says(message_of(problem, ExitCode::verdict),
                    "replicas differ in model/wte.weight [0:37, 0:8]: rank 1 against ranks 0,2"));
  BOOST_TEST(list_checkpoints(path).size() == 1u);
  BOOST_TEST(list_checkpoints(path).front().step == 1);
}

BOOST_FIXTURE_TEST_CASE(each_validation_level_compares_as_much_as_it_says, TemporaryFolder) {
  const World all = single_axis_world(2);
  const auto differs_at = [&](Validation validation, std::size_t byte) {
    const auto problems = attempt_on_ranks(2, [&](Communicator& ranks) {
      std::vector<std::byte> state(100000);
      if (ranks.rank() == 1) state[byte] = std::byte{1};
      Component component;
      component.key = "model";
      component.validation = validation;
      component.collect = [&] {
        StateTree tree;
        tree.add("x", replicated({100000}, DType::u8, all.mesh), state);
        return tree;
      };
      save(ranks, {component}, {path, 1, all});
    });
    return problems[0] != nullptr && problems[1] != nullptr;
  };
  for (const std::size_t end : {std::size_t{5}, std::size_t{99999}}) BOOST_TEST(differs_at(Validation::quick, end));
  BOOST_TEST(!differs_at(Validation::quick, 50000));
  BOOST_TEST(differs_at(Validation::tensor, 50000));
  BOOST_TEST(differs_at(Validation::full, 50000));
  BOOST_TEST(!differs_at(Validation::none, 5));
}

// Wherever the bit is, one of so many saves in a row finds it, whichever comes first, and no save looks at more than
// its share, rounded to whole bytes of each piece.
BOOST_FIXTURE_TEST_CASE(saves_in_turn_find_a_bit_that_is_flipped_anywhere, TemporaryFolder) {
  constexpr int ranks_of_job = 3;
  constexpr std::uint64_t saves = 4;
  const World world = single_axis_world(ranks_of_job);
  const std::vector<Shape> shapes{{37, 3}, {2}, {}, {1300, 20}};  // one with fewer bytes than saves
  const auto component_of = [&](std::vector<std::vector<std::byte>>& state) {
    Component component{.key = "model", .validation = Validation::rolling, .collect = {}};
    component.collect = [&] {
      StateTree tree;
      for (std::size_t i = 0; i < shapes.size(); ++i)
        tree.add(fmt::format("t{}", i), replicated(shapes[i], DType::u8, world.mesh), state[i]);
      return tree;
    };
    return component;
  };
  const auto fresh_state = [&] {
    std::vector<std::vector<std::byte>> state;
    for (const Shape& shape : shapes) state.emplace_back(static_cast<std::size_t>(elements(shape)), std::byte{5});
    return state;
  };
  const auto found_at = [&](std::size_t tensor, std::size_t byte) {
    int found = 0;
    for (std::uint64_t number = 0; number < saves; ++number) {
      const auto problems = attempt_on_ranks(ranks_of_job, [&](Communicator& ranks) {
        std::vector<std::vector<std::byte>> state = fresh_state();
        if (ranks.rank() == 1) state[tensor][byte] ^= std::byte{64};
        SaveRequest request{path, static_cast<std::int64_t>(number), world};
        request.share = {number, saves};
        save(ranks, {component_of(state)}, request);
      });
      if (!problems[0]) continue;
      ++found;
      for (const auto& problem : problems) {
        const std::string message = message_of(problem, ExitCode::verdict);
        BOOST_TEST(says(message, fmt::format("replicas differ in model/t{}", tensor)));
        BOOST_TEST(says(message, "rank 1 against ranks 0,2: 1 of "));
      }
    }
    return found;
  };
  for (std::size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    const auto bytes = static_cast<std::size_t>(elements(shapes[tensor]));
    for (std::size_t byte = 0; byte < bytes; byte += std::max<std::size_t>(1, bytes / 13))
      BOOST_TEST(found_at(tensor, byte) == 1, fmt::format("byte {} of tensor {}", byte, tensor));
    BOOST_TEST(found_at(tensor, bytes - 1) == 1);
  }

  std::uint64_t all = 0, most = 0, whole_state = 0;
  for (const Shape& shape : shapes) whole_state += static_cast<std::uint64_t>(elements(shape));
  for (std::uint64_t number = 0; number < saves; ++number) {
    std::uint64_t compared = 0;
    on_ranks(ranks_of_job, [&](Communicator& ranks) {
      std::vector<std::vector<std::byte>> state = fresh_state();
      SaveRequest request{path / "whole", static_cast<std::int64_t>(number), world};
      request.share = {number, saves};
      const SaveReport report = save(ranks, {component_of(state)}, request);
      if (ranks.rank() == 0) compared = report.compared_bytes;
    });
    all += compared;
    most = std::max(most, compared);
  }
  BOOST_TEST(all == ranks_of_job * whole_state);
  BOOST_TEST(most <= ranks_of_job * (whole_state / saves + 40));
}

BOOST_FIXTURE_TEST_CASE(replicated_values_that_differ_are_named, TemporaryFolder) {
  for (const std::string other : {"b", "longer"}) {
    const auto problems = attempt_on_ranks(3, [&](Communicator& ranks) {
      Component component;
      component.key = "schedule";
      component.collect = [&] {
        StateTree tree;
        tree.set("name", ranks.rank() == 2 ? other : "a");
        return tree;
      };
      save(ranks, {component}, {path, 1, single_axis_world(3)});
    });
    for (const auto& problem : problems) {
      const std::string message = message_of(problem, ExitCode::verdict);
      BOOST_TEST(says(message, "the values of component 'schedule'"));
      BOOST_TEST(says(message, "rank 2"));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(what_a_rank_of_a_cell_lacks_or_has_less_of_is_a_difference, TemporaryFolder) {
  const World world{make_mesh("world", {{"dp_replicate", 3}}), {0, 0, 0}};
  const auto difference = [&](Pattern pattern, Validation validation,
                              const std::function<void(StateTree&, int)>& fill) {
    const auto problems = attempt_on_ranks(3, [&](Communicator& ranks) {
      Component component;
      component.key = "part";
      component.pattern = pattern;
      component.validation = validation;
      component.collect = [&] {
        StateTree tree;
        fill(tree, ranks.rank());
        return tree;
      };
      save(ranks, {component}, {path, 1, world});
    });
    std::string message;
    for (const auto& problem : problems) message = message_of(problem, ExitCode::verdict);
    return message;
  };
  std::vector<std::byte> bytes(8);
  const Layout eight = replicated({8}, DType::u8, world.mesh);
  for (const Pattern pattern : {Pattern::replicated, Pattern::per_node}) {
    for (const Validation validation : {Validation::none, Validation::tensor}) {
      for (const int lacking : {0, 1}) {
        const std::string message = difference(pattern, validation, [&](StateTree& tree, int rank) {
          if (rank != lacking) tree.add("x", eight, bytes);
        });
        BOOST_TEST(says(message, "replicas differ in"));
        BOOST_TEST(says(message, "/x"));
        BOOST_TEST(says(message, "lacks it"));
      }
    }
  }
  const auto values = [&](const std::string& other) {
    return difference(Pattern::per_node, Validation::tensor, [&](StateTree& tree, int rank) {
      if (rank != 1 || !other.empty()) tree.set("name", rank == 1 ? other : "steady");
    });
  };
  for (const char* const other : {"s", "steadily"})  // in the room that values have to spare
    BOOST_TEST(says(values(other), fmt::format("replicas differ in the values of component 'part', declared per_node, "
                                               "in cell node=0: rank 1 against ranks 0,2: name is \"{}\" against "
                                               "\"steady\"",
                                               other)));
  BOOST_TEST(says(values(std::string(300, 'x')), "rank 1 against ranks 0,2: name is \"xxx"));  // and beyond it
  BOOST_TEST(says(values(""), "rank 1 against ranks 0,2: rank 1 has none"));
  std::vector<std::byte> less(4);
  BOOST_TEST(says(difference(Pattern::per_node, Validation::tensor,
                             [&](StateTree& tree, int rank) {
                               if (rank == 2) tree.add("x", replicated({4}, DType::u8, world.mesh), less);
                               if (rank != 2) tree.add("x", eight, bytes);
                             }),
                  "this rank has 4 bytes, others 8"));
  BOOST_TEST(list_checkpoints(path).empty());
}

BOOST_FIXTURE_TEST_CASE(a_rank_that_fails_in_any_phase_fails_all_and_leaves_the_old_checkpoint, TemporaryFolder) {
  on_ranks(3, [&](Communicator& ranks) {
    Job job = replica(3, ranks.rank());
    job.advance_to(1);
    save(ranks, job.components(), job.request(path));
  });
  for (const Phase phase :
       {Phase::save_plan, Phase::save_stage, Phase::save_write, Phase::save_seal, Phase::save_commit}) {
    for (const int victim : {0, 2}) {
      const auto problems = attempt_on_ranks(3, [&](Communicator& ranks) {
        Job job = replica(3, ranks.rank());
        job.advance_to(2);
        SaveRequest request = job.request(path);
        request.enter = [&](Phase now) {
          if (now == phase && ranks.rank() == victim)
            fail(ExitCode::storage, "no space left on device in {}", name_of(phase));
        };
        save(ranks, job.components(), request);
      });
      for (const auto& problem : problems) {
        const std::string message = message_of(problem, ExitCode::storage);
        BOOST_TEST(says(message, fmt::format("rank {}", victim)));
        BOOST_TEST(says(message, fmt::format("no space left on device in {}", name_of(phase))));
      }
      BOOST_TEST(list_checkpoints(path).size() == 1u);
      BOOST_TEST(verify_checkpoint(checkpoint_folder(path, 1), VerifyLevel::fingerprints).defects.empty());
      for (const auto& entry : std::filesystem::directory_iterator(checkpoints_folder(path)))
        BOOST_TEST(!entry.path().filename().string().starts_with(".stage-"));
    }
  }
  on_ranks(3, [&](Communicator& ranks) {  // and the next save goes through
    Job job = replica(3, ranks.rank());
    job.advance_to(2);
    save(ranks, job.components(), job.request(path));
  });
  BOOST_TEST(list_checkpoints(path).size() == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_declaration_that_contradicts_the_layouts_names_the_right_group, TemporaryFolder) {
  const auto problem_with = [&](Pattern pattern, std::vector<AxisName> equal_along) {
    return attempt_on_ranks(4, [&](Communicator& ranks) {
      const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"tp", 2}});
      Job job({mesh, {}}, ranks.rank(), sharded_model(mesh), pattern, equal_along);
      save(ranks, job.components(), job.request(path));
    })[0];
  };
  try {
    std::rethrow_exception(problem_with(Pattern::per_group, {"tp"}));
  } catch (const Error& error) {
    BOOST_TEST(says(error.what(),
                    "component 'model' is declared per_group(tp), but ranks that differ along tp hold different boxes "
                    "of 'wte.weight'"));
    BOOST_TEST(says(error.hint(), "per_group(dp_replicate)"));
  }
  BOOST_TEST(says(message_of(problem_with(Pattern::replicated, {}), ExitCode::usage),
                  "is declared replicated, but ranks that differ along tp"));
  BOOST_TEST(says(message_of(problem_with(Pattern::per_rank, {}), ExitCode::usage),
                  "each cell owns whole tensors, but 'wte.weight' is sharded over the ranks"));
  BOOST_TEST(!problem_with(Pattern::per_group, {"dp_replicate"}));
}

BOOST_FIXTURE_TEST_CASE(what_a_load_and_a_checkpoint_do_not_share_is_an_error, TemporaryFolder) {
  const auto ranks = solo_communicator();
  Job saved = replica(1, 0);
  saved.advance_to(1);
  save(*ranks, saved.components(), saved.request(path));
  const CheckpointReader reader(checkpoint_folder(path, 1));
  const auto problem_with = [&](const std::function<void(std::vector<Tensor>&)>& change) -> std::exception_ptr {
    try {
      const World world = single_axis_world(1);
      std::vector<Tensor> tensors = replicated_model(world.mesh);
      change(tensors);
      Job job(world, 0, tensors);
      load(*ranks, world, reader, job.components());
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  };
  BOOST_TEST(says(message_of(problem_with([](auto& tensors) { tensors[0].layout.global = {38, 8}; }), ExitCode::usage),
                  "model/wte.weight is fp32 (37, 8)"));
  BOOST_TEST(
      says(message_of(problem_with([](auto& tensors) { tensors[1].layout.dtype = DType::f16; }), ExitCode::usage),
           "model/h.0/bias is bf16 (5)"));
  BOOST_TEST(says(message_of(problem_with([](auto& tensors) { tensors[2].name = "scole"; }), ExitCode::usage),
                  "holds no model/scole"));
  BOOST_TEST(says(message_of(problem_with([](auto& tensors) { tensors.pop_back(); }), ExitCode::usage),
                  "holds model/mask, which no component loads"));
  std::vector<Component> more = saved.components();
  more.push_back(saved.rng_component());
  BOOST_CHECK_EXCEPTION(load(*ranks, saved.world(), reader, more), Error, [](const Error& error) {
    return error.code() == ExitCode::usage && says(error.what(), "holds no component 'rng'");
  });
  more.back().required = false;
  BOOST_TEST(load(*ranks, saved.world(), reader, more).notes.front() ==
             "the checkpoint holds no component 'rng': it starts afresh");
}

BOOST_FIXTURE_TEST_CASE(replicas_share_the_files_and_each_pattern_has_its_folder, TemporaryFolder) {
  on_ranks(4, [&](Communicator& ranks) {
    Job job = replica(4, ranks.rank());
    auto components = job.components();
    components.push_back(job.rng_component());
    SaveRequest request = job.request(path);
    save(ranks, components, request);
    job.advance_to(1);
    request.step = 1;
    request.ranks_per_file = 3;
    request.documents = {{"config.yaml", "model: tiny\n"}};
    request.metrics = {{"validation_loss", 1.5}};
    save(ranks, components, request);
  });
  const auto count = [&](std::int64_t step, const char* folder) {
    return std::distance(std::filesystem::directory_iterator(checkpoint_folder(path, step) / folder), {});
  };
  BOOST_TEST(count(0, "replicated") == 4);
  BOOST_TEST(count(0, "per_rank") == 4);
  BOOST_TEST(count(0, "global") == 1);
  BOOST_TEST(count(1, "replicated") == 2);
  BOOST_TEST(count(1, "per_rank") == 2);
  const Manifest manifest = read_manifest(checkpoint_folder(path, 1));
  BOOST_TEST(manifest.documents.front().second == "model: tiny\n");
  BOOST_TEST(manifest.metrics.front().value == 1.5);
  BOOST_TEST(read_file(checkpoints_folder(path) / "LATEST") == "step-0000000001\n");
}

BOOST_FIXTURE_TEST_CASE(the_model_opens_under_its_own_names_with_its_aliases, TemporaryFolder) {
  on_ranks(2, [&](Communicator& ranks) {
    Job job = replica(2, ranks.rank());
    job.advance_to(1);
    save(ranks, job.components(), job.request(path));
  });
  const auto model = open_model(checkpoint_folder(path, 1));
  BOOST_TEST((find_tensor(*model, "wte.weight").shape == Shape{37, 8}));
  BOOST_TEST((find_tensor(*model, "tied").shape == Shape{37, 8}));
  std::vector<std::byte> row(3 * 5 * 4);
  model->read("tied", {{30, 2}, {3, 5}}, row);
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 5; ++c) {
      for (int b = 0; b < 4; ++b)
        BOOST_TEST((row[static_cast<std::size_t>((r * 5 + c) * 4 + b)] ==
                    expected_byte("wte.weight", (30 + r) * 8 + 2 + c, b, 1)));
    }
  }
  BOOST_CHECK_THROW(find_tensor(*model, "wte.weigth"), Error);
  BOOST_CHECK_THROW(model->read("wte.weight", {{30, 0}, {8, 8}}, std::span<std::byte>()), Error);
}

BOOST_AUTO_TEST_SUITE_END()
