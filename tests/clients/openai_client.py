"""OpenAI's client for Python against embeddings and a decoder.

Arguments: the host's address. Fails with the first answer that is not what the client expects.
"""

import sys

import openai

TEXTS = ["Hello world", "A second text, which is longer than the first"]
EMBEDDINGS, DECODER = "all-minilm-l6-v2", "decoder"


def models(client):
    assert sorted(model.id for model in client.models.list()) == [EMBEDDINGS, DECODER]
    model = client.models.retrieve(DECODER)
    assert (model.id, model.object, model.owned_by) == (DECODER, "model", "modelhost") and model.created > 0, model
    error = failure(lambda: client.models.retrieve("none"), openai.NotFoundError)
    assert (error.code, error.param, error.type) == ("model_not_found", "model", "invalid_request_error"), error.body


def embeddings(client):
    create = lambda **options: client.embeddings.create(model=EMBEDDINGS, **options)  # noqa: E731
    # What the client asks for by itself is base64.
    batch = create(input=TEXTS)
    assert [(one.index, one.object, len(one.embedding)) for one in batch.data] == [
        (0, "embedding", 384),
        (1, "embedding", 384),
    ]
    assert batch.model == EMBEDDINGS and batch.usage.prompt_tokens == batch.usage.total_tokens == 16, batch.usage
    for text, one in zip(TEXTS, batch.data):
        exact = create(input=text, encoding_format="float").data[0].embedding
        assert max(abs(a - b) for a, b in zip(exact, one.embedding)) < 1e-5
    # [CLS] hello world [SEP]
    tokens = create(input=[[101, 7592, 2088, 102]]).data[0].embedding
    assert max(abs(a - b) for a, b in zip(tokens, batch.data[0].embedding)) < 1e-5
    short = create(input=TEXTS[0], dimensions=64).data[0].embedding
    assert len(short) == 64 and abs(sum(value * value for value in short) - 1) < 1e-5
    error = failure(lambda: create(input=[]), openai.BadRequestError)
    assert (error.code, error.type, error.param) == ("invalid_input", "invalid_request_error", "input"), error.body
    assert "`input` is empty" in error.message
    error = failure(lambda: client.embeddings.create(model="none", input="x"), openai.NotFoundError)
    assert (error.code, error.param) == ("model_not_found", "model"), error.body


def completions(client):
    options = {"model": DECODER, "max_tokens": 12}
    whole = client.completions.create(prompt="Once", **options)
    chunks = list(client.completions.create(prompt="Once", stream=True, **options))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert len(whole.choices[0].text) == 12 and whole.choices[0].finish_reason == "length"
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (4, 12)
    several = client.completions.create(prompt=["Once", "Twice"], n=2, **options)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert several.choices[1].text == whole.choices[0].text != several.choices[2].text
    for name, value in [("best_of", 3), ("echo", True), ("logprobs", 2), ("n", 1000), ("max_tokens", 0)]:
        refused = {"prompt": "Once", **options, name: value}
        error = failure(lambda: client.completions.create(**refused), openai.BadRequestError)
        assert (error.param, error.code) == (name, "invalid_input"), error.body


def chats(client):
    chat = {"model": DECODER, "messages": [{"role": "user", "content": "Once"}], "max_completion_tokens": 12}
    whole = client.chat.completions.create(**chat)
    assert (whole.object, whole.choices[0].message.role) == ("chat.completion", "assistant")
    chunks = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **chat))
    assert chunks[0].choices[0].delta.role == "assistant" and {chunk.id for chunk in chunks} == {chunks[0].id}
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content and len(streamed) == 12
    assert chunks[-1].usage == whole.usage
    error = failure(lambda: client.chat.completions.create(model=DECODER, messages=[]), openai.BadRequestError)
    assert "`messages` is empty" in error.message and error.param == "messages", error.body
    parts = [{"type": "text", "text": "On"}, {"type": "text", "text": "ce"}]
    ask = lambda **more: client.chat.completions.create(**{**chat, **more})  # noqa: E731
    same = ask(messages=[{"role": "user", "content": parts}], temperature=0.5, top_p=1, seed=1)
    assert same.choices[0].message.content == whole.choices[0].message.content
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    ask(messages=[*chat["messages"], called, {"role": "tool", "tool_call_id": "1", "content": "3"}])
    assert [choice.index for choice in ask(n=2).choices] == [0, 1]
    for name, value in [
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("response_format", {"type": "json_object"}),
        ("temperature", 3),
        ("top_p", 2),
        ("stop", "x"),
        ("messages[0].content", [{"role": "user", "content": None}]),
    ]:
        error = failure(lambda: ask(**{name.split("[")[0]: value}), openai.BadRequestError)
        assert (error.param, error.type) == (name, "invalid_request_error"), error.body


def responses(client):
    asked = {"model": DECODER, "input": [{"role": "user", "content": "Once"}], "max_output_tokens": 12}
    whole = client.responses.create(**asked)
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert len(whole.output_text) == 12 and whole.usage.output_tokens == 12
    events = list(client.responses.create(stream=True, **asked))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    streamed = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert streamed == whole.output_text == events[-1].response.output_text
    # The same as the chat of the same messages.
    chat = client.chat.completions.create(model=DECODER, messages=asked["input"], max_completion_tokens=12)
    assert chat.choices[0].message.content == whole.output_text
    error = failure(lambda: client.responses.create(**{**asked, "input": []}), openai.BadRequestError)
    assert "`input` is empty" in error.message, error.body
    tools = [{"type": "web_search"}]
    error = failure(lambda: client.responses.create(tools=tools, **asked), openai.BadRequestError)
    assert error.param == "tools", error.body


def failure(call, kind):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def main():
    client = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="any", max_retries=0)
    for check in [models, embeddings, completions, chats, responses]:
        check(client)


if __name__ == "__main__":
    main()
