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
          {.kind = {"NVIDIA A100", versions}, .after_step = 600, .proposals = {{"a fp64 3 3", 1}}}};
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
  const auto with_devices = [](const std::string& devices) { return "{\"format\": 1, \"devices\": " + devices + "}"; };
  BOOST_TEST(parse_choices(with_devices("[]"), "products.json").empty());
  const std::string products_of_last = right.substr(right.rfind("\"products\": {"));
  std::vector<std::string> others{"",
                                  "garbage",
                                  "null",
                                  "[]",
                                  "{}",
                                  with_devices("3"),
                                  with_devices("null"),
                                  with_devices("{}"),
                                  with_devices("[3]"),
                                  with_devices("[{}]"),
                                  right.substr(0, right.size() / 2),
                                  changed("\"format\": 1", "\"format\": 2"),
                                  changed("\"format\": 1,", ""),
                                  changed("\"driver\"", "\"river\""),
                                  changed("\"NVIDIA H200\"", "7"),
                                  changed("\"NVIDIA H200\"", "\"NVIDIA A100\""),
                                  changed("\"after_step\": 600,", ""),
                                  changed(products_of_last, "\"products\": {}}]}"),
                                  changed(products_of_last, "\"products\": null}]}"),
                                  changed(products_of_last, "\"products\": [1, 2]}]}"),
                                  changed(products_of_last, "\"river\": 2}]}")};
  for (const char* const proposal : {": 8", ": -1", ": \"7\"", ": 0.5", ": null", ": 4294967296"})
    others.push_back(changed(": 7", proposal));
  for (const char* const step :
       {": 0", ": -1", ": 1.5", ": \"600\"", ": null", ": 9223372036854775807", ": 18446744073709551615"})
    others.push_back(changed(": 600", step));
  for (const std::string& text : others) {
    try {
      parse_choices(text, "run/products.json");
      BOOST_ERROR("it was read: " << text);
    } catch (const Error& error) {
      BOOST_TEST((error.code() == ExitCode::input));
      BOOST_TEST(std::string(error.what()).starts_with("run/products.json"), error.what());
      BOOST_TEST(error.hint().find("remove the file") != std::string::npos);
      BOOST_TEST(std::string(error.what()).find("json.exception") == std::string::npos, error.what());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_error_of_a_wrong_value_names_it) {
  const std::string right = to_json_text(two_kinds());
  const auto told = [&](const std::string& from, const std::string& to) {
    std::string text = right;
    try {
      parse_choices(text.replace(text.find(from), from.size(), to), "run/products.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it was read");
  };
  const std::string kind = "NVIDIA A100 (cublasLt 13.1.0, driver for CUDA 13.0)";
  BOOST_TEST(told(": 600", ": -1") ==
             "run/products.json: " + kind + ": after_step is -1: it has to be from 1 to 2147483647");
  BOOST_TEST(told(": 7", ": 8") ==
             "run/products.json: NVIDIA H200 (cublasLt 13.1.0, driver for CUDA 13.0): the proposal for 'a bf16 4 4' is "
             "8: it has to be from 0 to 7");
  BOOST_TEST(told("\"NVIDIA H200\"", "\"NVIDIA A100\"") == "run/products.json names " + kind + " twice");
  BOOST_TEST(told("\"format\": 1", "\"format\": 2") == "run/products.json has format 2; this program reads format 1");
}

BOOST_AUTO_TEST_SUITE_END()
