/* The interface of plug-ins: shared objects of users, which train opens with --plugin FILE. A plug-in is one function,
 *   extern "C" const struct lockstep_plugin* lockstep_plugin(void);
 * that returns a table of what it brings: options of its own, schedules of the learning rate, update rules of weights,
 * losses, choices of what is recomputed, cuts into stages, orders of their passes, families of models, packings,
 * document readers, tokenizers, callbacks. All of it is plain C, so that any compiler will do, and nothing of Lockstep
 * is linked.
 *
 * Functions return null, or why they failed: a text that stays as it is until the same thread calls the plug-in again.
 * None may throw. Names are words of small letters, digits and _, begin with a letter, and are no built-in ones.
 * Strings and tables that a plug-in hands out stay for the life of the process. lockstep-plugin(7) tells more, and
 * example_plugin.cpp beside this file is a whole one. */
#ifndef LOCKSTEP_PLUGIN_H
#define LOCKSTEP_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSTEP_PLUGIN_VERSION 2

/* ---- options: --NAME.OPTION on the command line, a section NAME in files ---- */

enum lockstep_type { LOCKSTEP_INTEGER = 0, LOCKSTEP_NUMBER = 1, LOCKSTEP_TEXT = 2, LOCKSTEP_BOOLEAN = 3 };

struct lockstep_option {
  const char* name;
  enum lockstep_type type;
  const char* built_in; /* as a configuration says it: "0.5" */
  const char* help;     /* small letter first, no full stop */
  double min, max;      /* of integers and numbers; min > max: any */
  int fixed_on_resume;  /* 1: a run that goes on must have the same value */
};

/* The value of an option: the member of its type. */
struct lockstep_value {
  int64_t integer; /* of a boolean: 0 or 1 */
  double number;
  const char* text;
};

/* ---- schedules of the learning rate: schedule.name: NAME ---- */

struct lockstep_schedule_facts {
  double peak;          /* optimizer.lr */
  double start, min;    /* schedule.start_lr, schedule.min_lr */
  int64_t warmup_steps; /* the rate rises from start to peak before that step, without the plug-in */
  int64_t decay_steps;  /* the step at which the decay ends */
  int64_t steps;        /* of the run */
};

struct lockstep_schedule {
  const char* name;
  /* The rate of 0-based `step`, from warmup_steps on: finite, not negative. A pure function. */
  double (*rate)(const struct lockstep_value* options, const struct lockstep_schedule_facts* facts, int64_t step);
};

/* ---- update rules: optimizer.name: NAME, or that of a group ---- */

#define LOCKSTEP_MOST_STATES 4

struct lockstep_update {
  int64_t step; /* updates before this one */
  double lr;    /* of these weights at this step */
  double weight_decay;
};

/* What an element becomes hangs on it alone, so that weights may be cut over ranks and threads anywhere: several
 * threads call at once, each with `count` elements of the gradient (averaged, clipped), of weights and of each state,
 * which begins as zeros and is saved with checkpoints. */
struct lockstep_optimizer {
  const char* name;
  const char* states[LOCKSTEP_MOST_STATES + 1]; /* names of what is kept beside each weight, in its type; then null */
  const char* (*update_f32)(const struct lockstep_value* options, const struct lockstep_update* facts, int64_t count,
                            const float* gradient, float* weights, float* const* states);
  const char* (*update_f64)(const struct lockstep_value* options, const struct lockstep_update* facts, int64_t count,
                            const double* gradient, double* weights, double* const* states); /* null: not in fp64 */
};

/* ---- recomputation: train.recompute: NAME ---- */

struct lockstep_block {
  const char* name;     /* "layer.3" */
  int index, blocks;    /* of how many blocks, embedding and head included */
  int64_t stash_bytes;  /* kept from the forward of a micro-batch to its backward, where it is not recomputed */
  double forward_flops; /* of a micro-batch */
};

/* What a block keeps from forward though it is recomputed, as train.recompute_keeps says it. */
enum lockstep_keep { LOCKSTEP_ATTENTION = 1, LOCKSTEP_PROJECTIONS = 2, LOCKSTEP_MLP = 4, LOCKSTEP_EXPERTS = 8 };

struct lockstep_recompute {
  const char* name;
  /* Of a decoder block: less than 0 if it is not recomputed, else what it keeps all the same (of lockstep_keep), 0 for
   * nothing. A pure function. */
  int (*keeps)(const struct lockstep_value* options, const struct lockstep_block* block);
};

/* ---- stages of pipelines: parallel.stage_splitter: NAME ---- */

struct lockstep_splitter {
  const char* name;
  /* Puts into `first` the first block of each stage, ascending, 0 for the first stage. Blocks are called `names` and
   * cost a stage `costs`, FLOPs of a micro-batch forward and backward. A pure function. */
  const char* (*split)(const struct lockstep_value* options, int blocks, const char* const* names, const int64_t* costs,
                       int stages, int* first);
};

/* ---- orders of the passes of stages: parallel.schedule: NAME ---- */

/* How stages lie on the ranks of a pipeline, each of which has as many: of p ranks stage s lies on rank s mod p; or, as
 * a V, W, …, every other p stages from the last rank to the first. */
