-- The load of one window: the same POST again and again, then one line of JSON with what happened.
--
-- Place in the flow: `run.py` starts `wrk -s post.lua URL` once per window and reads the line.
-- In:  the body's file in BENCH_BODY, its media type in BENCH_CONTENT_TYPE.
-- Out: on standard output, after wrk's own report, counts, microseconds and errors.
--
-- Neither `request` nor `response` is defined here: wrk then builds the request once and runs no Lua in the loop.

local file = assert(io.open(assert(os.getenv("BENCH_BODY"), "BENCH_BODY is not set"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["content-type"] = assert(os.getenv("BENCH_CONTENT_TYPE"), "BENCH_CONTENT_TYPE is not set")
file:close()

function done(summary, latency)
  local failed = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"max_us":%d,"status_errors":%d,"socket_errors":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    failed.status, failed.connect + failed.read + failed.write + failed.timeout))
end
