#include "checkpoint/shared_read.hpp"
#include "base/error.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "comm/failure.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>
#include <numeric>
#include <set>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(shared_read)

namespace {

struct Cut {
  std::vector<std::pair<AxisName, int>> axes;
  std::vector<Split> splits = {};
  int ranks() const { return world_size(make_mesh("world", axes)); }
};

const Cut alone{{{"dp_replicate", 1}}};
const Cut replicas{{{"dp_replicate", 4}}};
const Cut columns{{{"dp_replicate", 2}, {"tp", 4}}, {{{"tp"}, 1, 1, 0}}};
const Cut shards{{{"dp_replicate", 1}, {"dp_shard", 4}}, {{{"dp_shard"}, 0, 1, 0}}};
const Cut mixed{{{"dp_replicate", 2}, {"dp_shard", 2}, {"tp", 2}}, {{{"tp"}, 1, 1, 0}, {{"dp_shard"}, 0, 1, 0}}};

/// Two matrices of so many rows and columns, and one with fewer rows than there are ranks.
Job job_with(const Cut& cut, std::int64_t rows, std::int64_t cols, Rank rank) {
  const Mesh mesh = make_mesh("world", cut.axes);
  const auto tensor = [&](const std::string& name, std::int64_t count, DType dtype) {
    return Tensor{name, {{count, cols}, dtype, mesh, cut.splits, {}}};
  };
  return {{mesh, {}},
          rank,
          {tensor("a", rows, DType::f32), tensor("b", rows + 2, DType::bf16), tensor("short", 3, DType::u8)},
          Pattern::per_group,
          {"dp_replicate"}};
}

Path saved(const Cut& cut, std::int64_t rows, std::int64_t cols, const Path& run) {
  on_ranks(cut.ranks(), [&](Communicator& ranks) {
    Job job = job_with(cut, rows, cols, ranks.rank());
    job.advance_to(5);
    save(ranks, job.components(), job.request(run));
  });
  return checkpoint_folder(run, 5);
}

std::uint64_t stored_bytes(const Path& checkpoint) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoint))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

