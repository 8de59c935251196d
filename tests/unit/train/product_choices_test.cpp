// products.json: the choices of algorithms that a run keeps.
#include "base/error.hpp"
#include "train/product_search.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(product_choices)

using namespace lockstep;

namespace {

std::vector<ProductChoices> two_kinds() {
  const ProductVersions versions{"CUDA 13.0", "cublasLt 13.1.0"};
  return {{.kind = {"NVIDIA H200", versions}, .after_step = 1, .proposals = {{"a bf16 4 4", 7}, {"a fp32 1 \"2\"", 0}}},
          {.kind = {"NVIDIA A100", versions}, .after_step = 600, .proposals = {}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(choices_are_read_as_they_were_written) {
  const std::string text = to_json_text(two_kinds());
  BOOST_TEST((parse_choices(text, "products.json") == two_kinds()));
  BOOST_TEST(text.ends_with("}\n"));
  BOOST_TEST(parse_choices(to_json_text({}), "products.json").empty());
  for (const char* const part : {"\"NVIDIA H200\"", "\"CUDA 13.0\"", "\"cublasLt 13.1.0\"", "\"after_step\": 600"})
    BOOST_TEST(text.find(part) != std::string::npos, part);
}

BOOST_AUTO_TEST_CASE(other_contents_are_one_error_with_the_name_of_the_file) {
  const std::string right = to_json_text(two_kinds());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = right;
    BOOST_REQUIRE(text.find(from) != std::string::npos);
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {std::string("garbage"), std::string("[]"), std::string("{}"), std::string("{\"devices\": 3}"),
        std::string("{\"devices\": [{}]}"), right.substr(0, right.size() / 2), changed(": 7", ": 8"),
        changed(": 7", ": -1"), changed(": 7", ": \"7\""), changed(": 7", ": 0.5"), changed(": 7", ": 4294967296"),
        changed("\"driver\"", "\"river\""), changed(": 600", ": \"600\"")})
    try {
      parse_choices(text, "run/products.json");
      BOOST_ERROR("it was read: " << text);
    } catch (const Error& error) {
      BOOST_TEST((error.code() == ExitCode::input));
      BOOST_TEST(std::string(error.what()).starts_with("run/products.json"), error.what());
      BOOST_TEST(error.hint().find("remove the file") != std::string::npos);
    }
}

BOOST_AUTO_TEST_SUITE_END()
