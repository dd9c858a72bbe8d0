// OpenAI's client for JavaScript against embeddings and a decoder.
//
// Arguments: the client's folder, the host's address. Fails with the first answer that is not what the client expects.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [folder, url] = process.argv.slice(2);
const { default: OpenAI } = createRequire(`${folder}/`)("openai");
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0 });

const models = await client.models.list();
assert.deepEqual(models.data.map((model) => model.id).sort(), ["all-minilm-l6-v2", "decoder"]);

// The client asks for base64 and decodes it.
const [text, model] = ["Hello world", "all-minilm-l6-v2"];
const short = await client.embeddings.create({ model, input: text });
const exact = await client.embeddings.create({ model, input: text, encoding_format: "float" });
assert.equal(short.data[0].embedding.length, 384);
short.data[0].embedding.forEach((value, at) => assert.equal(Math.fround(exact.data[0].embedding[at]), value));
assert.equal(short.usage.prompt_tokens, 4);

const messages = [{ role: "user", content: "Once" }];
const chat = { model: "decoder", messages, max_tokens: 8 };
const whole = await client.chat.completions.create(chat);
let streamed = "", usage;
for await (const chunk of await client.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
}
assert.equal(streamed, whole.choices[0].message.content);
assert.deepEqual(usage, whole.usage);

const asked = { model: "decoder", input: "Once", max_output_tokens: 8 };
const answer = await client.responses.create(asked);
let said = "";
for await (const event of await client.responses.create({ ...asked, stream: true })) {
    if (event.type === "response.output_text.delta") said += event.delta;
}
assert.equal(said, answer.output_text);
assert.equal(said.length, 8);

await assert.rejects(client.embeddings.create({ model: "none", input: "x" }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.deepEqual([error.status, error.code, error.param], [404, "model_not_found", "model"]);
    return true;
});