/// What each rank read. All have the bytes that the job computes, and that one process reads alone.
std::vector<std::uint64_t> loaded(const Cut& cut, std::int64_t rows, std::int64_t cols, const Path& checkpoint) {
  std::vector<std::uint64_t> read(static_cast<std::size_t>(cut.ranks()));
  on_ranks(cut.ranks(), [&](Communicator& ranks) {
    Job job = job_with(cut, rows, cols, ranks.rank());
    const CheckpointReader reader(checkpoint);
    read[static_cast<std::size_t>(ranks.rank())] = load(ranks, job.world(), reader, job.components(), 2).read;
    if (job.wrong_bytes(5) != 0) fail(ExitCode::bug, "rank {} has {} wrong bytes", ranks.rank(), job.wrong_bytes(5));
    const Box box = box_of(Layout{{rows, cols}, DType::f32, job.world().mesh, cut.splits, {}}, ranks.rank());
    std::vector<std::byte> serial(job.buffer(0).size());
    CheckpointReader(checkpoint).read("model/a", box, serial);
    if (serial != job.buffer(0)) fail(ExitCode::bug, "one process reads something else");
  });
  return read;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(each_stored_byte_is_read_about_once_whoever_saved_and_whoever_loads, TemporaryFolder) {
  constexpr std::int64_t rows = 401, cols = 307;  // neither divides
  for (const Cut* from : {&alone, &shards, &columns}) {
    const Path checkpoint = saved(*from, rows, cols, path / fmt::format("run-{}", from->ranks()));
    const std::uint64_t stored = stored_bytes(checkpoint);
    for (const Cut* to : {&alone, &replicas, &columns, &shards, &mixed}) {
      const std::vector<std::uint64_t> read = loaded(*to, rows, cols, checkpoint);
      const std::uint64_t sum = std::accumulate(read.begin(), read.end(), std::uint64_t{0});
      BOOST_TEST_CONTEXT(from->ranks() << " to " << to->ranks() << ": " << sum << " of " << stored) {
        BOOST_TEST(sum >= static_cast<std::uint64_t>(rows * cols * 4 + (rows + 2) * cols * 2 + 3 * cols));
        BOOST_TEST(sum <= stored + stored / 20);
      }
    }
  }
}

// The truth goes through all ranks and the elements' boxes.
BOOST_FIXTURE_TEST_CASE(ranks_that_plan_for_themselves_agree_who_reads_each_block_for_whom, TemporaryFolder) {
  constexpr std::int64_t rows = 401, cols = 307;
  for (const Cut* from : {&alone, &shards, &columns}) {
    const Path checkpoint = saved(*from, rows, cols, path / fmt::format("run-{}", from->ranks()));
    const CheckpointReader reader(checkpoint);
    for (const Cut* to : {&alone, &replicas, &columns, &shards, &mixed}) {
      const Layout layout{{rows, cols}, DType::f32, make_mesh("world", to->axes), to->splits, {}};
      const SharedTensor tensor{reader.number_of("model/a"), layout.global, &layout, {}, {}};
      std::map<const IndexedPiece*, std::set<Rank>> owners, needed_by;
      for (Rank rank = 0; rank < to->ranks(); ++rank) {
        ReadPlan plan(reader, {&tensor, 1}, rank);
        const std::size_t others = to->ranks() > 1 ? plan.most_packed() + plan.largest() : 0;
        BOOST_TEST(static_cast<std::int64_t>(blocks_in_work * (plan.largest() + others)) <=
                   bytes_in_work(to->ranks(), rows * cols * 4));
        for (const NeededBlock& needed : plan.of_others()) {
          owners[needed.block.piece].insert(needed.owner);
          needed_by[needed.block.piece].insert(rank);
        }
        for (const NeededBlock& needed : plan.own()) {
          owners[needed.block.piece].insert(rank);
          needed_by[needed.block.piece].insert(rank);
          std::set<Rank> served;
          for (const Holding* holding : plan.holdings_with(needed.block, 0))
            for (const Rank other : holding->ranks) {
              BOOST_TEST((box_of(layout, other) == holding->box));
              BOOST_TEST(served.insert(other).second);
            }
          for (Rank other = 0; other < to->ranks(); ++other)
            BOOST_TEST(served.contains(other) == !empty(intersect(box_of(layout, other), needed.block.piece->box)));
        }
      }
      for (const IndexedPiece* piece : reader.pieces_of(tensor.stored)) {
        BOOST_TEST(piece->record.blocks.size() == 1u);
        BOOST_TEST(owners[piece].size() == 1u);
        for (Rank rank = 0; rank < to->ranks(); ++rank)
          BOOST_TEST(needed_by[piece].contains(rank) == !empty(intersect(box_of(layout, rank), piece->box)));
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(replicas_read_neighbouring_blocks, TemporaryFolder) {
  constexpr std::int64_t rows = 1, cols = 10 * 1048576;  // 5 blocks
  on_ranks(1, [&](Communicator& ranks) {
    const World world = single_axis_world(1);
    Job job(world, 0, {{"a", replicated({rows, cols}, DType::f32, world.mesh)}});
    save(ranks, job.components(), job.request(path));
  });
  const CheckpointReader reader(checkpoint_folder(path, 0));
  const Layout layout = replicated({rows, cols}, DType::f32, make_mesh("world", {{"dp_replicate", 2}}));
  const SharedTensor tensor{reader.number_of("model/a"), layout.global, &layout, {}, {}};
  std::vector<Rank> readers(5, -1);
  for (const Rank rank : {0, 1})
    for (const NeededBlock& needed : std::vector(ReadPlan(reader, {&tensor, 1}, rank).own()))
      readers.at(needed.block.number) = rank;
  BOOST_TEST(readers == (std::vector<Rank>{0, 0, 1, 1, 1}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(replicas_read_equal_parts, TemporaryFolder) {
  const Path checkpoint = saved(shards, 2048, 64, path);
  const std::vector<std::uint64_t> read = loaded(replicas, 2048, 64, checkpoint);
  const std::uint64_t sum = std::accumulate(read.begin(), read.end(), std::uint64_t{0});
  for (const std::uint64_t bytes : read) BOOST_TEST(bytes < sum / 4 + sum / 16);
}

BOOST_FIXTURE_TEST_CASE(ranks_that_see_a_file_read_it_for_those_that_do_not, TemporaryFolder) {
  constexpr std::int64_t rows = 401, cols = 307;
  const auto even = [](std::size_t file, int ranks) { return std::vector<Rank>{static_cast<Rank>(file) % ranks}; };
  const auto last = [](std::size_t, int ranks) { return std::vector<Rank>{ranks - 1}; };
  const auto half = [](std::size_t file, int ranks) {
    return file % 2 == 0 ? std::vector<Rank>{0} : std::vector<Rank>{1, ranks - 1};
  };
  for (const Cut* from : {&shards, &columns}) {
    const Path run = path / fmt::format("run-{}", from->ranks());
    on_ranks(from->ranks(), [&](Communicator& ranks) {
      Job job = job_with(*from, rows, cols, ranks.rank());
      job.advance_to(5);
      SaveRequest request = job.request(run);
      request.ranks_per_file = 1;
      save(ranks, job.components(), request);
    });
    for (const Cut* to : {&replicas, &columns, &shards, &mixed}) {
      for (const auto& who : std::vector<std::function<std::vector<Rank>(std::size_t, int)>>{even, last, half}) {
        std::vector<std::uint64_t> read(static_cast<std::size_t>(to->ranks()));
        std::set<Rank> readers;
        on_ranks(to->ranks(), [&](Communicator& ranks) {
          Job job = job_with(*to, rows, cols, ranks.rank());
          const CheckpointReader reader(checkpoint_folder(run, 5));
          FileAccess access;
          for (std::size_t file = 0; file < reader.manifest().files.size(); ++file)
            access.readers.push_back(who(file, ranks.size()));
          if (ranks.rank() == 0)
            for (const auto& some : access.readers) readers.insert(some.begin(), some.end());
          read[static_cast<std::size_t>(ranks.rank())] =
              load(ranks, job.world(), reader, job.components(), 2, {}, access).read;
          if (job.wrong_bytes(5) != 0) fail(ExitCode::bug, "rank {} has wrong bytes", ranks.rank());
        });
        for (Rank rank = 0; rank < to->ranks(); ++rank)
          BOOST_TEST((read[static_cast<std::size_t>(rank)] == 0 || readers.contains(rank)));
        BOOST_TEST(std::accumulate(read.begin(), read.end(), std::uint64_t{0}) >=
                   static_cast<std::uint64_t>(rows * cols * 4 + (rows + 2) * cols * 2 + 3 * cols));
      }
    }
  }
}

// A row is never cut into pieces: these have several blocks, whose ends lie in the midst of what ranks need.
BOOST_FIXTURE_TEST_CASE(pieces_of_many_blocks_are_shared_block_by_block, TemporaryFolder) {
  constexpr std::int64_t rows = 1, cols = 2 * 1048576 + 77;
  const Path checkpoint = saved(alone, rows, cols, path);
  const std::uint64_t stored = stored_bytes(checkpoint);
  const Cut thirds{{{"dp_replicate", 1}, {"tp", 3}}, {{{"tp"}, 1, 1, 0}}};
  const std::vector<std::uint64_t> read = loaded(thirds, rows, cols, checkpoint);
  BOOST_TEST(std::accumulate(read.begin(), read.end(), std::uint64_t{0}) <= stored + stored / 20);
}

BOOST_FIXTURE_TEST_CASE(boxes_of_a_view_that_are_none_of_the_stored_tensor_are_put_together, TemporaryFolder) {
  const Mesh two = make_mesh("world", {{"dp_replicate", 1}, {"tp", 2}});
  const Mesh three = make_mesh("world", {{"dp_replicate", 2}, {"tp", 3}});
  const auto job_as = [](const Mesh& mesh, Shape global, int dim, Rank rank) {
    return Job({mesh, {}}, rank, {{"qkv", {std::move(global), DType::f32, mesh, {{{"tp"}, dim}}, {}, {64, 48}}}},
               Pattern::per_group, {"dp_replicate"});
  };
  on_ranks(2, [&](Communicator& ranks) {
    Job job = job_as(two, {64, 3, 16}, 2, ranks.rank());
    job.advance_to(2);
    save(ranks, job.components(), job.request(path));
  });
  on_ranks(6, [&](Communicator& ranks) {
    for (Job job : {job_as(three, {64, 48}, 1, ranks.rank()), job_as(three, {64, 3, 16}, 2, ranks.rank()),
                    job_as(three, {64, 48}, 0, ranks.rank())}) {
      load(ranks, job.world(), CheckpointReader(checkpoint_folder(path, 2)), job.components());
      if (job.wrong_bytes(2) != 0) fail(ExitCode::bug, "{} wrong bytes", job.wrong_bytes(2));
    }
  });
}

BOOST_FIXTURE_TEST_CASE(a_block_that_is_damaged_ends_the_load_on_all_ranks_and_the_next_load_is_right,
                        TemporaryFolder) {
  const Path checkpoint = saved(shards, 211, 101, path);
  const CheckpointReader before(checkpoint);
  const IndexedPiece& piece = *before.pieces_of(before.number_of("model/a"))[2];
  const Path part = checkpoint / before.manifest().files[piece.file].path;
  const std::size_t at = piece.record.offset + 1000;
  const std::string right = read_file(part);
  std::string wrong = right;
  wrong[at] = static_cast<char>(wrong[at] ^ 1);
  for (const Cut* to : {&alone, &replicas, &columns, &shards, &mixed}) {
    std::vector<std::string> messages(static_cast<std::size_t>(to->ranks()));
    publish_file(part, wrong);
    on_ranks(to->ranks(), [&](Communicator& ranks) {
      Job job = job_with(*to, 211, 101, ranks.rank());
      try {
        load(ranks, job.world(), CheckpointReader(checkpoint), job.components());
      } catch (const AgreedError& error) {
        if (error.code() == ExitCode::input) messages[static_cast<std::size_t>(ranks.rank())] = error.what();
      }
      ranks.barrier();
      if (ranks.rank() == 0) publish_file(part, right);
      ranks.barrier();
      load(ranks, job.world(), CheckpointReader(checkpoint), job.components());
      if (job.wrong_bytes(5) != 0) fail(ExitCode::bug, "{} wrong bytes", job.wrong_bytes(5));
    });
    for (const std::string& message : messages) {
      BOOST_TEST(message == messages.front());
      BOOST_TEST(message.find(part.string() + " is damaged: model/a ") != std::string::npos, message);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
