// The same as a function of the web platform, and what bodies are there: see tests/languages/multipart.json and js-fetch.json.

const sum = (bytes) => bytes.reduce((sum, byte) => sum + byte, 0);

async function told([name, value]) {
  const isFile = value instanceof File;
  const bytes = isFile ? new Uint8Array(await value.arrayBuffer()) : new TextEncoder().encode(value);
  return { name, filename: isFile ? value.name : null, type: isFile ? value.type : "text/plain", size: bytes.length, sum: sum(bytes) };
}

function made(kind) {
  const file = new File(["a", new Uint8Array([0, 255]), new Blob(["b"])], 'n"ü.bin', { type: "image/png" });
  switch (kind) {
    case "blob":
      return new Blob(["a,b\n"], { type: "text/csv" });
    case "fields":
      return new URLSearchParams([["a", "1 2"], ["a", "ü"]]);
    default: {
      const form = new FormData();
      form.append("title", "ü");
      form.append("file", file);
      return form;
    }
  }
}

async function answered(request) {
  const url = new URL(request.url);
  switch (url.pathname) {
    case "/form":
      return Response.json({ parts: await Promise.all([...(await request.formData())].map(told)) });
    case "/cookies": {
      const headers = new Headers([["set-cookie", "a=1"], ["content-type", "text/plain"]]);
      headers.append("set-cookie", "b=2");
      return new Response("baked", { headers });
    }
    case "/text":
      return Response.json({ text: await request.text() });
    case "/json":
      return Response.json(await request.json());
    case "/blob": {
      const blob = await request.blob();
      return Response.json({ type: blob.type, size: blob.size, sum: sum(new Uint8Array(await blob.arrayBuffer())) });
    }
    case "/bytes":
      return Response.json({ bytes: [...(await request.bytes())] });
    case "/buffer":
      return Response.json({ bytes: [...new Uint8Array(await request.arrayBuffer())] });
    case "/made": {
      // As another would read it.
      const response = new Response(made(url.searchParams.get("kind")));
      const type = response.headers.get("content-type").replace(/(boundary=).*/, "$1…");
      if (type.startsWith("multipart/")) return Response.json({ type, parts: await Promise.all([...(await response.formData())].map(told)) });
      return Response.json({ type, text: await response.text() });
    }
    default:
      return Response.json({ status: (await fetch("http://127.0.0.1:1/")).status });
  }
}

export default {
  init() {},
  async fetch(request) {
    try {
      return await answered(request);
    } catch (error) {
      if (error.message.includes("outbound")) return Response.json({ error: error.message });
      throw error;
    }
  },
};
