#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/json_form.hpp"
#include "base/json_integer.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(json)

BOOST_AUTO_TEST_CASE(values_that_nest_too_deep_are_refused_with_their_line) {
  const auto nested = [](int depth) {
    return "\n" + std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  BOOST_TEST(parse_json(nested(64), "x").is_array());
  for (const int depth : {65, 1000000}) {
    BOOST_CHECK_EXCEPTION(parse_json(nested(depth), "a.json"), Error, [](const Error& error) {
      return error.code() == ExitCode::input &&
             std::string(error.what()) == "a.json: line 2: values nest deeper than 64 levels";
    });
  }
  BOOST_TEST(parse_json("\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"", "x")
                 .is_string());  // text does not nest
  std::string row = "[";
  for (int i = 0; i < 1000; ++i) row += "[],";
  BOOST_TEST(parse_json(row + "[]]", "x").size() == 1001);
}

BOOST_AUTO_TEST_CASE(of_a_name_given_twice_the_last_counts_as_in_python) {
  const Json json = parse_json(R"({"a": {"x": 1, "y": 2}, "b": [1, 2], "a": {"y": 3}, "b": null, "\u0062": [4]})", "x");
  BOOST_TEST(to_text(json) == R"({"a":{"y":3},"b":[4]})");  // json.dumps(json.loads(…)) of Python 3
}

BOOST_AUTO_TEST_CASE(a_value_of_the_wrong_form_is_explained_in_our_words) {
  const auto problem = [](const auto& use) {
    try {
      use();
      return std::string();
    } catch (const nlohmann::json::exception& error) {
      return form_problem(error);
    }
  };
  const Json json = parse_json(R"({"a": 5, "b": [1]})", "x");
  BOOST_TEST(problem([&] { (void)json.at("shape"); }) == "the key 'shape' is missing");
  BOOST_TEST(problem([&] { (void)json.at("a").get<std::string>(); }) == "a value is number where string is expected");
  BOOST_TEST(problem([&] { (void)json.at("b").at(3); }) == "a value has the wrong form");
}

BOOST_AUTO_TEST_CASE(integers_that_do_not_fit_are_refused_and_never_cut) {
  BOOST_TEST(checked_cast<int>(std::int64_t{2147483647}, "parts") == 2147483647);
  BOOST_TEST(checked_cast<std::uint8_t>(255, "byte") == 255);
  BOOST_CHECK_EXCEPTION(
      checked_cast<int>(std::int64_t{2147483648}, "parts", ExitCode::usage), Error, [](const Error& error) {
        return error.code() == ExitCode::usage &&
               std::string(error.what()) == "parts is 2147483648: it has to be from -2147483648 to 2147483647";
      });
  BOOST_CHECK_THROW(checked_cast<unsigned>(-1, "count"), Error);
  BOOST_CHECK_THROW(checked_cast<std::int64_t>(std::uint64_t{1} << 63, "offset"), Error);
  BOOST_TEST(integer_from<int>(Json(7)) == 7);
  const auto refusal = [](const Json& value) {
    try {
      return fmt::format("taken as {}", integer_from<int>(value, "step"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string range = ": it has to be from -2147483648 to 2147483647";
  BOOST_TEST(refusal(Json(2147483648)) == "step is 2147483648" + range);
  BOOST_TEST(refusal(Json(std::uint64_t{1} << 63)) == "step is 9223372036854775808" + range);
  BOOST_TEST(refusal(Json(std::int64_t{-2147483649})) == "step is -2147483649" + range);
  BOOST_TEST(refusal(Json(1e300)) == "step is 1e+300 where an integer is expected");
  BOOST_TEST(refusal(Json(2.5)) == "step is 2.5 where an integer is expected");
  BOOST_TEST(refusal(Json("7")) == "step is string where an integer is expected");
}

BOOST_AUTO_TEST_SUITE_END()
