-- One operation on the jobs of one endpoint: done as a whole, or not at all.
--
-- Place in the flow: `redis.rs` sends it, Redis runs it. Everything of an endpoint is behind one name with one hash tag, so that it
-- is in one slot. The second half of the script is `operations.lua`.
-- In: KEYS, the name that all of the endpoint's begin with, which no key has, and one of these: a cluster that is moving them has
-- both on no node, and does not run the script on half of the keys. ARGV: the operation, and what it takes.
-- Out: a list whose first entry says what it is; and the jobs that have ended by it.
-- Invariants: times are those of Redis' clock, so that hosts need not agree; a queued job is in one of `waiting` and `delayed`, a
-- running one in `leases` with the time at which it is taken from its host, any other in none; a body is stored until its job is
-- finished; a webhook is pending if and only if it is in the list of its origin; `bytes` is the sum of what is stored of the jobs;
-- the first command of an operation that brings something new is one that Redis refuses without memory for it.

local base, op = KEYS[1], ARGV[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Most entries that one operation looks through.
local MOST = 1000
-- Between the places of two priorities in `waiting`, in jobs.
local STEP = 1e12
-- The longest pause between two attempts to deliver, in milliseconds.
local HOUR = 60 * 60 * 1000
local TOO_LATE = 'the job waited longer than it may'
local CUT_OFF = 'the server ended while the job ran'

-- Of each job: its record as the host wrote it, bodies, the answer and its body. All ids in order; ids by idempotency key.
local records, bodies, answers, results = base .. ':records', base .. ':bodies', base .. ':answers', base .. ':results'
local order, idempotency = base .. ':order', base .. ':idempotency'
-- Sorted by place, by the time they are due, by the time their lease ends, by the time something is to be done with them.
local waiting, delayed, leases, times = base .. ':waiting', base .. ':delayed', base .. ':leases', base .. ':times'
-- Places that webhooks go to, by when the next one is due; numbers.
local origins, numbers = base .. ':origins', base .. ':numbers'

-- Jobs that this operation has ended: of each its id, its state and why.
local ended = {}

local function whole(number)
  return string.format('%.0f', number)
end

-- What changes of a job.
local function own(id)
  return base .. ':job:' .. id
end

local function batch_key(id)
  return base .. ':batch:' .. id
end

local function parts_key(id)
  return base .. ':parts:' .. id
end

-- The webhooks that go to a place, by the time they are due.
local function to(origin)
  return base .. ':to:' .. origin
end

local function table_of(flat)
  local fields = {}
  for at = 1, #flat, 2 do
    fields[flat[at]] = flat[at + 1]
  end
  return fields
end

local function account(by)
  if by ~= 0 then
    call('HINCRBY', numbers, 'bytes', whole(by))
  end
end

-- A job's fields, or nil.
local function load(id)
  local flat = call('HGETALL', own(id))
  if #flat == 0 then
    return nil
  end
  local job = table_of(flat)
  job.id = id
  return job
end

-- Sets fields of a job; `false` removes one.
local function set(job, fields)
  local changed = {}
  for name, value in pairs(fields) do
    if value == false then
      call('HDEL', own(job.id), name)
      job[name] = nil
    else
      job[name] = type(value) == 'number' and whole(value) or value
      changed[#changed + 1] = name
      changed[#changed + 1] = job[name]
    end
  end
  if #changed > 0 then
    call('HSET', own(job.id), unpack(changed))
  end
end

-- A job for a host: record, answer, fields.
local function view(job)
  local flat = {}
  for name, value in pairs(job) do
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  return { call('HGET', records, job.id), call('HGET', answers, job.id), flat }
end

local function wait_for_place(id, priority, number)
  call('ZADD', waiting, whole(priority * STEP + number), id)
end

local function enqueue(job)
  if tonumber(job.due) > now then
    call('ZADD', delayed, job.due, job.id)
  else
    wait_for_place(job.id, job.priority, job.number)
  end
end

local function dequeue(job)
  call('ZREM', waiting, job.id)
  call('ZREM', delayed, job.id)
end

-- Puts those jobs whose time has come to those that wait for a place.
local function promote()
  for _, id in ipairs(call('ZRANGEBYSCORE', delayed, '-inf', whole(now), 'LIMIT', 0, MOST)) do
    call('ZREM', delayed, id)
    local place = call('HMGET', own(id), 'priority', 'number')
    if place[1] then
      wait_for_place(id, place[1], place[2])
    end
  end
end

-- As `record.rs` has it.
local function pause(attempt, chance, first, longest)
  local length = math.min(first * 2 ^ math.min(math.max(attempt - 1, 0), 32), longest)
  local quarter = math.floor(length / 4)
  return quarter > 0 and length - chance % quarter or length
end

-- Stores a job of these fields, and queues it. `delay` and `wait` are from now on.
local function new_job(id, record, body, job)
  job.id = id
  job.number = whole(call('HINCRBY', numbers, 'next', 1))
  job.state, job.attempt = 'queued', '0'
  job.submitted, job.changed = whole(now), whole(now)
  job.due = whole(now + tonumber(job.delay or '0'))
  job.start_by = job.wait and whole(now + tonumber(job.wait))
  job.delay, job.wait = nil, nil
  job.kept, job.bytes = whole(#record), whole(#record + #body)
  local flat = {}
  for name, value in pairs(job) do
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  call('HSET', own(id), unpack(flat))
  call('HSET', records, id, record)
  call('HSET', bodies, id, body)
  call('ZADD', order, 0, id)
  account(#record + #body)
  if job.start_by then
    call('ZADD', times, job.start_by, 'j' .. id)
  end
  enqueue(job)
end

-- The quota that forbids so many jobs more of so many bytes.
local function refusal(most_jobs, most_bytes, jobs, bytes)
  local unfinished = call('ZCARD', waiting) + call('ZCARD', delayed) + call('ZCARD', leases)
  if unfinished + jobs > tonumber(most_jobs) then
    return { 'full', 'jobs' }
  end
  if tonumber(call('HGET', numbers, 'bytes') or '0') + bytes > tonumber(most_bytes) then
    return { 'full', 'bytes' }
  end
end

-- Brings up to date when the next webhook to a place is due.
local function schedule(origin)
  local first = call('ZRANGE', to(origin), 0, 0, 'WITHSCORES')
  if first[1] then
    call('ZADD', origins, first[2], origin)
  else
    call('ZREM', origins, origin)
  end
end

-- Makes the webhook of a finished job pending.
local function send(job)
  local claims = tonumber(job.w_claims or '0') + 1
  set(job, { w_state = 'pending', w_attempts = 0, w_changed = now, w_due = now, w_claims = claims })
  call('ZADD', to(job.origin), whole(now), job.id)
  schedule(job.origin)
  call('HINCRBY', numbers, 'webhooks', 1)
end

local function end_batch(id, state, keep)
  call('HSET', batch_key(id), 'state', state, 'ended', whole(now))
  call('ZADD', times, whole(now + keep), 'b' .. id)
end

-- Counts a job that has ended, if it is one of a batch; `took` is the time of its last attempt.
local function part_ended(job, took)
  local batch = job.batch and batch_key(job.batch)
  if not batch or call('HGET', batch, 'state') ~= 'running' then
    return
  end
  if job.state == 'completed' then
    call('HINCRBY', batch, 'succeeded', 1)
    call('HINCRBY', batch, 'time', whole(took))
  else
    call('HINCRBY', batch, 'failed', 1)
  end
  local counts = call('HMGET', batch, 'total', 'succeeded', 'failed', 'keep', 'last_id', 'last_record')
  if counts[2] + counts[3] < tonumber(counts[1]) then
    return
  end
  end_batch(job.batch, counts[3] == '0' and 'succeeded' or 'completed_with_failures', counts[4])
  if counts[5] then
    new_job(counts[5], counts[6], '', table_of(cjson.decode(call('HGET', batch, 'last_fields'))))
  end
end

-- Finishes a job that is in no list of those that are not.
local function finish(job, state, why, answer, body)
  call('HDEL', bodies, job.id)
  local bytes = tonumber(job.kept)
  if answer then
    call('HSET', answers, job.id, answer)
    call('HSET', results, job.id, body)
    bytes = bytes + #answer + #body
  end
  account(bytes - job.bytes)
  local took = now - job.changed
  set(job, { state = state, changed = now, bytes = bytes, error = why or false })
  if state == 'failed' and not why then
    why = 'the answer has status ' .. cjson.decode(answer).status
  end
  for _, text in ipairs({ job.id, state, why or '' }) do
    ended[#ended + 1] = text
  end
  if job.origin and state == 'cancelled' then
    set(job, { w_state = 'cancelled', w_changed = now })
  elseif job.origin then
    send(job)
  end
  call('ZADD', times, whole(now + job.keep), 'j' .. job.id)
  part_ended(job, took)
end

-- Queues a job again that has run.
local function again(job, length)
  set(job, { state = 'queued', changed = now, due = now + length })
  enqueue(job)
end

-- Removes a finished job.
local function remove(job)
  for _, name in ipairs({ records, answers, results }) do
    call('HDEL', name, job.id)
  end
  call('DEL', own(job.id))
  call('ZREM', order, job.id)
  if job.key and call('HGET', idempotency, job.key) == job.id then
    call('HDEL', idempotency, job.key)
  end
  account(-job.bytes)
end

-- Stops a batch that has not ended, with its jobs. Hosts that run some find out by their next beat.
local function stop_batch(id, state)
  end_batch(id, state, call('HGET', batch_key(id), 'keep'))
  for _, part in ipairs(call('ZRANGE', parts_key(id), 0, -1)) do
    local job = load(part)
    if job and (job.state == 'queued' or job.state == 'running') then
      dequeue(job)
      call('ZREM', leases, part)
      finish(job, 'cancelled')
    end
  end
end
