// A plug-in whose faults a test chooses, by the variable FAULT; of rank 1 alone where RANK_1_ALONE is set. Without a
// fault its callback notes each event.
#include "plugin/lockstep_plugin.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

namespace {

bool has(const char* fault) {
  const char* const chosen = std::getenv("FAULT");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool here = std::getenv("RANK_1_ALONE") == nullptr || (rank != nullptr && std::strcmp(rank, "1") == 0);
  return here && chosen != nullptr && std::strcmp(chosen, fault) == 0;
}

lockstep_option options[] = {{"width", LOCKSTEP_INTEGER, "3", "a number", 1, 9, 0},
                             {"word", LOCKSTEP_TEXT, "plain", "a word", 0, 0, 0},
                             {"flag", LOCKSTEP_BOOLEAN, "true", "true or false", 0, 0, 0},
                             {nullptr, LOCKSTEP_TEXT, nullptr, nullptr, 0, 0, 0}};

lockstep_schedule schedules[] = {
    {"wild", [](const lockstep_value*, const lockstep_schedule_facts* facts,
                int64_t step) { return has("rate") && step == 3 ? std::nan("") : facts->peak; }},
    {nullptr, nullptr}};

template <class T>
const char* update(const lockstep_value*, const lockstep_update* facts, int64_t, const T*, T*, T* const*) {
  return has("update") && facts->step == 2 ? "cannot go on" : nullptr;
}

lockstep_optimizer optimizers[] = {{"still", {nullptr}, update<float>, nullptr},
                                   {nullptr, {nullptr}, nullptr, nullptr}};

struct Watch {
  const lockstep_host* host;
  std::string text;
};

const char* make(const lockstep_host* host, void** self) {
  *self = new (std::nothrow) Watch{host, {}};
  return has("make") ? "it was told not to" : nullptr;
}

const char* event(void* self, lockstep_event event, const lockstep_facts* facts) {
  static const char* const names[] = {
      "run_begin", "epoch_begin", "step_begin",           "micro_batch_end", "before_update", "updated", "step_end",
      "logged",    "epoch_end",   "evaluation_batch_end", "evaluated",       "saved",         "run_end"};
  Watch& watch = *static_cast<Watch*>(self);
  if (has("event") && event == LOCKSTEP_STEP_END && facts->step == 2) return "it was told to fail";
  if (has("end") && event == LOCKSTEP_RUN_END) return "it was told to fail at the end";
  std::string text = std::string(names[event]) + " " + std::to_string(facts->step);
  if (event == LOCKSTEP_MICRO_BATCH_END) text += " " + std::to_string(facts->micro_batch);
  if (event == LOCKSTEP_EVALUATED) text += std::string(" ") + facts->evaluated;
  if (event == LOCKSTEP_EPOCH_BEGIN) text += " " + std::to_string(facts->epoch);
  watch.host->note(watch.host, text.c_str());
  if (event == LOCKSTEP_STEP_END && facts->step == watch.host->options[0].integer)
    watch.host->ask(watch.host, LOCKSTEP_SAVE | LOCKSTEP_EVALUATE);
  return nullptr;
}

const char* save(void* self, const char** text) {
  if (has("save")) return "it was told not to save";
  Watch& watch = *static_cast<Watch*>(self);
  watch.text = has("utf8") ? "\xff" : "rank " + std::to_string(watch.host->rank);
  *text = watch.text.c_str();
  return nullptr;
}

lockstep_callback callbacks[] = {
    {"watch", LOCKSTEP_STATE_OF_RANK, 0, make, [](void* self) { delete static_cast<Watch*>(self); }, event, save,
     [](void* self, const char* text) -> const char* {
       const Watch& watch = *static_cast<Watch*>(self);
       return "rank " + std::to_string(watch.host->rank) == text ? nullptr : "this is another rank's";
     }},
    {nullptr, LOCKSTEP_NO_STATE, 0, nullptr, nullptr, nullptr, nullptr, nullptr}};

// The first half of the blocks keeps what attention gives.
lockstep_recompute recomputes[] = {{"halves",
                                    [](const lockstep_value* options, const lockstep_block* block) {
                                      if (std::strcmp(options[1].text, "odd") == 0) return 64;
                                      return block->index < block->blocks / 2 ? int(LOCKSTEP_ATTENTION) : -1;
                                    }},
                                   {nullptr, nullptr}};

// Stages after the first have as many blocks as `width` says.
const char* split(const lockstep_value* options, int blocks, const char* const* names, const int64_t* costs, int stages,
                  int* first) {
  if (has("split")) return "there is no way";
  if (std::strcmp(names[0], "embedding") != 0 || costs[1] <= 0) return "blocks are others";
  first[0] = has("stages") ? 1 : 0;
  for (int stage = 1; stage < stages; ++stage)
    first[stage] = blocks - (stages - stage) * static_cast<int>(options[0].integer);
  return nullptr;
}

lockstep_splitter splitters[] = {{"wide", split}, {nullptr, nullptr}};

/// What is not named here it does not bring.
lockstep_plugin make_table() {
  lockstep_plugin made = {};
  made.version = LOCKSTEP_PLUGIN_VERSION;
  made.name = "faulty";
  made.help = "faults for tests";
  made.options = options;
  made.schedules = schedules;
  made.optimizers = optimizers;
  made.callbacks = callbacks;
  made.recomputes = recomputes;
  made.splitters = splitters;
  return made;
}

lockstep_plugin table = make_table();

}  // namespace

extern "C" const lockstep_plugin* lockstep_plugin() {
  if (has("version")) table.version = 77;
  if (has("name")) table.name = "Not a word";
  if (has("section")) table.name = "optimizer";
  if (has("built_in")) options[0].built_in = "12";
  if (has("twice")) options[1].name = "width";
  if (has("lacks")) schedules[0].rate = nullptr;
  if (has("taken")) schedules[0].name = "cosine";
  if (has("states")) optimizers[0].states[0] = "Bad State";
  return has("nothing") ? nullptr : &table;
}
