"""Chat templates are rendered as transformers renders them: whole conversations by templates in the manner of known families, and small
random templates and expressions by the environment that transformers makes of jinja2."""

import datetime
import json
import os
import pathlib
import random
import subprocess
import warnings

from chat_families import FAMILIES, KNOWN_TOOLS, MARKED
from lockstep_testing import PATIENCE_S, needs

PROBE = pathlib.Path(os.environ["LOCKSTEP_BUILD"]).resolve() / "tests/unit/chat/render-probe"
# Random conversations of each family; random expressions and templates are twenty times as many. The campaign of `make test-full` asks for more.
CHATS = int(os.environ.get("LOCKSTEP_CHATS", "300"))
WORDS = [
    "Hi",
    "the",
    "cat's",
    '"quoted"',
    "naïve",
    "日本語",
    "😀",
    "<|im_start|>user",
    "</think>",
    "<think>hm</think>",
    "[INST]",
    "\n",
    "\n\n",
    "  ",
    "\t",
    "\\n",
    "{{ x }}",
    "{% if %}",
    "<tool_call>",
    "1",
    "3.5",
    "&amp;",
    "'",
    "\u00a0",
    "\u2028",
    "İ",
    "ß",
    "Σ",
    "<<SYS>>",
    "a b",
    "",
]


