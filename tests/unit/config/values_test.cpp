#include "config/values.hpp"
#include "base/error.hpp"
#include "config/reshard_config.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace lockstep;

namespace {

template <class T>
bool refused(const std::string& text) {
  try {
    T::parse(text);
    return false;
  } catch (const Error& error) {
    return error.code() == ExitCode::usage;
  }
}

template <class T>
void round_trips(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const T value = T::parse(text);
    BOOST_TEST((T::parse(value.text()) == value), text);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(values)

BOOST_AUTO_TEST_CASE(the_text_of_a_value_reads_back_to_it) {
  round_trips<Seconds>({"0", "0.25", "59", "90s", "15m", "1h", "1h30m", "2h15m10s", "1d", "123456789012h",
                        "9007199254740993s", "1e+18s"});
  round_trips<ByteSize>({"0", "512", "64MiB", "5GB", "1.5KiB"});
  round_trips<AfterForward>({"true", "false", "2", "16"});
  round_trips<Recompute>({"none", "block", "every:1", "every:2", "every:40"});
  round_trips<RanksPerFile>({"node", "1", "8"});
  round_trips<PartChoice>({"1/1", "2/3", "1000/1000"});
  round_trips<SaveInterval>({"auto", "90s", "15m", "1h30m", "0.001s"});
  round_trips<Cadence>({"never", "1", "100 steps", "1 step", "0.5 epochs", "2epoch", "1e-3 epochs", "90s", "10m",
                        "10 minutes", "1 hour", "1.5 days", "1h30m", "500 steps + 1 epochs", "7 + 90s + 0.5 epoch"});
  round_trips<Delay>({"0", "0 steps", "1 step", "100", "0.5 epochs", "2 epoch"});
  round_trips<CheckpointChoice>({"best", "last", "0", "1200"});
  round_trips<Resume>({"auto", "never", "latest", "best", "0", "1200", "runs/a/checkpoints/step-5", "./x"});
  round_trips<ValidationSplit>({"none", "hash:0.01", "tail:0.1"});
  round_trips<TokenizerChoice>({"bytes", "chars", "gpt2/tokenizer.json"});
  round_trips<ReshardTarget>({"parts=4", "{\"parts\": 2}", "tp=2,dp_shard=4", "dp_replicate=3,parts=2",
                              "ep=2,ep_outside=true,dp_shard=4", R"({"ep": 2, "ep_outside": true, "dp_shard": 2})",
                              "ep=2,ep_outside=false,dp_shard=4,parts=3",
                              R"({"pp": 2, "ulysses": 3, "ring": 2, "parts": 12})"});
  round_trips<MetadataEntry>({"team=vision", "a.b-c_1=", "note=first = try"});
  round_trips<PlotTarget>({"text", "step.svg", "a/b.json"});
  round_trips<NamePattern>({"lm_head", "^h\\.[0-9]+\\.mlp"});
}

BOOST_AUTO_TEST_CASE(a_cadence_is_in_steps_epochs_or_time) {
  BOOST_TEST(Cadence::parse("7").steps == 7);
  BOOST_TEST((Cadence::parse("7").text() == "7 steps" && Cadence::parse("1").text() == "1 step"));
  BOOST_TEST((Cadence::parse("0.5 epochs").epochs == 0.5 && Cadence::parse("0.5 epochs").text() == "0.5 epochs"));
  BOOST_TEST((Cadence::parse("10 minutes").time.value == 600 && Cadence::parse("10m") == Cadence::parse("10 minutes")));
  BOOST_TEST(!Cadence::parse("never"));
  BOOST_TEST(bool(Cadence::parse("1e-3s")));
  const Cadence several = Cadence::parse("1 epoch + 1h + 500");
  BOOST_TEST((several.steps == 500 && several.epochs == 1 && several.time.value == 3600));
  BOOST_TEST(several.text() == "500 steps + 1 epochs + 1h");
  BOOST_TEST((!Delay::parse("0") && !Delay::parse("0 epochs") && Delay::parse("3").steps == 3));
}

BOOST_AUTO_TEST_CASE(texts_of_another_form_are_refused) {
  for (const char* const text :
       {"",      "0",         "-3",        "1.5",         "1.5 steps",          "0 epochs", "1e-12 epochs",
        "soon",  "5 parsecs", "inf",       "nan epochs",  "3000000000",         "0s",       "steps",
        "often", "2 steps 3", "5 + never", "5 steps + 7", "1 epoch + 2 epochs", "1m + 1h",  "5 +",
        " + 5",  "5 + 0"})
    BOOST_TEST(refused<Cadence>(text), text);
  for (const char* const text : {"", "-1", "1.5", "90s", "1e-12 epochs", "3000000000", "soon", "never"})
    BOOST_TEST(refused<Delay>(text), text);
  for (const char* const text : {"", "newest", "-1", "1.5", "step-3"})
    BOOST_TEST(refused<CheckpointChoice>(text), text);
  for (const char* const text : {"", "soon", "-5s", "inf", "5 parsecs", "9007199254740993h"})
    BOOST_TEST(refused<Seconds>(text), text);
  for (const char* const text : {"", "0", "-5s", "never", "inf", "5 parsecs"})
    BOOST_TEST(refused<SaveInterval>(text), text);
  for (const char* const text : {"", "0", "-1", "nodes", "2147483648"}) BOOST_TEST(refused<RanksPerFile>(text), text);
  for (const char* const text : {"", "1", "/", "1/", "/2", "0/2", "3/2", "-1/2", "1/0", "1/2/3", "1.5/2"})
    BOOST_TEST(refused<PartChoice>(text), text);
  for (const char* const text : {"", "big", "-1", "inf", "5 apples"}) BOOST_TEST(refused<ByteSize>(text), text);
  for (const char* const text : {"", "all", "every", "every:", "every:0", "every:-1", "every:two", "every:3000000000"})
    BOOST_TEST(refused<Recompute>(text), text);
  for (const char* const text : {"", "0", "1", "-2", "2.5", "some"}) BOOST_TEST(refused<AfterForward>(text), text);
  for (const char* const text : {"", "newest", "-1", "1.5"}) BOOST_TEST(refused<Resume>(text), text);
  for (const char* const text :
       {"", "hash", "hash:", "hash:1", "tail:0", "tail:-0.1", "tail:nan", "head:0.1", "tail:0.1x"}) {
    BOOST_TEST(refused<ValidationSplit>(text), text);
  }
  for (const char* const text : {"",
                                 "parts=0",
                                 "parts=",
                                 "4",
                                 "{\"parts\": 0}",
                                 "{\"parts\": \"2\"}",
                                 "{",
                                 "{\"pieces\": 2}",
                                 "{}",
                                 "tp=2,",
                                 "tp=2,tp=2",
                                 "tp=2 dp_shard=2",
                                 "tp_keys=2",
                                 "dp_shard=2,parts=3",
                                 "parts=2,parts=2",
                                 "tp=70000",
                                 "tp=4096,pp=4096",
                                 "{\"tp\": 2.5}",
                                 "ep_outside=true",
                                 "ep=1,ep_outside=true",
                                 "ep=2,dp_shard=2,ep_outside",
                                 "ep=2,dp_shard=2,ep_outside=far",
                                 "ep=2,ep_outside=true,ep_outside=true",
                                 R"({"ep": 2, "ep_outside": 1})",
                                 "ep=2,dp_shard=2,run.yaml",
                                 "there/is/no.yaml"}) {
    BOOST_TEST(refused<ReshardTarget>(text), text);
  }
  for (const char* const text : {"", "team", "=vision", "my team=vision", "team=a\nb"})
    BOOST_TEST(refused<MetadataEntry>(text), text);
  for (const char* const text : {"", "svg", "step.png"}) BOOST_TEST(refused<PlotTarget>(text), text);
  BOOST_TEST(refused<NamePattern>("(unclosed"));
  BOOST_TEST(refused<NamePattern>(std::string(2000, '(') + std::string(2000, ')')));  // no stack is exhausted
  BOOST_TEST(refused<NamePattern>(std::string(5000, 'a')));
}

BOOST_AUTO_TEST_CASE(a_pattern_is_looked_for_anywhere_in_a_name) {
  BOOST_TEST(NamePattern::parse("mlp").matches("model.layers.0.mlp.up_proj.weight"));
  BOOST_TEST(!NamePattern::parse("^mlp").matches("model.layers.0.mlp.up_proj.weight"));
  BOOST_TEST(NamePattern::parse("bias$|norm").matches("ln_f.norm.weight"));
  BOOST_TEST(!NamePattern().matches("anything"));
  BOOST_TEST(NamePattern::parse("^h\\.(?:[0-3]|1[01])\\.[[:alpha:]]+").matches("h.11.attn"));
}

BOOST_AUTO_TEST_CASE(a_pattern_that_would_search_for_ever_is_an_error) {
  const NamePattern pattern = NamePattern::parse("(.+.+)+[!?]");
  BOOST_CHECK_EXCEPTION(
      pattern.matches("model.layers.0.mlp.up_proj.weight.of.a.name.that.is.long"), Error, [](const Error& error) {
        return error.code() == ExitCode::usage && std::string(error.what()).find("too many steps") != std::string::npos;
      });
}

BOOST_AUTO_TEST_SUITE_END()
