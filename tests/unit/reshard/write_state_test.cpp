#include "reshard/write_state.hpp"

#include "base/random.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/run_directory.hpp"

#include <boost/test/unit_test.hpp>

#include <map>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(write_state_)

namespace {

std::int64_t index_of(const Shape& at, const Shape& shape) {
  std::int64_t index = 0;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) index = index * shape[dim] + at[dim];
  return index;
}

/// One rank saves a tensor whose only row has several blocks, and one of many rows.
Path save_large(const Path& run) {
  const World world = single_axis_world(1);
  std::vector<float> wide(3 * 2100001), rows(300 * 257);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i * 2654435761u % 1000003);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i) / 3;
  Component model;
  model.key = "model";
  model.collect = [&] {
    StateTree tree;
    tree.add("wide", replicated({1, 3, 2100001}, DType::f32, world.mesh), std::as_writable_bytes(std::span(wide)));
    tree.add("rows", replicated({300, 257}, DType::f32, world.mesh), std::as_writable_bytes(std::span(rows)));
    return tree;
  };
  on_ranks(1, [&](Communicator& ranks) { save(ranks, {model}, {run, 3, world}); });
  return checkpoint_folder(run, 3);
}

/// Small tensors of two components, the first with a second name.
Path save_small(const Path& run) {
  const World world = single_axis_world(1);
  on_ranks(1, [&](Communicator& ranks) {
    Job job(world, 0,
            {{"wide.weight", replicated({2, 3}, DType::f32, world.mesh)},
             {"long", replicated({7}, DType::f32, world.mesh)}});
    job.advance_to(3);
    save(ranks, job.components(), job.request(run));
  });
  return checkpoint_folder(run, 3);
}

/// The parts of a state written with so much memory, by their paths.
std::map<std::string, std::string> written_with(std::uint64_t memory, const StateSource& source, const NewState& state,
                                                const Path& staging, int parts = 1) {
  const CheckpointPlan plan = plan_parts(state, parts);
  make_staging(staging, plan.folders, total_bytes(plan));
  Session session(solo_communicator());
  const StagedState staged = write_parts(session, source, state, plan, staging, memory);
  seal_checkpoint(staging, plan.tensors, plan.files, staged, state.facts);
  BOOST_TEST(judge_checkpoint(staging, VerifyLevel::fingerprints).reason == "");
  std::map<std::string, std::string> written;
  for (const PlannedFile& file : plan.files) written[file.path] = read_file(staging / file.path);
  return written;
}

}  // namespace

BOOST_AUTO_TEST_CASE(stretches_follow_each_other_through_a_box_and_are_no_larger_than_asked) {
  const RandomStream random(3, "stretches");
  for (std::uint64_t draw = 0; draw < 200; ++draw) {
    Shape shape;
    for (std::uint64_t dim = 0; dim < 1 + random.below(10 * draw, 3); ++dim)
      shape.push_back(static_cast<std::int64_t>(random.below(10 * draw + dim + 1, 6)));
    const auto most = static_cast<std::int64_t>(1 + random.below(10 * draw + 9, 20));
    std::int64_t next = 0;
    for_each_stretch(whole(shape), most, [&](const Box& box) {
      BOOST_REQUIRE(elements(box) <= most);
      BOOST_REQUIRE(index_of(box.begin, shape) == next);
      Shape last = box.begin;
      for (std::size_t dim = 0; dim < shape.size(); ++dim) last[dim] += box.extent[dim] - 1;
      BOOST_REQUIRE(index_of(last, shape) == next + elements(box) - 1);
      next += elements(box);
    });
    BOOST_TEST(next == elements(shape));
  }
}

BOOST_FIXTURE_TEST_CASE(a_piece_that_is_written_in_rows_is_the_same_bytes, TemporaryFolder) {
  const auto opened = open_checkpoint_source(save_large(path / "run"));
  const StateSource& source = *opened;
  NewState state = whole_state(source.manifest());
  const auto at_once = written_with(std::uint64_t{1} << 30, source, state, path / "at-once");
  const auto in_rows = written_with(1, source, state, path / "in-rows");
  BOOST_TEST((at_once == in_rows));
  retype_weights(state, DType::f64);
  const auto cast_at_once = written_with(std::uint64_t{1} << 30, source, state, path / "cast-at-once");
  BOOST_TEST((cast_at_once != at_once));
  BOOST_TEST((cast_at_once == written_with(1, source, state, path / "cast-in-rows")));
}