def ours(requests):
    """What the probe says of each request: {"text", "generated"} or {"error"}."""
    run = subprocess.run(
        [PROBE],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
    assert len(answers) == len(requests)
    return answers


def theirs(request):
    """The text and the generated spans that transformers gives, in bytes; an exception if it raises one."""
    from transformers.utils.chat_template_utils import render_jinja_template

    warnings.simplefilter("ignore", SyntaxWarning)  # of the code that jinja2 makes
    text = request["template"]
    try:
        marked = "endgeneration" in text
        rendered, spans = render_jinja_template(
            [request["messages"]],
            tools=request.get("tools"),
            documents=request.get("documents"),
            chat_template=text,
            return_assistant_tokens_mask=marked,
            add_generation_prompt=request.get("add_generation_prompt", False),
            **request.get("variables", {}),
        )
    except Exception as error:  # whatever a template brings about: jinja2 lets errors of Python through
        return error
    at = [0]
    for character in rendered[0] if spans and spans[0] else "":
        at.append(at[-1] + len(character.encode()))
    if spans and any(end >= len(at) for _, end in spans[0]):  # of a text that a filter has made shorter since
        return {"text": rendered[0], "generated": None}
    return {"text": rendered[0], "generated": [[at[begin], at[end]] for begin, end in spans[0]] if spans else []}


def compare(requests):
    """Ours and theirs are equal, or both refuse. Returns how many were equal, refused by both, and not supported by ours."""
    equal, refused, lacking = 0, 0, {}
    for request, answer in zip(requests, ours(requests)):
        expected = theirs(request)
        where = f"{request['template'][:2000]}\n{json.dumps({name: value for name, value in request.items() if name != 'template'})[:2000]}\n"
        if isinstance(expected, Exception):
            assert "error" in answer, f"{where}gives {answer}, transformers refuses: {expected!r}"
            refused += 1
        elif "error" in answer and ("not supported" in answer["error"] or "<generator object" in expected["text"]):
            lacking[answer["error"]] = lacking.get(answer["error"], 0) + 1
        else:
            if expected["generated"] is None and "generated" in answer:
                expected["generated"] = answer["generated"]
            assert answer == expected, f"{where}gives    {answer}\nexpected {expected}"
            equal += 1
    return equal, refused, lacking


def compare_on_one_day(requests):
    """The same, once more if the day changed amid it: some templates put it out."""
    day = datetime.date.today()
    try:
        return compare(requests)
    except AssertionError:
        if day == datetime.date.today():
            raise
        return compare(requests)


def text(dice, most=6):
    return dice.choice(["", " ", ""]) + dice.choice([" ", "", "\n"]).join(
        dice.choice(WORDS) for _ in range(dice.randrange(most))
    )


def value(dice, depth=2):
    kind = dice.randrange(9 if depth else 6)
    return (
        [
            None,
            True,
            dice.randrange(-5, 1000),
            dice.choice([0.5, 1.0, 1e16, 1e-7, -2.25, 123456789.125]),
            text(dice),
            text(dice, 2),
        ][kind]
        if kind < 6
        else [value(dice, depth - 1) for _ in range(dice.randrange(3))]
        if kind == 6
        else {dice.choice(["city", "a b", "é", "n", "x"]): value(dice, depth - 1) for _ in range(dice.randrange(3))}
    )


def conversation(dice):
    """Messages as data sets have them: roles mostly in order, tool calls and their answers, reasoning, parts of content, what is odd."""
    messages = []
    if dice.random() < 0.5:
        messages.append({"role": "system", "content": text(dice)})
    for _ in range(dice.randrange(1, 5)):
        messages.append(
            {
                "role": "user",
                "content": text(dice)
                if dice.random() < 0.9
                else [{"type": "text", "text": text(dice)} for _ in range(dice.randrange(3))],
            }
        )
        if dice.random() < 0.25:
            call = {
                "name": dice.choice(["get_weather", "add"]),
                "arguments": value(dice) if dice.random() < 0.3 else {"city": text(dice, 3), "n": dice.randrange(9)},
            }
            wrapped = {"id": "call_00001", "type": "function", "function": call}
            messages.append(
                {
                    "role": "assistant",
                    "content": dice.choice([None, "", text(dice)]),
                    "tool_calls": [dice.choice([wrapped, wrapped, call])] * dice.randrange(1, 3),
                }
            )
            for _ in range(dice.randrange(1, 3)):
                messages.append(
                    {
                        "role": "tool",
                        "name": call["name"],
                        "tool_call_id": "call_00001",
                        "content": dice.choice([text(dice), json.dumps({"t": 3})]),
                    }
                )
        if dice.random() < 0.9:
            answer = {"role": "assistant", "content": text(dice)}
            if dice.random() < 0.3:
                answer[dice.choice(["reasoning_content", "thinking", "reasoning"])] = dice.choice([None, text(dice)])
            messages.append(answer)
    if dice.random() < 0.1:
        dice.shuffle(messages)
    return messages


def request_of(dice, template):
    request = {
        "template": template,
        "messages": conversation(dice),
        "add_generation_prompt": dice.random() < 0.5,
        "variables": {"bos_token": "<s>", "eos_token": "</s>"},
    }
    if dice.random() < 0.4:
        request["tools"] = dice.sample(KNOWN_TOOLS, dice.randrange(len(KNOWN_TOOLS) + 1))
    if dice.random() < 0.2:
        request["documents"] = [{"title": text(dice, 3), "text": text(dice)} for _ in range(dice.randrange(3))]
    for name, choices in {
        "enable_thinking": [True, False],
        "date_string": ["26 Jul 2024"],
        "add_default_system": [True],
        "citation_mode": ["accurate", "fast"],
    }.items():
        if dice.random() < 0.3:
            request["variables"][name] = dice.choice(choices)
    return request


def test_conversations_are_rendered_as_transformers_renders_them():
    needs("transformers")
    for name, template in {**FAMILIES, **MARKED}.items():
        dice = random.Random(f"families {name}")
        equal, refused, lacking = compare_on_one_day([request_of(dice, template) for _ in range(CHATS)])
        print(
            f"# {name}: {equal} conversations equal, {refused} refused by both, not supported: {lacking or 0}",
            flush=True,
        )
        assert not lacking and equal > CHATS / 5, name


ATOMS = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "1.5",
    "2.0",
    "1e3",
    "true",
    "false",
    "none",
    "''",
    "'a'",
    "'B c'",
    '"it\'s"',
    "'x,y,,z'",
    "'  pad '",
    "'naïve Σ'",
    "[]",
    "[1, 2, 3]",
    "['b', 'A', 'c']",
    "(1, 'a')",
    "()",
    "{}",
    "{'a': 1, 'b': [1]}",
    "{1: 'x', none: 2}",
    "undefined_name",
    "messages",
    "messages[0]",
    "messages[0].content",
    "messages[-1]['role']",
    "range(4)",
    "d",
    "d.k",
    "d['s']",
    "n",
    "t",
    "flag",
    "d.items()",
    "d.keys()",
    "l",
    "l[0]",
    "'%s-%s'",
    "'%05.2f'",
    "'a\\nb\\n\\nc'",
    "bos_token",
    "nested.a.b",
]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "**"]
FILTERS = [
    "trim",
    "upper",
    "lower",
    "title",
    "capitalize",
    "length",
    "count",
    "list",
    "first",
    "last",
    "int",
    "float",
    "string",
    "unique|list",
    "sort",
    "sort(reverse=true)",
    "reverse|list",
    "tojson",
    "tojson(indent=2)",
    "tojson(separators=(',', ':'))",
    "tojson(sort_keys=true)",
    "join",
    "join(', ')",
    "default('x')",
    "default('x', true)",
    "d(1)",
    "items|list",
    "dictsort",
    "sum",
    "min",
    "max",
    "abs",
    "round",
    "round(1)",
    "indent",
    "indent(2, true)",
    "indent(width='>', blank=true)",
    "replace('a', 'bb')",
    "replace('a', '', 1)",
    "select|list",
    "reject|list",
    "select('string')|list",
    "reject('none')|list",
    "map('upper')|list",
    "map('string')|join('-')",
    "map(attribute='role')|list",
    "selectattr('role', 'equalto', 'user')|list",
    "selectattr('content')|list",
    "rejectattr('role', 'in', ['user', 'system'])|list",
    "map(attribute='x', default=3)|list",
    "batch(2)|list",
    "wordcount",
    "center(9)",
    "truncate(5, true)",
    "format(1, 2)",
    "groupby('role')",
    "select",
    "map('upper')",
    "items",
    "attr('role')",
    "trim('a ')",
    "length|string",
    "tojson|length",
]
TESTS = [
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "integer",
    "float",
    "boolean",
    "mapping",
    "sequence",
    "iterable",
    "callable",
    "true",
    "false",
    "odd",
    "even",
    "lower",
    "upper",
    "divisibleby(2)",
    "divisibleby 3",
    "equalto(1)",
    "eq 'a'",
    "ne(2)",
    "in([1, 'a'])",
    "in 'abc'",
    "gt 1",
    "lessthan(2)",
    "sameas(true)",
    "sameas none",
    "ge(1)",
]
METHODS = [
    "strip()",
    "lstrip()",
    "rstrip()",
    "strip('a ')",
    "split()",
    "split(',')",
    "split(',', 1)",
    "rsplit(',', 1)",
    "split(none, 1)",
    "rsplit(none, 1)",
    "splitlines()",
    "splitlines(true)",
    "startswith('a')",
    "endswith(('c', 'z'))",
    "upper()",
    "lower()",
    "title()",
    "capitalize()",
    "replace('a', 'b')",
    "join(['x', 'y'])",
    "items()",
    "keys()|list",
    "values()|list",
    "get('k')",
    "get('zz', 5)",
    "find('c')",
    "rfind('a')",
    "index('a')",
    "count('a')",
    "isdigit()",
    "isalpha()",
    "isspace()",
    "isupper()",
    "istitle()",
    "append(1)",
    "pop()",
    "copy()",
    "format('q')",
    "zfill(6)",
    "ljust(5)",
    "rjust(5, '*')",
    "center(7)",
    "partition(',')",
    "rpartition(',')",
    "removeprefix('a')",
    "removesuffix('c')",
    "casefold()",
    "swapcase()",
    "update({})",
    "index(2)",
    "count(1)",
    "startswith('B', 1)",
    "__class__",
    "nope",
]
SLICES = [
    "[0]",
    "[-1]",
    "[5]",
    "[1:]",
    "[:-1]",
    "[::-1]",
    "[::2]",
    "[-3:3:2]",
    "[2:0:-1]",
    "['a']",
    "['k']",
    "['items']",
    "[none]",
    "[1.0]",
    "[true]",
    ".k",
    ".a",
    ".0",
    ".role",
    "[:]",
    "[n:]",
    "[10:-10:-3]",
]
VARIABLES = {
    "d": {"k": "v", "s": " some Text ", "a": 3, "b": None},
    "n": 2,
    "t": "a,b c",
    "flag": True,
    "l": [3, "x", [1, 2], {"a": None}],
    "nested": {"a": {"b": [0.1, {"c": "é\n\"'"}]}},
    "bos_token": "<s>",
}


