#define BOOST_TEST_MODULE lockstep
#include <boost/test/unit_test.hpp>