BOOST_FIXTURE_TEST_CASE(more_parts_than_are_written_at_a_time_hold_what_one_does, TemporaryFolder) {
  constexpr std::size_t parts = 2 * parts_at_a_time + 3;
  const World world = single_axis_world(1);
  std::vector<std::vector<float>> values(2 * parts, std::vector<float>(20000));
  for (std::size_t i = 0; i < values.size(); ++i) std::ranges::fill(values[i], static_cast<float>(i));
  Component model;
  model.key = "model";
  model.collect = [&] {
    StateTree tree;
    for (std::size_t i = 0; i < values.size(); ++i)
      tree.add(fmt::format("x.{}", i), replicated({200, 100}, DType::f32, world.mesh),
               std::as_writable_bytes(std::span(values[i])));
    return tree;
  };
  on_ranks(1, [&](Communicator& ranks) { save(ranks, {model}, {path / "run", 3, world}); });
  const auto source = open_checkpoint_source(checkpoint_folder(path / "run", 3));
  const NewState state = whole_state(source->manifest());
  BOOST_TEST(written_with(std::uint64_t{1} << 30, *source, state, path / "many", parts).size() == parts);
  const CheckpointReader many(path / "many");
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<float> read(values[i].size());
    many.read(fmt::format("model/x.{}", i), whole({200, 100}), std::as_writable_bytes(std::span(read)));
    BOOST_TEST((read == values[i]));
  }
}

BOOST_FIXTURE_TEST_CASE(pieces_with_rows_in_common_are_read_at_once_as_far_as_memory_reaches, TemporaryFolder) {
  const auto source = open_checkpoint_source(save_small(path / "run"));
  NewState state = whole_state(source->manifest());
  select(state, {NamePattern::parse("wide")}, {});
  state.facts.mesh = make_mesh("world", {{"tp", 4}});
  for (StoredTensor& tensor : state.tensors) {  // a plan needs no bytes
    tensor.layout = replicated({700, 100000}, DType::f32, state.facts.mesh);
    tensor.layout.splits = {{{"tp"}, 1}};
  }
  const CheckpointPlan plan = plan_ranks(state, 4);
  BOOST_TEST(plan.files.size() == 4u);
  const auto cut_rows = [&](std::uint64_t memory) {
    const ProcessShare share = share_out(*source, state, plan, memory, 1).front();
    const auto first_row = [&](std::size_t i) { return plan.pieces[share.pieces[i]].box.begin[0]; };
    std::size_t cut = 0, pieces = 0;
    for (const PieceBatch& batch : share.batches) {
      BOOST_TEST((batch.portion.memory <= memory / 4 || batch.count == 1));
      BOOST_TEST(batch.first == pieces);
      pieces += batch.count;
      cut += batch.first > 0 && first_row(batch.first) == first_row(batch.first - 1);
    }
    BOOST_TEST(pieces == plan.pieces.size());
    return cut;
  };
  BOOST_TEST(plan.pieces.size() > 16u);
  BOOST_TEST(cut_rows(std::uint64_t{1} << 30) == 0u);
  BOOST_TEST(cut_rows(std::uint64_t{64} << 20) > 0u);
}

BOOST_FIXTURE_TEST_CASE(the_peak_of_memory_follows_what_pieces_may_take, TemporaryFolder) {
  const auto opened = open_checkpoint_source(save_large(path / "run"));
  const StateSource& source = *opened;
  const NewState state = whole_state(source.manifest());
  const CheckpointPlan plan = plan_parts(state, 1);
  const auto peak = [&](std::uint64_t memory) { return share_out(source, state, plan, memory, 1).front().peak_memory; };
  constexpr std::uint64_t row = 3 * 2100001 * sizeof(float);  // is never cut into pieces
  constexpr std::uint64_t others = 1 << 20;                   // the other tensor, which is read ahead or before
  BOOST_TEST(peak(std::uint64_t{1} << 30) >= row + block_bytes);
  BOOST_TEST(peak(std::uint64_t{1} << 30) <= row + block_bytes + others);
  BOOST_TEST(peak(std::uint64_t{24} << 20) <= std::uint64_t{24} << 20);
}

