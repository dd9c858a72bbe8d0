-- The load of one window: the same POST again and again, then one line of JSON with what happened.
--
-- Place in the flow: `servers.py` starts `wrk -t1 -s post.lua URL` once per window and reads the line.
-- In:  the body's file in BENCH_BODY, its headers in BENCH_HEADERS, one a line, and in BENCH_SETTLE_MS for how long
--      answers are not yet counted towards the rate.
-- Out: on standard output, after wrk's own report, counts, microseconds and errors. `counted` answers arrived in
--      `counted_us`, from when the server had settled to the end; all other figures are of the whole window.
--
-- A window begins with an idle server and ends with a busy one, so a rate over all of it lacks the answers that were
-- being made at the end. That matters where they are a good part of all: batches of images. Counted from a moment in
-- the middle, what is under way at either end cancels out. It takes a `response` function, which costs wrk time for
-- every answer; where the server needs not settle there is none, and no `request` either: wrk then builds the request
-- once and runs no Lua in the loop.

local file = assert(io.open(assert(os.getenv("BENCH_BODY"), "BENCH_BODY is not set"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
for name, value in assert(os.getenv("BENCH_HEADERS"), "BENCH_HEADERS is not set"):gmatch("([^:\n]+): ([^\n]*)") do
  wrk.headers[name] = value
end
file:close()

local settle_us = assert(tonumber(os.getenv("BENCH_SETTLE_MS")), "BENCH_SETTLE_MS is not a number") * 1000

local ffi = require("ffi")
ffi.cdef("typedef struct { long s, us; } bench_time; int gettimeofday(bench_time *, void *);")
local time = ffi.new("bench_time")

-- Microseconds since 1970.
local function now()
  ffi.C.gettimeofday(time, nil)
  return tonumber(time.s) * 1000000 + tonumber(time.us)
end

-- wrk runs this script once for itself, where `done` is called, and once for its thread, where the others are. Globals
-- of the thread are what `done` can ask for.
local loader

function setup(thread)
  loader = thread
end

function init()
  settled, counted = now() + settle_us, 0
end

if settle_us > 0 then
  function response()
    if now() >= settled then
      counted = counted + 1
    end
  end
end

function done(summary, latency)
  local failed, counted, counted_us = summary.errors, summary.requests, summary.duration
  if settle_us > 0 then
    counted, counted_us = loader:get("counted"), now() - loader:get("settled")
  end
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"counted":%d,"counted_us":%d,"p50_us":%d,"p99_us":%d,"max_us":%d,'
      .. '"status_errors":%d,"socket_errors":%d}\n',
    summary.requests, summary.duration, counted, counted_us,
    latency:percentile(50), latency:percentile(99), latency.max,
    failed.status, failed.connect + failed.read + failed.write + failed.timeout))
end