def expression(dice, depth):
    if depth == 0:
        return dice.choice(ATOMS)
    inner = lambda: expression(dice, dice.randrange(depth))  # noqa: E731
    kind = dice.randrange(13)
    if kind < 3:
        return f"{inner()} {dice.choice(BINARY)} {inner()}"
    if kind < 6:
        return f"({inner()})|{dice.choice(FILTERS)}"
    return [
        lambda: f"({inner()}).{dice.choice(METHODS)}",
        lambda: f"({inner()}).{dice.choice(METHODS)}",
        lambda: f"({inner()}){dice.choice(SLICES)}",
        lambda: f"({inner()}) is {dice.choice(['', 'not '])}{dice.choice(TESTS)}",
        lambda: f"({inner()} if {inner()} else {inner()})",
        lambda: (
            f"{dice.choice(['not ', '-', ''])}({inner()}) {dice.choice(['<', '==', 'in'])} {inner()} {dice.choice(['<=', '!=', '>'])} {inner()}"
        ),
        lambda: dice.choice(
            ["[{0}, {1}]", "({0}, {1})", "{{'p': {0}, 'q': {1}}}", "dict(a={0}, b={1})", "{0} ~ {1} ~ 1"]
        ).format(inner(), inner()),
    ][kind - 6]()


