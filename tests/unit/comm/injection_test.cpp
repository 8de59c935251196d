#include "comm/injection.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(injection)

BOOST_AUTO_TEST_CASE(all_keys_are_read_in_any_order) {
  const Injection injection = parse_injection("kind=exit,step=3,phase=save.write,rank=2,code=4");
  BOOST_TEST((injection.kind == Injection::Kind::exit));
  BOOST_TEST((injection.phase == Phase::save_write));
  BOOST_TEST(injection.step == 3);
  BOOST_TEST(injection.rank == 2);
  BOOST_TEST(injection.code == 4);
}

BOOST_AUTO_TEST_CASE(every_phase_has_a_name_that_is_read_back) {
  for (int i = 0; i <= static_cast<int>(Phase::lane); ++i) {
    const Phase phase = static_cast<Phase>(i);
    BOOST_TEST((parse_phase(name_of(phase)) == phase), name_of(phase));
  }
  BOOST_TEST(!parse_phase("unknown").has_value());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_refused_with_the_accepted_words) {
  for (const auto& [text, reason] : std::initializer_list<std::pair<const char*, const char*>>{
           {"kind=explode", "there is no kind 'explode'"},
           {"rank=1", "it has no kind"},
           {"kind=throw,phase=lunch", "there is no phase 'lunch'"},
           {"kind=throw,rank=-1", "rank takes a number, not '-1'"},
           {"kind=flip,phase=forward", "kind flip needs phase save.plan: it flips one bit of the state to save"},
           {"kind=throw,when=now", "there is no key 'when'"},
           {"throw", "'throw' is not KEY=VALUE"},
           {"", "'' is not KEY=VALUE"}}) {
    const std::string expected = fmt::format("cannot read the injected failure '{}': {}", text, reason);
    BOOST_CHECK_EXCEPTION(parse_injection(text), Error, [&expected](const Error& error) {
      BOOST_TEST(error.what() == expected);
      return error.code() == ExitCode::usage && error.hint().find("save.commit") != std::string::npos &&
             error.hint().find("stall") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