BOOST_FIXTURE_TEST_CASE(processes_share_all_pieces_evenly_each_with_neighbours, TemporaryFolder) {
  const auto opened = open_checkpoint_source(save_small(path / "run"));
  const StateSource& source = *opened;
  NewState state = whole_state(source.manifest());
  for (StoredTensor& tensor : state.tensors)  // a plan needs no bytes
    if (tensor.name == "wide.weight") tensor.layout.global = {700, 100000};
  const CheckpointPlan plan = plan_parts(state, 3);
  std::uint64_t largest = 0;
  std::vector<std::size_t> all;
  for (std::size_t piece = 0; piece < plan.pieces.size(); ++piece) {
    all.push_back(piece);
    largest = std::max(largest, bytes_of(part_piece(plan, piece)));
  }
  for (const int processes : {1, 2, 3, 5, 400}) {
    std::vector<std::size_t> shared;
    for (const ProcessShare& share : share_out(source, state, plan, 1, processes)) {
      std::uint64_t bytes = 0;
      for (const std::size_t piece : share.pieces) bytes += bytes_of(part_piece(plan, piece));
      BOOST_TEST(share.bytes == bytes);
      BOOST_TEST(bytes <= total_bytes(plan) / static_cast<std::uint64_t>(processes) + largest + 1);
      shared.insert(shared.end(), share.pieces.begin(), share.pieces.end());
    }
    BOOST_TEST((shared == all));
  }
}

BOOST_FIXTURE_TEST_CASE(what_is_selected_is_kept_with_its_names_and_the_rest_is_told, TemporaryFolder) {
  const auto opened = open_checkpoint_source(save_small(path / "run"));
  const StateSource& source = *opened;
  const auto names = [&](const std::vector<NamePattern>& only, const std::vector<NamePattern>& skip) {
    NewState state = whole_state(source.manifest());
    select(state, only, skip);
    std::vector<std::string> result;
    for (const StoredTensor& tensor : state.tensors) result.push_back(full_name(tensor));
    for (const StoredComponent& component : state.facts.components) result.push_back(component.key);
    for (const std::string& note : state.notes) result.push_back(note);
    return result;
  };
  const auto pattern = [](const char* text) { return NamePattern::parse(text); };
  using Names = std::vector<std::string>;
  BOOST_TEST((names({pattern("model")}, {}) ==
              Names{"model/wide.weight", "model/long", "model",
                    "left out: trainer; a run that needs them cannot resume from this checkpoint"}));
  BOOST_TEST(
      (names({pattern("tied")}, {}) ==  // another name of the first tensor
       Names{"model/wide.weight", "model",
             "left out: 1 of 2 tensors of model, trainer; a run that needs them cannot resume from this checkpoint"}));
  BOOST_TEST((names({}, {pattern("wide|trainer")}) == names({pattern("long")}, {})));
  const auto refused = [&](const std::vector<NamePattern>& only, const std::vector<NamePattern>& skip) {
    try {
      (void)names(only, skip);
    } catch (const Error& error) {
      BOOST_TEST((error.code() == ExitCode::usage));
      return std::string(error.what()) + "; " + error.hint();
    }
    return std::string();
  };
  BOOST_TEST(refused({pattern("modle")}, {}) ==
             "--only modle: no component has that name, and no tensor name matches it; the nearest name is "
             "'model'");
  BOOST_TEST(refused({}, {pattern("tied")}).starts_with("--skip tied: no component"));
  BOOST_TEST(refused({pattern("model")}, {pattern("model/")}) == "--only and --skip leave nothing to write; ");
}

BOOST_AUTO_TEST_SUITE_END()
