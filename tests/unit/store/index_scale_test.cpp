#include "harness/large_checkpoint.hpp"
#include "harness/temporary_folder.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/inspect.hpp"
#include "store/lost_elements.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(index_scale)

namespace {

constexpr std::size_t tensors = 6000;
constexpr std::uint64_t most_bytes = 5'000'000;  // of an index

}  // namespace

BOOST_FIXTURE_TEST_CASE(an_index_of_thousands_of_ranks_is_small_and_reads_back_as_it_was, TemporaryFolder) {
  for (const auto& [name, job, ranks_of_a_part] :
       {std::tuple("tp8-fsdp1024", test::tp_by_fsdp(8, 1024), 8),
        std::tuple("tp8-fsdp1024-a-part-a-rank", test::tp_by_fsdp(8, 1024), 1),
        std::tuple("pp16-dp625", test::pp_by_dp(16, 625), 8)}) {
    make_folder(path / name);
    const Manifest saved = test::large_manifest(job, tensors, 1, ranks_of_a_part);
    BOOST_TEST(saved.tensors.size() == tensors);
    BOOST_TEST(test::write_large(path / name, saved) <= most_bytes, name);
    BOOST_TEST(*length_of(path / name / manifest_file) <= most_bytes, name);
    const Manifest read = read_manifest(path / name);
    BOOST_TEST((read.nodes.size() == saved.nodes.size() && read.nodes.back().ranks == saved.nodes.back().ranks));
    BOOST_REQUIRE(read.files.size() == saved.files.size() + 1);
    bool same = read.tensors.size() == tensors;
    for (std::size_t i = 0; i < tensors && same; ++i) {
      same = full_name(read.tensors[i]) == full_name(saved.tensors[i]) &&
             read.tensors[i].layout == saved.tensors[i].layout && read.tensors[i].files == saved.tensors[i].files &&
             read.tensors[i].fingerprint == saved.tensors[i].fingerprint;
    }
    for (std::size_t i = 0; i < saved.files.size() && same; ++i)
      same = read.files[i].path == saved.files[i].path && read.files[i].writers == saved.files[i].writers &&
             read.files[i].hash == saved.files[i].hash;
    BOOST_TEST(same, name);
  }
}

BOOST_FIXTURE_TEST_CASE(an_index_does_not_grow_with_the_ranks_of_a_part, TemporaryFolder) {
  std::vector<std::uint64_t> bytes;
  for (const int tp : {1, 8}) {  // as many parts, each of as many ranks
    const Path folder = path / std::to_string(tp);
    make_folder(folder);
    bytes.push_back(test::write_large(folder, test::large_manifest(test::tp_by_fsdp(tp, 1024 / tp), tensors, 1)));
  }
  BOOST_TEST(bytes[1] < bytes[0] + 10'000);  // the layouts of matrices that are cut
}

BOOST_FIXTURE_TEST_CASE(equal_states_of_different_jobs_are_equal_by_their_indexes_alone, TemporaryFolder) {
  Manifest other = test::large_manifest(test::pp_by_dp(16, 625), tensors, 1);
  other.tensors[4711].fingerprint.first ^= 1;
  const std::string changed = full_name(other.tensors[4711]);
  for (const char* const name : {"a", "b", "c"}) make_folder(path / name);
  test::write_large(path / "a", test::large_manifest(test::tp_by_fsdp(8, 1024), tensors, 1));
  test::write_large(path / "b", test::large_manifest(test::pp_by_dp(16, 625), tensors, 1));
  test::write_large(path / "c", std::move(other));  // no part is there
  const CheckpointReader a(path / "a"), b(path / "b"), c(path / "c");
  BOOST_TEST((a.manifest().state_digest == b.manifest().state_digest));
  BOOST_TEST(compare(a, b).text == "6000 equal, 0 different\n");
  const InspectAnswer answer = compare(a, c);
  BOOST_TEST(answer.text == changed + ": different content\n5999 equal, 1 different\n");
}

BOOST_FIXTURE_TEST_CASE(what_one_part_of_a_thousand_takes_with_it_is_its_ranks_rows, TemporaryFolder) {
  test::write_large(path, test::large_manifest(test::tp_by_fsdp(8, 1024), tensors, 1));
  const CheckpointReader reader(path);
  const Losses losses = find_losses(reader, VerifyLevel::sizes, {reader.manifest().files[3].path});
  BOOST_TEST(losses.tensors.size() == tensors);
  std::int64_t expected = 0;
  for (const auto& [name, shape, tp_dim] : test::large::matrices_of_a_layer()) {  // whole rows of each of eight shares
    const std::int64_t shares = tp_dim == 0 ? 8 : 1, columns = elements(shape) / shape[0];
    expected += shares * ceil_div(shape[0] / shares, 1024) * columns;
  }
  std::int64_t found = 0;
  for (const LostTensor& lost : losses.tensors)
    if (lost.name.starts_with("optimizer/exp_avg/model.layers.7.")) found += lost.elements;
  BOOST_TEST(found == expected);
  for (const LostTensor& lost : losses.tensors) {
    if (lost.name == "model/model.layers.7.mlp.down_proj.weight")  // all columns: tp lies on the node
      BOOST_TEST((lost.boxes == std::vector<Box>{{{48, 0}, {16, 53248}}}));
    if (lost.name == "model/model.layers.7.mlp.up_proj.weight") BOOST_TEST(lost.boxes.size() == 8u);  // rows of each
  }
}

BOOST_FIXTURE_TEST_CASE(a_table_of_a_part_of_eight_of_these_ranks_reads_back, TemporaryFolder) {
  const PartTable table = test::large_table(test::large_manifest(test::tp_by_fsdp(8, 1024), tensors, 1));
  Hdf5File part = Hdf5File::create(path / "part");
  const TableColumns columns = add_table(part, table);
  part.close();
  const PartTable read = read_part_table(path / "part", columns, hash_of(table));
  BOOST_TEST(read.pieces.size() == table.pieces.size());
  BOOST_TEST(read.pieces.size() > 40'000u);
  BOOST_TEST((hash_of(read) == hash_of(table)));
  BOOST_TEST(*length_of(path / "part") <= 8'000'000u);
}

BOOST_AUTO_TEST_SUITE_END()
