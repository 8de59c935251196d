// Failures of a rank as others are told of them.
#include "comm/failure.hpp"

#include <boost/test/unit_test.hpp>

#include <new>
#include <stdexcept>
#include <string>

BOOST_AUTO_TEST_SUITE(failures)

using namespace lockstep;

namespace {

struct NoMemoryOfLibrary : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::optional<Error> translated(const std::exception& exception) {
  if (dynamic_cast<const NoMemoryOfLibrary*>(&exception) == nullptr) return std::nullopt;
  return Error(ExitCode::resources, std::string("the library says: ") + exception.what(), "use less");
}

template <class Exception>
Failure failure_of_throwing(const Exception& exception) {
  const auto alone = solo_communicator();
  return failure_of(std::make_exception_ptr(exception), *alone);
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_exception_of_a_library_is_a_bug_unless_it_is_translated) {
  BOOST_TEST((failure_of_throwing(NoMemoryOfLibrary("no memory")).code == ExitCode::bug));
  translate_exceptions(&translated);
  const Failure told = failure_of_throwing(NoMemoryOfLibrary("no memory"));
  BOOST_TEST((told.code == ExitCode::resources));
  BOOST_TEST(told.message == "the library says: no memory");
  BOOST_TEST(told.hint == "use less");
  BOOST_TEST((decode_failure(encode(told)) == told));
  BOOST_TEST((failure_of_throwing(std::runtime_error("other")).code == ExitCode::bug));
  BOOST_TEST((failure_of_throwing(std::bad_alloc()).code == ExitCode::resources));
  BOOST_TEST((failure_of_throwing(Error(ExitCode::storage, "disk full")).code == ExitCode::storage));
  translate_exceptions(nullptr);
  BOOST_TEST((failure_of_throwing(NoMemoryOfLibrary("no memory")).code == ExitCode::bug));
}

BOOST_AUTO_TEST_SUITE_END()
