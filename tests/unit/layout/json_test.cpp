#include "layout/layout_json.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "unit/layout/brute_force.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(layout_json)

BOOST_AUTO_TEST_CASE(layouts_and_meshes_read_back_as_they_were_written) {
  brute_force::Dice dice(1);
  for (int trial = 0; trial < 500; ++trial) {
    const Layout layout =
        trial % 4 == 0 ? dice.layout_of_experts(dice.shape(dice.roll(1, 3))) : dice.layout(dice.shape(dice.roll(0, 3)));
    const Mesh mesh = mesh_from_json(parse_json(to_text(to_json(layout.mesh)), "a"), "a");
    BOOST_REQUIRE((mesh == layout.mesh));
    BOOST_REQUIRE(
        (layout_from_json(parse_json(to_text(to_json(layout)), "a"), {make_mesh("expert", {}), mesh}, "a") == layout));
  }
}

BOOST_AUTO_TEST_CASE(the_text_form_is_the_documented_one) {
  const Layout layout{
      {9, 4}, DType::bf16, make_mesh("world", {{"pp", 1}, {"dp_shard", 4}}), {{{"dp_shard"}, 0, 2, 3}}, {{"pp", {0}}}};
  BOOST_TEST(
      to_text(to_json(layout)) ==
      R"({"global":[9,4],"dtype":"bf16","mesh":"world",)"
      R"("splits":[{"axes":["dp_shard"],"dim":0,"granule":2,"parts":3}],"pins":[{"axis":"pp","coordinates":[0]}]})");
  BOOST_TEST(to_text(to_json(layout.mesh)) ==
             R"({"id":"world","axes":[{"name":"pp","size":1,"stride":4},{"name":"dp_shard","size":4,"stride":1}]})");
  Mesh shared_out = make_mesh("world", {{"dp_shard", 4}});
  divide_experts(shared_out, 2, false, true);
  BOOST_TEST(to_text(to_json(shared_out)) ==
             R"({"id":"world","axes":[{"name":"dp_shard","size":4,"stride":1}],)"
             R"("expert_axes":[{"name":"ep_replicate","size":1,"stride":2},{"name":"ep_shard","size":2,"stride":2},)"
             R"({"name":"ep","size":2,"stride":1}]})");
}

BOOST_AUTO_TEST_CASE(damaged_layouts_are_input_errors_that_name_the_file) {
  const Mesh mesh = make_mesh("world", {{"dp_shard", 4}});
  const auto refused = [&](const std::string& text, const std::string& message) {
    BOOST_CHECK_EXCEPTION(layout_from_json(parse_json(text, "index"), {mesh}, "index"), Error, [&](const Error& error) {
      BOOST_TEST(std::string(error.what()).substr(0, message.size()) == message);
      return error.code() == ExitCode::input;
    });
  };
  refused(R"({"dtype":"fp32"})", "index: not a layout or mesh: ");
  refused(R"([1])", "index: not a layout or mesh: ");
  refused(R"({"global":[9],"dtype":"fp33","mesh":"world","splits":[],"pins":[]})", "index: unknown dtype fp33");
  refused(R"({"global":[-9],"dtype":"fp32","mesh":"world","splits":[],"pins":[]})",
          "index: shape (-9) has a negative extent");
  refused(R"({"global":[9],"dtype":"fp32","mesh":"mars","splits":[],"pins":[]})", "index: unknown mesh mars");
  refused(
      R"({"global":[9],"dtype":"fp32","mesh":"world","splits":[{"axes":["tp"],"dim":0,"granule":1,"parts":0}],"pins":[]})",
      "index: layout of a (9) tensor names axis tp, which mesh world does not have");
  BOOST_CHECK_EXCEPTION(
      mesh_from_json(parse_json(R"({"id":"w","axes":[{"name":"tp","size":0,"stride":1}]})", "m"), "m"), Error,
      [](const Error& error) { return std::string(error.what()).find("m: axis tp has size 0") == 0; });
  for (const char* strides :
       {R"("stride":3},{"name":"tp","size":2,"stride":1)", R"("stride":1},{"name":"tp","size":2,"stride":1)"})
    BOOST_CHECK_EXCEPTION(
        mesh_from_json(parse_json(R"({"id":"w","axes":[{"name":"dp","size":3,)" + std::string(strides) + "}]}", "m"),
                       "m"),
        Error, [](const Error& error) {
          return std::string(error.what()).find("but the axes of smaller stride have") != std::string::npos;
        });
  BOOST_CHECK_EXCEPTION(mesh_from_json(parse_json(R"({"id":"w","axes":[{"name":"tp","size":4,"stride":1}],)"
                                                  R"("expert_axes":[{"name":"ep","size":2,"stride":1}]})",
                                                  "m"),
                                       "m"),
                        Error, [](const Error& error) {
                          return std::string(error.what()) ==
                                 "m: mesh w has 4 ranks by its axes, but 2 by its expert axes";
                        });
}

BOOST_AUTO_TEST_SUITE_END()
