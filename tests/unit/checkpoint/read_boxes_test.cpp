#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/run_directory.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <utility>
#include <vector>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(read_boxes)

namespace {

/// A checkpoint of step 1 with one tensor, model/x, whose elements all differ from their neighbours.
struct LargeTensor : TemporaryFolder {
  const Shape shape{9000, 2100};  // 75.6 MB: pieces of more than a block, whose ends fall within rows
  std::vector<std::uint32_t> values;

  LargeTensor() : values(static_cast<std::size_t>(elements(shape))) {
    const World all = single_axis_world(1);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i * 2654435761u);
    Component component;
    component.key = "model";
    component.collect = [&] {
      StateTree tree;
      tree.add("x", replicated(shape, DType::u32, all.mesh), std::as_writable_bytes(std::span(values)));
      return tree;
    };
    save(*solo_communicator(), {component}, {path, 1, all});
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(pieces_of_several_blocks_are_read_by_any_box, LargeTensor) {
  const CheckpointReader reader(checkpoint_folder(path, 1));
  std::size_t most_blocks = 0;
  for (const IndexedPiece* piece : reader.pieces_of(0))
    most_blocks = std::max(most_blocks, piece->record.blocks.size());
  BOOST_TEST(most_blocks > 1u);
  for (const Box& box : std::vector<Box>{
           {{0, 2099}, {9000, 1}}, {{990, 0}, {30, 2100}}, {{4321, 17}, {1500, 3}}, {{8999, 2099}, {1, 1}}}) {
    std::vector<std::uint32_t> read(static_cast<std::size_t>(elements(box)));
    reader.read("model/x", box, std::as_writable_bytes(std::span(read)));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < elements(box); ++i) {
      const std::int64_t at = (box.begin[0] + i / box.extent[1]) * shape[1] + box.begin[1] + i % box.extent[1];
      wrong += read[static_cast<std::size_t>(i)] != values[static_cast<std::size_t>(at)];
    }
    BOOST_TEST(wrong == 0);
  }
}

BOOST_FIXTURE_TEST_CASE(boxes_that_are_read_together_take_each_block_once, LargeTensor) {
  const Shape view{9000, 3, 700};
  const auto value_at = [&](const Shape& as, const Box& box, std::int64_t i) {
    std::int64_t at = 0, stride = 1;
    for (std::size_t d = as.size(); d-- > 0; i /= box.extent[d], stride *= as[d])
      at += (box.begin[d] + i % box.extent[d]) * stride;
    return values[static_cast<std::size_t>(at)];
  };
  const std::vector<std::pair<Shape, std::vector<Box>>> cases{
      {shape, {{{0, 0}, {9000, 500}}, {{0, 500}, {9000, 1599}}, {{0, 2099}, {9000, 1}}}},
      {shape, {{{5000, 3}, {40, 7}}, {{0, 0}, {9000, 2100}}, {{4990, 0}, {100, 2100}}}},  // that lie in one another
      {view, {{{0, 0, 0}, {9000, 3, 350}}, {{0, 0, 350}, {9000, 3, 350}}}}};
  for (const auto& [as, boxes] : cases) {
    const CheckpointReader reader(checkpoint_folder(path, 1));
    std::vector<std::vector<std::uint32_t>> read;
    for (const Box& box : boxes) read.emplace_back(static_cast<std::size_t>(elements(box)));
    std::vector<StateBox> wanted;
    for (std::size_t i = 0; i < boxes.size(); ++i)
      wanted.push_back({boxes[i], std::as_writable_bytes(std::span(read[i]))});
    reader.read(*reader.find_tensor("model/x"), as, wanted);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      std::int64_t wrong = 0;
      for (std::int64_t k = 0; k < elements(boxes[i]); ++k)
        wrong += read[i][static_cast<std::size_t>(k)] != value_at(as, boxes[i], k);
      BOOST_TEST(wrong == 0);
    }
    BOOST_TEST(reader.bytes_read() >= 4 * values.size());
    BOOST_TEST(reader.bytes_read() <= 4 * values.size() + 10000);  // and tables
  }
}

BOOST_AUTO_TEST_SUITE_END()
