// Does as the body says (`{"do": "file"}`), and makes each tensor anew, by the type of its elements.

import { InvalidInput, Response, Sample, Tensor, Tensors, handler } from "modelhost-guest";

import file from "./greeting.json" with { type: "json" };

let label = "";

function prepare(sample: Sample) {
  let text: string = sample.json().do;
  if (text === "invalid") throw new InvalidInput("as asked");
  if (text === "internal") throw new Error("as asked");
  if (text === "respond") throw new Response("teapot", { status: 418 });
  if (text === "file") text = file.greeting;
  return { text: new Tensor([text]) };
}

function answer(outputs: Tensors) {
  return { answer: outputs.named("text").strings()[0], label };
}

function again(tensors: Tensors): Tensor[] {
  return Array.from(tensors, (it) => {
    const values = it.datatype === "BYTES" ? it.strings() : it.values;
    return new Tensor(values, { datatype: it.datatype, shape: it.shape, name: it.name });
  });
}

export const { init, preInference, postInference, preInferenceTensors, postInferenceTensors } = handler({
  init: (metadata: { label: string }) => void (label = metadata.label),
  preInference: prepare,
  postInference: answer,
  preInferenceTensors: again,
  postInferenceTensors: again,
});