def test_random_expressions_have_the_values_that_jinja_gives():
    needs("transformers")
    dice = random.Random("expressions")
    messages = [
        {"role": "user", "content": "Hi a"},
        {"role": "assistant", "content": "Yo,\nb"},
        {"role": "user", "content": ""},
    ]
    requests = [
        {
            "template": f"{{{{ {expression(dice, dice.randrange(1, 4))} }}}}",
            "messages": messages,
            "variables": VARIABLES,
        }
        for _ in range(CHATS * 20)
    ]
    equal, refused, lacking = compare(requests)
    print(f"# {equal} expressions equal, {refused} refused by both, {sum(lacking.values())} not supported")
    assert equal > len(requests) / 4 and sum(lacking.values()) < len(requests) / 8, lacking


PIECES = ["a", " ", "  ", "\n", "\n\n", "\t", "\u00a0", "{", "}", "#", "%", "x y", "\r\n", "é"]
STATEMENTS = [
    ("if flag", "endif"),
    ("if not flag", "endif"),
    ("for i in [1, 2, 3]", "endfor"),
    ("for k, v in d.items()", "endfor"),
    ("for m in messages if m.role == 'user'", "endfor"),
    ("set x", "endset"),
    ("macro f(p, q=2)", "endmacro"),
    ("filter upper", "endfilter"),
    ("with x = n, y = 3", "endwith"),
    ("call f(1)", "endcall"),
    ("generation", "endgeneration"),
    ("raw", "endraw"),
    ("for i in []", "endfor"),
    ("for i in range(3)", "endfor"),
    ("set x | trim", "endset"),
    ("call(u) f(x)", "endcall"),
]
SINGLES = [
    "set x = 1",
    "set ns.v = x",
    "set ns = namespace(v=x)",
    "set y = x ~ 'z'",
    "set a, b = 1, x",
    "set flag = false",
    "break",
    "continue",
    "set i = 9",
    "set bos_token = 'B'",
    "set n = n + 1",
]
OUTPUTS = [
    "x",
    "i",
    "loop.index",
    "loop.last",
    "loop.previtem",
    "loop.nextitem",
    "loop.cycle('p', 'q')",
    "loop.length",
    "loop.revindex0",
    "f(1)",
    "f(q=i, p=x)",
    "f(1, 2, 3)",
    "f()",
    "p",
    "q",
    "varargs",
    "kwargs",
    "caller()",
    "caller(2)",
    "ns.v",
    "y",
    "bos_token",
    "k ~ v",
    "loop.changed(x)",
    "m.content",
    "u",
    "a",
    "n",
    "'}}'",
    "{'a': {}}",
    "loop.first",
    "caller is defined",
    "loop.index0 is even",
]


def tag(dice, inside, marks="%%"):
    before = dice.choice(["", "", "", "-", "+"])
    after = dice.choice(["", "", "", "-", "+"] if marks == "%%" or marks == "##" else ["", "", "", "-"])
    return (
        "{"
        + marks[0]
        + before
        + dice.choice([" ", " ", "\n ", ""] if inside[:1].isalpha() else [" "])
        + inside
        + " "
        + after
        + marks[1]
        + "}"
    )