enum lockstep_placement { LOCKSTEP_LOOPED = 0, LOCKSTEP_V = 1 };

enum lockstep_pass_kind {
  LOCKSTEP_FORWARD = 0,
  LOCKSTEP_BACKWARD = 1,
  LOCKSTEP_BACKWARD_INPUT = 2, /* of a schedule that splits backward, in place of BACKWARD: the gradients of inputs */
  LOCKSTEP_BACKWARD_WEIGHT = 3 /* and later those of weights */
};

struct lockstep_pass {
  enum lockstep_pass_kind kind;
  int stage, micro_batch; /* from 0 */
};

struct lockstep_pipeline {
  int ranks, stages_per_rank, micro_batches;
};

struct lockstep_pipeline_schedule {
  const char* name;
  enum lockstep_placement placement;
  int stages_per_rank; /* where parallel.stages_per_rank does not say it */
  int splits_backward; /* 1: backward is two passes */
  /* Puts the passes of a rank into `passes`, in order: of each of its stages and each micro-batch one forward and one
   * backward (or the two halves) behind it, of a stage in the order of micro-batches. There are exactly stages_per_rank
   * · micro_batches · 2 (or 3). A pure function. That ranks do not wait for each other in a circle is proved before
   * the first step. */
  const char* (*order)(const struct lockstep_value* options, const struct lockstep_pipeline* pipeline, int rank,
                       struct lockstep_pass* passes);
};

/* ---- losses: train.loss: NAME ---- */

/* Of each of `rows` rows of logits (rows, vocabulary) the loss, and, unless derivative is null, what its derivative by
 * each logit is, (rows, vocabulary). A label that is not in [0, vocabulary) does not count: its loss and derivatives
 * are 0. Equal rows must give equal losses, or a run that goes on differs from one that was not stopped. */
struct lockstep_loss {
  const char* name;
  const char* (*rows_f32)(const struct lockstep_value* options, int64_t rows, int64_t vocabulary, const float* logits,
                          const int32_t* labels, double* losses, float* derivative);
  const char* (*rows_f64)(const struct lockstep_value* options, int64_t rows, int64_t vocabulary, const double* logits,
                          const int32_t* labels, double* losses, double* derivative); /* null: not in fp64 */
};

/* ---- families of models: a config.json whose model_type is NAME ---- */

/* Models whose blocks compute what those of a built-in family do, under words of their own. */
struct lockstep_family {
  const char* name;
  /* Of the text of a config.json of this family that of a built-in one which says the same; it stays until the same
   * thread calls the next time. A pure function. */
  const char* (*config)(const struct lockstep_value* options, const char* text, const char** built_in);
  /* Of the name of a tensor in files of this family that in files of the built-in one, which stays in the same way.
   * Null: they have the same names. */
  const char* (*tensor)(const struct lockstep_value* options, const char* name, const char** built_in);
};

/* ---- packings: data.packing, eval.packing: NAME ---- */

/* What a packing, a document reader or a tokenizer gives hangs on its input, on options that are fixed on resume, and
 * on a version, a text that its author changes with it: by these what has been made is known again. */

struct lockstep_packing {
  const char* name;
  const char* version;
  int64_t group; /* documents that share rows among themselves alone, where data.packing_group does not say it */
  /* Puts into `row` the row of each of `count` documents, numbered from 0 without a gap. The costs of those of a row,
   * which are tokens, add up to `length` at most; none is larger. A pure function; several threads call it. */
  const char* (*place)(const struct lockstep_value* options, int64_t count, const int64_t* costs, int64_t length,
                       int64_t* row);
};

/* ---- document readers: inputs whose names end as theirs do ---- */

enum lockstep_records { LOCKSTEP_TEXTS = 0, LOCKSTEP_JSON_OBJECTS = 1 };

struct lockstep_reader {
  const char* name;
  const char* version;
  const char* suffix; /* ".warc": of the names of files, in small letters */
  enum lockstep_records records; /* that `next` gives: texts, or what a line of a .jsonl file has */
  /* Several are open at once, each for one thread. */
  const char* (*open)(const struct lockstep_value* options, const char* path, void** self);
  /* The next one, in UTF-8, which stays until the next call; null at the end. */
  const char* (*next)(void* self, const char** record, int64_t* bytes);
  void (*close)(void* self);
};

/* ---- tokenizers: data.tokenizer: NAME ---- */

/* Several threads call at once. */
struct lockstep_tokenizer {
  const char* name;
  const char* version;
  const char* (*make)(const struct lockstep_value* options, void** self);
  void (*drop)(void* self);
  int64_t (*vocabulary)(void* self);  /* V: every id is below it */
  int64_t (*end_of_text)(void* self); /* the id that joins documents; less than 0: none */
  /* Puts the ids of a text in UTF-8 into `ids` if there is room for them, and in any case how many they are into
   * `count`. */
  const char* (*encode)(void* self, const char* text, int64_t bytes, int32_t* ids, int64_t room, int64_t* count);
  /* The bytes of the text of ids, in the same way. */
  const char* (*decode)(void* self, const int32_t* ids, int64_t count, char* text, int64_t room, int64_t* bytes);
  /* A place in the text, as far behind as is known, at which it may be cut whatever stands before and behind it: ids of
   * the parts, one after the other, are those of the whole. 0: none. Null: texts are never cut, and each is held whole.
   */
  int64_t (*last_cut)(void* self, const char* text, int64_t bytes);
};

