"""Fine-tuning by configs/finetune.yaml: labels are those of transformers, the loss falls, and the export is a model of transformers with the
same loss."""

import json
import random
import subprocess
import sys

from lockstep_testing import LLAMA_TINY, PATIENCE_S, SOURCE, needs, records, run

torch, transformers, tokenizers = map(needs, ["torch", "transformers", "tokenizers"])
h5py = needs("h5py")

CONFIG = SOURCE / "configs/finetune.yaml"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def drawn_chats(count, seed):
    """Conversations of one to three questions with their answers, some with a system message."""
    dice = random.Random(seed)
    chats = []
    for _ in range(count):
        chat = [{"role": "system", "content": "Add."}] if dice.random() < 0.3 else []
        for _ in range(dice.randrange(1, 4)):
            a, b = dice.randrange(20), dice.randrange(20)
            chat += [
                {"role": "user", "content": f"{a} plus {b}?"},
                {"role": "assistant", "content": f"It is {a + b}, é."},
            ]
        chats.append(chat)
    return chats


def write_chats(path, chats):
    path.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    return path


def write_model(folder, chats):
    """A folder as of the hub: a random Llama, a byte-level BPE and a chat template; returns model and tokenizer."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator([message["content"] for chat in chats for message in chat], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", chat_template=TEMPLATE
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = {**LLAMA_TINY, "vocab_size": 320, "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 1}
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config))
    model.save_pretrained(folder)
    return model, tokenizer


def masked_by_transformers(tokenizer, chat):
    told = tokenizer.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
    return told["input_ids"], told["assistant_masks"]


def masked_documents(dataset):
    tokens, mask, starts = [], [], []
    for path in sorted((dataset / "train").glob("tokens-*.h5")):
        with h5py.File(path) as file:
            starts += [len(tokens) + int(start) for start in file["documents"][:]]
            tokens += file["tokens"][:].tolist()
            mask += file["mask"][:].tolist()
    return [(tokens[a:b], mask[a:b]) for a, b in zip(starts, starts[1:] + [len(tokens)])]


def finetune(model, *words, ranks=None):
    return run("train", CONFIG, "--model.path", model, "--log.tensorboard", "false", *words, ranks=ranks)


def evaluated_loss(tmp, model, dataset):
    """The loss of a model over all of a dataset, by --eval-only."""
    done = finetune(
        model,
        "--data.path",
        dataset,
        "--eval.datasets",
        json.dumps([{"path": str(dataset), "split": "train"}]),
        "--data.sequence_length",
        128,
        "--precision.dtype",
        "fp32",
        "--train.run_dir",
        tmp / "none",
        "--eval-only",
    )
    return json.loads(done.stdout)


def test_the_masks_are_those_of_transformers_and_shown(tmp):
    chats = drawn_chats(60, 2)
    _, tokenizer = write_model(tmp / "model", chats)
    source = write_chats(tmp / "chats.jsonl", chats)
    run(
        "prepare-data",
        source,
        CONFIG,
        "--data.tokenizer",
        tmp / "model",
        "--data.validation",
        "none",
        "--output",
        tmp / "data",
    )
    expected = [masked_by_transformers(tokenizer, chat) for chat in chats]
    assert masked_documents(tmp / "data") == expected and all(0 < sum(mask) < len(mask) for _, mask in expected)
    shown = run("prepare-data", "--inspect", tmp / "data", "--samples.first", 5, "--samples.count", 1)
    answers = [message["content"] for message in chats[5] if message["role"] == "assistant"]
    assert [part.partition("⟧")[0] for part in shown.stdout.split("----- document 5")[1].split("⟦")[1:]] == [
        answer + "<|im_end|>" for answer in answers
    ], shown.stdout


def test_the_shipped_configuration_trains_on_one_rank_and_two_and_exports_a_model_of_transformers(tmp):
    chats = drawn_chats(300, 3)
    model, tokenizer = write_model(tmp / "model", chats)
    source = write_chats(tmp / "chats.jsonl", chats)
    words = [
        *("--data.path", source),
        *("--data.sequence_length", 128),
        *("--optimizer.lr", 3e-3),
        *("--precision.dtype", "fp32"),
        *("--train.global_batch", 8),
        *("--train.epochs", 4),
        *("--log.every", 1),
    ]
    losses = {}
    for ranks in [1, 2]:
        folder = tmp / f"run-{ranks}"
        done = finetune(tmp / "model", *words, "--train.run_dir", folder, ranks=ranks)
        losses[ranks] = [record["loss"] for record in records(folder, "step")]
        [facts] = [record["labels"] for record in records(folder, "run")]
        assert 0.1 < facts["share"] < 0.9 and facts["cut_documents"] == 0, facts
        assert f"{100 * facts['share']:.2f} % of the tokens count" in done.stderr, done.stderr
        evaluations = [record["loss"] for record in records(folder, "eval")]
        assert len(evaluations) >= 4 and evaluations[-1] < evaluations[0] < losses[ranks][0], evaluations
        assert losses[ranks][-1] < 0.5 * losses[ranks][0], losses[ranks]
    assert all(abs(a - b) < 1e-3 * a for a, b in zip(losses[1], losses[2], strict=True)), losses
    [exported] = (tmp / "run-2/export").iterdir()
    tuned = transformers.AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32)
    brought = transformers.AutoTokenizer.from_pretrained(exported)
    ids, mask = masked_by_transformers(tokenizer, chats[0])
    assert masked_by_transformers(brought, chats[0]) == (ids, mask)
    labels = torch.tensor([[token if counts else -100 for token, counts in zip(ids, mask)]])
    run(
        "prepare-data",
        write_chats(tmp / "one.jsonl", chats[:1]),
        CONFIG,
        "--data.tokenizer",
        tmp / "model",
        "--data.validation",
        "none",
        "--output",
        tmp / "one",
    )
    for weights, of_transformers in [(tmp / "model", model), (exported, tuned)]:
        with torch.no_grad():
            expected = of_transformers.eval()(input_ids=torch.tensor([ids]), labels=labels).loss.item()
        ours = evaluated_loss(tmp, weights, tmp / "one")
        assert abs(ours["loss"] - expected) < 1e-5 * expected and ours["tokens"] == sum(mask), (ours, expected)
    run("finalize-quantize", tmp / "run-2", "--which", "best", "--output", tmp / "tuned")
    page = (SOURCE / "man/lockstep-finetuning.7.in").read_text()
    program = page.partition('.\\" file: answer.py\n')[2].partition(".Ed")[0]
    assert "from_pretrained" in program
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert answer.returncode == 0 and answer.stdout.strip(), answer.stderr
