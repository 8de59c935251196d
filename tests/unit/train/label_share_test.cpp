#include "train/run_samples.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(label_shares)

using namespace lockstep;

BOOST_AUTO_TEST_CASE(a_dataset_without_counts_of_its_records_has_no_known_share) {
  BOOST_TEST(label_share_text({.tokens = 80, .trained_tokens = 20}) == "25.00 % of the tokens count: 20 of 80");
  for (const LabelCounts& unknown : {LabelCounts{}, LabelCounts{.tokens = 80}, LabelCounts{.trained_tokens = 20}}) {
    BOOST_TEST(label_share_text(unknown) == "not known: the dataset has no counts of its records");
    BOOST_TEST(!label_share(unknown).has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()