/* ---- callbacks: train.callbacks: [NAME] ---- */

/* When a callback is called, on every rank, unless it says otherwise. What facts hold then: lockstep_facts. */
enum lockstep_event {
  LOCKSTEP_RUN_BEGIN = 0,   /* before the first step of a start; state is loaded */
  LOCKSTEP_EPOCH_BEGIN = 1, /* before the first step that begins in an epoch */
  LOCKSTEP_STEP_BEGIN = 2,
  LOCKSTEP_MICRO_BATCH_END = 3, /* this rank's last backward of a micro-batch is done */
  LOCKSTEP_BEFORE_UPDATE = 4,   /* gradients are complete and clipped; not where the step is skipped */
  LOCKSTEP_UPDATED = 5,
  LOCKSTEP_STEP_END = 6,
  LOCKSTEP_LOGGED = 7, /* a step record was written */
  LOCKSTEP_EPOCH_END = 8,
  LOCKSTEP_EVALUATION_BATCH_END = 9,
  LOCKSTEP_EVALUATED = 10, /* one set is evaluated */
  LOCKSTEP_SAVED = 11,     /* a checkpoint is there */
  LOCKSTEP_RUN_END = 12    /* of a start that is not cut short by a failure */
};

/* Equal on all ranks but for rank and micro_batch; what an event does not tell is as it was last. NaN: not known. */
struct lockstep_facts {
  int64_t step;                   /* steps done */
  int64_t steps;                  /* of the run */
  int64_t epoch;                  /* of the next sample */
  int64_t tokens;                 /* trained on */
  int64_t micro_batch;            /* of MICRO_BATCH_END */
  double loss, gradient_norm, lr; /* of the last step */
  int updated;                    /* whether it changed weights */
  const char* evaluated;          /* of EVALUATED: the name of the set; else null */
  double eval_loss;               /* the last one */
  const char* checkpoint;         /* of SAVED: the folder; else null */
};

/* What a callback may ask for, behind the next step; the ranks' requests are merged. */
enum lockstep_request { LOCKSTEP_LOG = 1, LOCKSTEP_EVALUATE = 2, LOCKSTEP_SAVE = 4, LOCKSTEP_STOP = 8 };

/* What a callback may call; `host` is its own. */
struct lockstep_host {
  void* self;
  int rank, ranks;
  uint64_t seed;                        /* train.seed */
  const struct lockstep_value* options; /* in the order of declaration */
  /* Asks for what `requests` (of lockstep_request) name. */
  void (*ask)(const struct lockstep_host* host, unsigned requests);
  /* Rank 0: an event record "callback_note", and a log line. On other ranks without effect. */
  void (*note)(const struct lockstep_host* host, const char* text);
  /* 64 random bits of a generator that each callback that draws has on each rank; else null. How far it has come is
   * saved; on other ranks than it was saved by it begins anew, with other numbers. */
  uint64_t (*draw)(const struct lockstep_host* host);
};

enum lockstep_state { LOCKSTEP_NO_STATE = 0, LOCKSTEP_STATE_OF_RUN = 1, LOCKSTEP_STATE_OF_RANK = 2 };

struct lockstep_callback {
  const char* name;
  enum lockstep_state state; /* OF_RUN: equal on all ranks, and on any ranks; OF_RANK: lost on other ranks */
  int draws;                 /* 1: it draws random numbers */
  /* `host` stays until drop. */
  const char* (*make)(const struct lockstep_host* host, void** self);
  void (*drop)(void* self);
  /* What it says of a failure is a warning; the run goes on. */
  const char* (*event)(void* self, enum lockstep_event event, const struct lockstep_facts* facts);
  const char* (*save)(void* self, const char** text); /* UTF-8; stays until the next call */
  const char* (*load)(void* self, const char* text);
};

/* ---- the table ---- */

/* Lists end with an entry whose name is null; a null list is empty. */
struct lockstep_plugin {
  int version;      /* LOCKSTEP_PLUGIN_VERSION */
  const char* name; /* and of its section */
  const char* help; /* what it brings, in a line */
  const struct lockstep_option* options;
  const struct lockstep_schedule* schedules;
  const struct lockstep_optimizer* optimizers;
  const struct lockstep_callback* callbacks;
  const struct lockstep_recompute* recomputes;
  const struct lockstep_splitter* splitters;
  const struct lockstep_pipeline_schedule* pipeline_schedules;
  const struct lockstep_loss* losses;
  const struct lockstep_family* families;
  const struct lockstep_packing* packings;
  const struct lockstep_reader* readers;
  const struct lockstep_tokenizer* tokenizers;
};

#ifdef __cplusplus
}
#endif

#endif
