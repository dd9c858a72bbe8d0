// Write handlers for modelhost in JavaScript: what happens to a request before the model and to the prediction after it, or all
// of it. The same module runs in the component and in a unit test, where there is no host.

import "#platform";

export { App, exportsOf, serve } from "./app.js";
export { Context } from "./context.js";
export { InvalidInput, UnsupportedMediaType } from "./errors.js";
export { handler } from "./handler.js";
export { Event, Response, Sample } from "./messages.js";
export { Part } from "./multipart.js";
export { Request } from "./request.js";
export { Socket, TimeoutError } from "./socket.js";
export { converse } from "./socket-in-tests.js";
export { Tensor, Tensors } from "./tensor.js";
