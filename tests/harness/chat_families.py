"""Chat templates written for the tests, each with the constructs that templates of a known family use: how they find the system message, tell
turns apart, put tools and their calls, dates, reasoning and documents, and trim."""

KNOWN_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'The weather of a city, "now".',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city"},
                    "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds 2 numbers & more",
            "parameters": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "m": {"type": ["number", "null"], "nullable": True},
                    "list": {"type": "array", "items": {"type": "number"}},
                },
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "brave_search", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
]

FAMILIES = {
    "chatml": """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content']|string + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""",
    "chatml with a default system message and marks": """{%- if messages and messages[0].role != 'system' -%}
<|im_start|>system
You answer.<|im_end|>
{% endif %}
{% for message in messages %}
    {% if message.role == 'assistant' %}
<|im_start|>assistant
{% generation %}
{{ message.content }}<|im_end|>
{% endgeneration %}
    {% else %}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
    {% endif %}
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}""",
    "qwen2.5": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages and messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are helpful.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n{\\"name\\": <name>}<|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}""",
    "qwen3": """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}
            {%- if loop.last or (not loop.last and reasoning) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "llama 2": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}
{%- for message in loop_messages if message['role'] != 'tool' %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) and add_generation_prompt %}{{ raise_exception('Roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{%- if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] | string %}{% else %}{% set content = message['content'] %}{% endif %}
{%- if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content | string | trim + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' ~ content | trim ~ ' ' + eos_token }}{% endif %}{% endfor %}""",
    "llama 3.1": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message has a place of its own. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- "<|python_tag|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}{{- ", " }}{%- endif %}
            {%- endfor %}
            {{- ")" }}
        {%- else %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
            {{- '{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " ~ message["content"] ~ "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 10 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 10!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}{{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
""",
    "gemma": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""",
    "phi 3": """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content']|string + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' ~ message['content'] ~ '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}""",
    "zephyr": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content']|string + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content']|default('', true) + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "deepseek": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}
{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}
{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<|User|>' + message['content']|string}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{%- if message['content'] is none %}{{'<|Assistant|><|calls|><|call|>' ~ tool['type'] ~ '<|sep|>' ~ tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|tojson + '\\n' + '```' + '<|end|>'}}{%- else %}{{'<|Assistant|>' + message['content'] + '<|calls|>' + tool['function']['arguments']|string}}{%- endif %}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + '<|call|>' + tool['function']['name']}}{%- endif %}{%- endfor %}{{'<|calls end|>'}}{%- endif %}
{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{%- if ns.is_tool %}{{'<|outputs end|>' + message['content'] + eos_token}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<|Assistant|>' + content + eos_token}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<|outputs|><|output|>' + message['content'] + '<|output end|>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n<|output|>' + message['content'] + '<|output end|>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<|outputs end|>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|><think>\\n'}}{% endif %}""",
    "command r": """{%- macro json_to_python_type(json_spec) %}
    {%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
    {%- if basic_type_map[json_spec.type] is defined %}
        {{- basic_type_map[json_spec.type] }}
    {%- elif json_spec.type == "array" %}
        {{- "List[" +  json_to_python_type(json_spec['items']) + "]"}}
    {%- elif json_spec.type == "object" %}
        {{- "Dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']'}}
    {%- elif json_spec.type is iterable %}
        {{- "Union[" }}
        {%- for t in json_spec.type %}
            {{- json_to_python_type({"type": t}) }}{%- if not loop.last %}{{- "," }}{%- endif %}
        {%- endfor %}
        {{- "]" }}
    {%- else %}
        {{- "Any" }}
    {%- endif %}
{%- endmacro %}
{%- macro old_tool_parser(tools) %}
{%- for tool in tools %}
    {%- if loop.index0 != 0 %}{{- '\\n\\n' }}{%- endif %}
    {{- '```python\\ndef ' + tool.function.name + '(' }}
    {%- for param_name, param_fields in tool.function.parameters.properties|items %}
        {%- if loop.index0 != 0 %}{{- ', '}}{%- endif %}
        {{- param_name + ": " }}
        {%- if not param_name in tool.function.parameters.required %}{{- 'Optional[' + json_to_python_type(param_fields) + '] = None'}}{%- else %}{{- json_to_python_type(param_fields) }}{%- endif %}
    {%- endfor %}
    {{- ') -> List[Dict]:\\n    ---'}}
    {{- tool.function.description }}
    {%- if tool.function.parameters.properties|length != 0 %}
        {{- '\\n\\n    Args:\\n        '}}
        {%- for param_name, param_fields in tool.function.parameters.properties|dictsort %}
            {{- param_name + ' (' + json_to_python_type(param_fields) + ')' }}{{- param_fields.description | default(': none') | indent(8) }}
        {%- endfor %}
    {%- endif %}
    {{- '\\n    ---\\n    pass\\n```' }}
{%- endfor %}
{%- endmacro %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
  {%- set loop_messages = messages[1:] %}
  {%- set system_message = messages[0]['content'] %}
{%- else %}
  {%- set loop_messages = messages %}
  {%- set system_message = 'You are Command.' %}
{%- endif %}
{{- '<|START|><|SYSTEM|>' + system_message }}
{{- old_tool_parser(tools or []) }}
{%- for document in documents or [] %}
Document: {{ loop.index0 }}
{% for key, value in document|items %}{{ key | capitalize }}: {{value}}
{% endfor %}
{%- endfor %}
{%- for message in loop_messages %}
    {%- if message.role|lower == 'user' %}
        {{- '<|USER|>' ~ message['content'] ~ '<|END|>' }}
    {%- elif message.role|lower in ['assistant', 'chatbot'] %}
        {{- '<|CHATBOT|>' }}
        {%- if message.tool_calls is defined %}
            {{- 'Action:```json\\n[\\n' }}
            {%- for tool_call in message.tool_calls %}
                {{- '{\\n'|indent(4, true) }}
                {{- '"tool_name": "'|indent(8, true) + (tool_call.function or tool_call).name + '",\\n' }}
                {{- '"parameters": '|indent(8, true) }}
                {{- (tool_call.function or tool_call).arguments|tojson(indent=4)|indent(8) }}
                {{- '\\n' }}{{- '}'|indent(4, true) }}{%- if not loop.last %}{{- ',\\n' }}{%- endif %}
            {%- endfor %}
            {{- "\\n]```\\n" }}
        {%- else %}{% generation %}{{ message['content'] }}{% endgeneration %}{% endif %}
        {{- '<|END|>' }}
    {%- elif message.role|lower == 'tool' %}
        {%- if loop.previtem is defined and loop.previtem.role|lower != 'tool' %}{{- '<|RESULTS|>' }}{%- endif %}
        {{- message.content | title }}
        {%- if loop.nextitem is not defined or loop.nextitem.role != 'tool' %}{{- '<|END RESULTS|>' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|CHATBOT|>' }}{% if citation_mode|default('') == "accurate" %} Grounded answer:{% endif %}{%- endif %}""",
    "gpt-oss": """{%- macro render_type(spec, required_params, is_nullable=false) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}{{- render_type(spec['items'], required_params) ~ "[]" }}{%- else -%}{{- "any[]" }}{%- endif -%}
        {%- if spec.nullable -%}{{- " | null" }}{%- endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}
        {%- if spec.type | length > 1 -%}{{- spec.type | join(" | ") }}{%- else -%}{{- spec.type[0] }}{%- endif -%}
    {%- elif spec.type == "string" -%}
        {%- if spec.enum -%}{{- '"' + spec.enum|join('" | "') + '"' -}}{%- else -%}{{- "string" }}{%- if spec.nullable %}{{- " | null" }}{%- endif -%}{%- endif -%}
    {%- elif spec.type in ["number", "integer"] -%}{{- "number" }}
    {%- else -%}{{- "any" }}
    {%- endif -%}
{%- endmacro -%}
{%- macro render_tools(namespace_name, tools) -%}
    {{- "## " + namespace_name + "\\n\\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\\n" }}
        {{- "type "+ tool.name + " = (" }}
        {%- if tool.parameters and tool.parameters.properties %}
            {{- "_: {\\n" }}
            {%- for name, spec in tool.parameters.properties.items() %}
                {%- if spec.description %}{{- "// " + spec.description + "\\n" }}{%- endif %}
                {{- name }}
                {%- if name not in (tool.parameters.required or []) %}{{- "?" }}{%- endif -%}
                {{- ": " }}
                {{- render_type(spec, tool.parameters.required or [], is_nullable=spec.nullable) }}
                {%- if spec.default is defined -%}
                    {%- if spec.default is string -%}{{- ", // default: " ~ spec.default }}{%- elif spec.default is boolean %}{{- spec.default|lower }}{%- else -%}{{- ", // default: " ~ spec.default|tojson }}{%- endif -%}
                {%- endif -%}
                {{- ",\\n" if not loop.last else "\\n" }}
            {%- endfor %}
            {{- "}" }}
        {%- endif -%}
        {{- ") => any;\\n\\n" }}
    {%- endfor %}
{%- endmacro -%}
{%- set has_tools = tools is defined and tools -%}
{%- if has_tools %}{{ render_tools("functions", tools) }}{% endif %}
{{- "Current date: " + strftime_now("%Y-%m-%d") + "\\n" }}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "thinking" in message and message.thinking is not none %}
            {%- set future_final_message = namespace(found=false) %}
            {%- for future_message in messages[loop.index:] %}
                {%- if future_message.role == 'assistant' and "tool_calls" not in future_message %}{%- set future_final_message.found = true %}{%- endif %}
            {%- endfor %}
            {%- if not future_final_message.found %}{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}{%- endif %}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- set tool_call = message.tool_calls[0] %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {%- set last_tool_call.name = tool_call.name %}
            {{- "<|start|>assistant to=functions." ~ tool_call.name ~ "<|message|>" ~ (tool_call.arguments|tojson) ~ "<|call|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" ~ message.content ~ ("<|return|>" if loop.last and not add_generation_prompt else "<|end|>") }}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}{{- raise_exception("Message has tool role, but there was no previous assistant message with a tool call!") }}{%- endif %}
        {{- "<|start|>functions." + last_tool_call.name + " to=assistant<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" ~ message.content ~ "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}""",
    "granite, with breaks and call blocks": """{%- macro turn(role) -%}
<|start_of_role|>{{ role }}<|end_of_role|>{{ caller() | trim }}<|end_of_text|>
{% endmacro -%}
{%- for message in messages -%}
    {%- if message.role == 'tool' and loop.index > 6 %}{% break %}{% endif -%}
    {%- if not message.content %}{% continue %}{% endif -%}
    {%- call turn(message.role | replace('tool', 'tool_response')) -%}
        {%- if message.content is string -%}
            {{ message.content }}
        {%- else -%}
            {%- for part in message.content if part.type == 'text' %}{{ part.text }}{% if not loop.last %} {% endif %}{% else %}nothing{% endfor -%}
        {%- endif -%}
    {%- endcall -%}
{%- else -%}
no messages
{%- endfor -%}
{%- set docs -%}
    {%- for document in documents or [] %}{{ '%d. %s' % (loop.index, document.title) }}: {{ document['text'] | upper | truncate(30) }}
    {% endfor %}
{%- endset -%}
{{ docs if docs | trim else '' }}{% filter replace('a', 'b') %}{{ bos_token }} {{ messages | map(attribute='role') | unique | join('|') }}{% endfilter %}
{{- '\\n' + {'count': messages | length, 'roles': messages | map(attribute='role') | list, 'last': messages[-1].get('name', none)} | string }}
{{- '<|start_of_role|>assistant<|end_of_role|>' if add_generation_prompt }}""",
}

# Templates that mark what the assistant writes, as those are that models are trained with.
MARKED = {
    "chatml, marked": """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{ message.content }}{{ '<|im_end|>' }}{% endgeneration %}
    {%- else %}
        {{- message.content ~ '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "chatml, its content alone marked": """{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}{% else %}{{ message.content }}{% endif %}<|im_end|>
{% endfor %}""",
    "llama 3, marked": """{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}{{- message['content'] | trim + '<|eot_id|>' }}{%- endgeneration %}
    {%- else %}
        {{- message['content'] | string | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}""",
    "gemma, marked": """{{ bos_token }}{% for message in messages %}{% set role = 'model' if message.role == 'assistant' else message.role %}<start_of_turn>{{ role }}
{% if role == 'model' %}{% generation %}{{ message.content | trim }}<end_of_turn>
{% endgeneration %}{% else %}{{ message.content | string | trim }}<end_of_turn>
{% endif %}{% endfor %}""",
    "mistral, marked": """{{ bos_token }}{% for message in messages if message.role in ['user', 'assistant'] %}{% if message.role == 'user' %}{{ '[INST] ' + message.content | string + ' [/INST]' }}{% else %}
{%- generation %}{{ ' ' + message.content + eos_token }}{% endgeneration %}{% endif %}{% endfor %}""",
    "plain names, marked behind a space": """{% for message in messages %}
{% if message.role == 'assistant' %}
Assistant: {% generation %}{{ message.content }}
{% endgeneration %}
{% else %}
{{ message.role | title }}: {{ message.content }}
{% endif %}
{% endfor %}""",
    "qwen3, marked in two blocks": """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- if message.reasoning_content %}{% generation %}<think>
{{ message.reasoning_content | trim('\\n') }}
</think>

{% endgeneration %}{% endif %}
        {%- generation %}{{ message.content | string }}{% endgeneration %}
        {%- for call in message.tool_calls or [] %}{% generation %}{{ '\\n<tool_call>\\n' ~ (call.function or call) | tojson ~ '\\n</tool_call>' }}{% endgeneration %}{% endfor %}
        {%- generation %}<|im_end|>{% endgeneration %}
    {%- else %}
        {{- message.content ~ '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}""",
}
