#include "program/layout_text.hpp"

#include "base/error.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(layout_texts)

using namespace lockstep;

namespace {

const UnitTypes types{DType::f32, DType::bf16, models::moments(DType::f32)};
const std::vector<ParameterPlan> parameters{{"wte", {5, 4}, {0}}, {"head", {7, 4}, {1}}};

ModelPlan two_blocks(const Sharding& sharding) {
  return models::plan_of({{"embedding", 1, 1, 0, 1, 2, false}, {"head", 1, 0, 0, 1, 2, false}}, parameters, types, 0,
                         sharding);
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_of_one_box_share_a_line) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"dp_shard", 2}});
  const auto tensors = tensor_layouts(mesh, two_blocks({{"dp_shard"}, 2}), parameters, types);
  BOOST_TEST(layout_text(tensors, types) ==
             R"(layout of 4 ranks: dp_replicate 2 x dp_shard 2
for its box of each tensor a rank keeps: weights fp32 and bf16, gradient fp32, exp_avg fp32, exp_avg_sq fp32
tensor  shape   unit       box         ranks
wte     (5, 4)  embedding  [0:3, 0:4]  0, 2
wte     (5, 4)  embedding  [3:5, 0:4]  1, 3
head    (7, 4)  head       [0:4, 0:4]  0, 2
head    (7, 4)  head       [4:7, 0:4]  1, 3
)");
  const std::string one = layout_text(tensors, types, 3);
  BOOST_TEST(one.find("[3:5, 0:4]  3\n") != std::string::npos);
  BOOST_TEST(one.find("[0:3") == std::string::npos);
  BOOST_CHECK_THROW(layout_text(tensors, types, 4), Error);
}

BOOST_AUTO_TEST_CASE(stages_hold_the_tensors_of_their_blocks_and_empty_boxes_are_left_out) {
  const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_shard", 6}});
  const ModelPlan plan = two_blocks({{"dp_shard"}, 6});
  const std::vector<PipelinePart> parts{{{0}, {0}}, {{1}, {1}}};
  const std::string text = layout_text(tensor_layouts(mesh, plan, parameters, types, parts), types);
  BOOST_TEST(text.find("wte     (5, 4)  embedding  [4:5, 0:4]  4\n") != std::string::npos);  // rank 5 has nothing
  BOOST_TEST(text.find("head    (7, 4)  head       [0:2, 0:4]  6\n") != std::string::npos);
  BOOST_TEST(text.find("head    (7, 4)  head       [6:7, 0:4]  9\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(of_many_boxes_the_first_and_the_last_are_shown) {
  const Mesh mesh = make_mesh("world", {{"dp_shard", 64}});
  const std::vector<ParameterPlan> wide{{"wte", {640, 4}, {0}}, {"head", {64, 4}, {1}}};
  const ModelPlan plan = models::plan_of({{"embedding", 1, 1, 0, 1, 2, false}, {"head", 1, 0, 0, 1, 2, false}}, wide,
                                         types, 0, {{"dp_shard"}, 64});
  const std::string text = layout_text(tensor_layouts(mesh, plan, wide, types), types);
  BOOST_TEST(text.find("… 64 boxes") != std::string::npos);
  BOOST_TEST(text.find("[630:640, 0:4]  63\n") != std::string::npos);
  BOOST_TEST(text.find("[300:") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