def block(dice, depth):
    out = ""
    for _ in range(dice.randrange(1, 5)):
        kind = dice.randrange(9)
        if kind < 3:
            out += dice.choice(PIECES)
        elif kind < 5:
            out += tag(dice, dice.choice(OUTPUTS), "{}")
        elif kind == 5:
            out += tag(dice, dice.choice(["note", " a %} b ", "x\n"]), "##")
        elif kind == 6 or depth == 0:
            out += tag(dice, dice.choice(SINGLES))
        else:
            begin, end = dice.choice(STATEMENTS)
            inner = block(dice, depth - 1) if begin != "raw" else dice.choice(["{{ x }}", " {% if %}\n", "\n a \n"])
            otherwise = (
                tag(dice, dice.choice(["else", "elif x == 1"] if begin[:2] == "if" else ["else"]))
                + block(dice, depth - 1)
                if begin[:3] in ("if ", "for") and dice.random() < 0.4
                else ""
            )
            out += tag(dice, begin) + inner + otherwise + tag(dice, end)
    return out


def test_random_templates_trim_scope_and_loop_as_jinja_does():
    needs("transformers")
    dice = random.Random("templates")
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yo"},
        {"role": "user", "content": "So"},
    ]
    templates = [block(dice, 3) for _ in range(CHATS * 20)]
    # What caller and the arguments of a macro are in a generation block, which transformers makes a macro, means nothing.
    requests = [
        {"template": template, "messages": messages, "variables": VARIABLES}
        for template in templates
        if "generation" not in template or not any(name in template for name in ("varargs", "kwargs", "caller"))
    ]
    equal, refused, lacking = compare(requests)
    print(f"# {equal} templates equal, {refused} refused by both, {sum(lacking.values())} not supported")
    assert equal > len(requests) / 4 and sum(lacking.values()) < len(requests) / 4, lacking


def test_unknown_filters_and_tests_are_errors_where_jinja_makes_them_errors():
    needs("transformers")
    blocks = [
        "{% if true %}@{% endif %}",
        "{% if false %}@{% endif %}",
        "{% if true %}a{% elif true %}@{% else %}@{% endif %}",
        "{% if false %}{% else %}@{% endif %}",
        "{% for i in [] %}@{% endfor %}",
        "{% for i in [1] %}@{% endfor %}",
        "{% for i in [1] %}{% else %}@{% endfor %}",
        "{% macro f() %}@{% endmacro %}",
        "{% set x %}@{% endset %}",
        "{% filter upper %}@{% endfilter %}",
        "{% with y = 1 %}@{% endwith %}",
        "{% macro g() %}{% endmacro %}{% call g() %}@{% endcall %}",
        "{% generation %}@{% endgeneration %}",
    ]
    places = [
        "{{ n|nope }}",
        "{{ n is nope }}",
        "{{ n|nope if false else 'b' }}",
        "{{ 'b' if true else n|nope }}",
        "{% if n|nope %}{% endif %}",
        "{% if false and n is nope %}{% endif %}",
        "{% set z = n|nope %}",
        "{% set z | nope %}{% endset %}",
        "{% for i in n|nope %}{% endfor %}",
        "{% for i in [1] if i is nope %}{% endfor %}",
        "{% with z = n|nope %}{% endwith %}",
        "{% macro h(a=n|nope) %}{% endmacro %}",
        "{% filter nope %}{% endfilter %}",
        "{{ [1]|map('nope')|list }}",
        "{{ n|default(n|nope) }}",
        "{{ [n|nope] if false }}",
        "{{ n|upper }}",
    ]
    templates = [
        outer.replace("@", inner.replace("@", place))
        for outer in ["@", *blocks]
        for inner in ["@", *blocks]
        for place in places
    ]
    templates += [block.replace("@", "{{ n|urlize }}") for block in blocks]  # a filter of Jinja that is not supported
    requests = [{"template": template, "messages": [], "variables": {"n": 1}} for template in templates]
    equal, refused, lacking = compare(requests)
    print(f"# {equal} templates equal, {refused} refused by both")
    assert equal > len(requests) / 5 and refused > len(requests) / 5, (equal, refused)
    assert set(lacking) <= {"chat.jinja:1: the filter 'urlize' is not supported"} | {
        error for error in lacking if "a generation block inside of" in error
    }, lacking
