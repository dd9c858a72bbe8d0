// An application as the platform has it: answers `fetch` events, streams, fails.

addEventListener('fetch', (event) => event.respondWith(answer(event.request)));

async function answer(request) {
  const url = new URL(request.url);
  if (url.pathname === '/fail') throw new Error('as asked');
  if (url.pathname === '/stream') {
    let n = 0;
    const body = new ReadableStream({
      pull(controller) {
        if (n === 3) controller.close();
        else controller.enqueue(new TextEncoder().encode(`data: ${n++}\n\n`));
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }
  const seen = { path: url.pathname + url.search, body: await request.text() };
  return new Response(JSON.stringify(seen), { headers: { 'content-type': 'application/json' } });
}
