// The main of the tests that run in one process.
#define BOOST_TEST_MODULE lockstep
#include <boost/test/unit_test.hpp>
