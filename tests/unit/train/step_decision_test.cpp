#include "train/step_decision.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(step_decision)

namespace {

struct Row {
  const char* what;
  AfterStep facts;
  StepDecision expected;
};

const Row table[] = {
    {"an ordinary step", {}, {}},
    {"a save is due", {.save_due = true}, {.save = true}},
    {"an evaluation is due", {.evaluation_due = true}, {.evaluate = true}},
    {"both are due", {.save_due = true, .evaluation_due = true}, {.evaluate = true, .save = true}},
    {"each save has an evaluation", {.save_due = true, .evaluate_on_save = true}, {.evaluate = true, .save = true}},
    {"no save, no evaluation for it", {.evaluate_on_save = true}, {}},
    {"options of the end mean nothing before it", {.save_at_end = true, .evaluate_at_end = true}, {}},
    {"the last step", {.last = true}, {.ends = true}},
    {"the last step, saved", {.last = true, .save_at_end = true}, {.save = true}},
    {"the last step, evaluated", {.last = true, .evaluate_at_end = true}, {.evaluate = true, .ends = true}},
    {"the last step, both",
     {.last = true, .save_at_end = true, .evaluate_at_end = true},
     {.evaluate = true, .save = true}},
    {"a request to stop saves without an evaluation",
     {.stop = StopLevel::after_step, .evaluate_on_save = true},
     {.stopping = true, .save = true}},
    {"an evaluation that is due anyway comes before the save of a stop",
     {.stop = StopLevel::after_step, .evaluation_due = true},
     {.stopping = true, .evaluate = true, .save = true}},
    {"a request to stop after the last step changes nothing",
     {.stop = StopLevel::after_step, .last = true, .save_at_end = true, .evaluate_on_save = true},
     {.evaluate = true, .save = true}},
    {"a second request ends at once", {.stop = StopLevel::now}, {.ends = true}},
    {"a second request where a save is due", {.stop = StopLevel::now, .save_due = true}, {.save = true}},
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_row_of_facts_has_its_decision) {
  for (const Row& row : table) {
    const StepDecision found = decide(row.facts);
    BOOST_TEST_INFO(row.what);
    BOOST_TEST((found == row.expected));
  }
}

BOOST_AUTO_TEST_SUITE_END()
