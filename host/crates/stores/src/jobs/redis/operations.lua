-- The operations, by name; the second half of `script.lua`.
--
-- Place in the flow: what `redis.rs` asks for. In: ARGV behind the operation's name. Out: a list whose first entry says what it is;
-- a job in it is what `view` makes of one.

local operations = {}

local NONE = { 'none' }

-- Whether a job has waited longer for its first attempt than it may.
local function is_late(job)
  return job.attempt == '0' and job.start_by and tonumber(job.start_by) <= now
end

function operations.submit(most_jobs, most_bytes, id, record, body, ...)
  local job = table_of({ ... })
  local known = job.key and call('HGET', idempotency, job.key)
  local there = known and load(known)
  if there then
    return there.digest == job.digest and { 'known', view(there) } or { 'conflict' }
  end
  local refused = refusal(most_jobs, most_bytes, 1, #record + #body)
  if refused then
    return refused
  end
  new_job(id, record, body, job)
  if job.key then
    call('HSET', idempotency, job.key, id)
  end
  return { 'stored', view(job) }
end

-- The first job that is due, with its body, until its lease ends. Asked `again`, since the answer was lost, it is the job that has been
-- claimed by this token, whose attempt counts once.
function operations.claim(lease, token, again)
  for _, id in ipairs(again == '1' and call('ZRANGE', leases, 0, -1) or {}) do
    if call('HGET', own(id), 'token') == token then
      call('ZADD', leases, whole(now + lease), id)
      return { 'job', view(load(id)), call('HGET', bodies, id) }
    end
  end
  promote()
  for _ = 1, MOST do
    local id = call('ZRANGE', waiting, 0, 0)[1]
    if not id then
      return NONE
    end
    call('ZREM', waiting, id)
    local job = load(id)
    if job and is_late(job) then
      finish(job, 'failed', TOO_LATE)
    elseif job then
      call('ZADD', leases, whole(now + lease), id)
      local claims = (job.claims or 0) + 1
      set(job, { state = 'running', attempt = job.attempt + 1, claims = claims, token = token, changed = now })
      return { 'job', view(job), call('HGET', bodies, id) }
    end
  end
  return NONE
end

-- What the attempt of a claim came to: `completed` and `refused` with an answer, `failed` perhaps with one, `given-up` for good without one,
-- `postponed` for so long, `cut-off` by a stop.
operations['end'] = function(id, claim, kind, why, answer, body, delay)
  local job = load(id)
  if not job or job.state ~= 'running' or job.claims ~= claim then
    return NONE
  end
  call('ZREM', leases, id)
  answer = answer ~= '' and answer or nil
  if kind == 'completed' then
    finish(job, 'completed', nil, answer, body)
  elseif kind == 'refused' then
    finish(job, 'failed', nil, answer, body)
  elseif kind == 'given-up' then
    finish(job, 'failed', why)
  elseif kind == 'postponed' then
    set(job, { attempt = job.attempt - 1 })
    again(job, delay)
  elseif kind == 'cut-off' then
    set(job, { attempt = job.attempt - 1, start_by = false })
    call('ZREM', times, 'j' .. id)
    again(job, 0)
  elseif tonumber(job.attempt) >= tonumber(job.attempts) then
    finish(job, 'failed', why, answer, body)
  else
    set(job, { error = why })
    again(job, pause(job.attempt, job.number * 7919, job.first or 1000, tonumber(job.longest or '60000')))
  end
  return { 'done' }
end

function operations.cancel(id, is_queued_only)
  local job = load(id)
  if not job then
    return NONE
  end
  if job.state == 'queued' then
    dequeue(job)
    finish(job, 'cancelled')
  elseif job.state == 'running' and is_queued_only == '0' then
    call('ZREM', leases, id)
    finish(job, 'cancelled')
  end
  return { 'job', view(job) }
end

-- A job, and the body of its answer if that has at most so many bytes.
function operations.result(id, longest)
  local job = load(id)
  if not job then
    return NONE
  end
  local is_wanted = call('HSTRLEN', results, id) <= tonumber(longest)
  return { 'job', view(job), is_wanted and call('HGET', results, id) }
end

-- The time by Redis' clock.
function operations.time()
  return { 'time', now }
end

-- Milliseconds until a job is due.
function operations.due()
  if call('ZCARD', waiting) > 0 then
    return { 'due', 0 }
  end
  local first = call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  return first[1] and { 'due', math.max(0, first[2] - now) } or NONE
end

-- The jobs of these ids, at most `limit`, and the id to go on behind.
local function page(ids, limit, state, webhook)
  local found, looked = {}, false
  for at, id in ipairs(ids) do
    if #found == tonumber(limit) or at > MOST then
      return { 'page', looked, found }
    end
    local states = call('HMGET', own(id), 'state', 'w_state')
    -- What was never pending is not stored.
    local seen = states[2] or 'waiting'
    if states[1] then
      looked = id
      local is_webhook = webhook == '' or seen == webhook and call('HEXISTS', own(id), 'origin') == 1
      if (state == '' or states[1] == state) and is_webhook then
        found[#found + 1] = view(load(id))
      end
    end
  end
  return { 'page', false, found }
end

function operations.list(after, limit, state, webhook)
  local from = after == '' and '+' or '(' .. after
  local most = state == '' and webhook == '' and tonumber(limit) or MOST
  return page(call('ZREVRANGEBYLEX', order, from, '-', 'LIMIT', 0, most + 1), limit, state, webhook)
end

function operations.parts(after, limit, state, batch)
  local number = after ~= '' and call('HGET', own(after), 'number')
  local from = number and '(' .. number or '-inf'
  return page(call('ZRANGEBYSCORE', parts_key(batch), from, '+inf', 'LIMIT', 0, MOST + 1), limit, state, '')
end

-- Webhooks that are due, each until its lease ends, as many as there are places; and when another one is. Behind the lease come
-- places that are in use, by origin.
function operations.deliveries(free, places, lease, ...)
  local busy, found = table_of({ ... }), {}
  free = tonumber(free)
  for _, origin in ipairs(call('ZRANGEBYSCORE', origins, '-inf', whole(now), 'LIMIT', 0, MOST)) do
    local left = math.min(free, places - (busy[origin] or 0))
    local due = left > 0 and call('ZRANGEBYSCORE', to(origin), '-inf', whole(now), 'LIMIT', 0, whole(left)) or {}
    for _, id in ipairs(due) do
      call('ZADD', to(origin), whole(now + lease), id)
      found[#found + 1] = { id, origin, whole(call('HINCRBY', own(id), 'w_claims', 1)) }
      free = free - 1
    end
    if due[1] then
      schedule(origin)
    end
  end
  local next = call('ZRANGEBYSCORE', origins, '(' .. whole(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return { 'deliveries', next[2] and math.max(0, next[2] - now) or -1, found }
end

-- What an attempt to deliver came to, of at most `most`.
function operations.delivered(id, claim, is_accepted, why, is_final, after, most)
  local job = load(id)
  if not job or job.w_state ~= 'pending' or job.w_claims ~= claim then
    return NONE
  end
  local attempts, state, due = job.w_attempts + 1, 'pending', job.w_due
  if is_accepted == '1' then
    state = 'delivered'
  elseif is_final == '1' or attempts >= tonumber(most) then
    state = 'failed'
  else
    due = now + math.max(pause(attempts, job.number * 7919, 1000, HOUR), math.min(after, HOUR))
  end
  if state == 'pending' then
    call('ZADD', to(job.origin), whole(due), id)
  else
    call('ZREM', to(job.origin), id)
    call('HINCRBY', numbers, 'webhooks', -1)
    call('ZADD', times, whole(now + job.keep), 'j' .. id)
  end
  local failed = is_accepted ~= '1' and why
  set(job, {
    w_state = state, w_attempts = attempts, w_changed = now, w_due = due, w_error = failed, w_claims = job.w_claims + 1,
  })
  schedule(job.origin)
  return { 'state', state }
end

-- Sends a message again that was delivered or is a dead letter.
operations['send-again'] = function(id)
  local job = load(id)
  if not job then
    return NONE
  end
  if job.w_state == 'delivered' or job.w_state == 'failed' then
    send(job)
  end
  return { 'job', view(job) }
end

-- Quota, id, record, keep, timeout, fields of each part as JSON; id, record and fields of the last job if there is one; then id,
-- record and body of each part.
operations['submit-batch'] = function()
  local most_jobs, most_bytes, id, record, keep, timeout, fields = unpack(ARGV, 2, 8)
  local last_id, last_record, last_fields = unpack(ARGV, 9, 11)
  local total, bytes = (#ARGV - 11) / 3, #record
  for at = 12, #ARGV, 3 do
    bytes = bytes + #ARGV[at + 1] + #ARGV[at + 2]
  end
  local refused = refusal(most_jobs, most_bytes, total, bytes)
  if refused then
    return refused
  end
  for at = 12, #ARGV, 3 do
    local job = table_of(cjson.decode(fields))
    job.batch = id
    new_job(ARGV[at], ARGV[at + 1], ARGV[at + 2], job)
    call('ZADD', parts_key(id), job.number, job.id)
  end
  local batch = batch_key(id)
  call('HSET', batch, 'record', record, 'state', 'running', 'total', whole(total), 'succeeded', 0, 'failed', 0)
  call('HSET', batch, 'time', 0, 'submitted', whole(now), 'keep', keep, 'bytes', whole(#record))
  account(#record)
  if last_id ~= '' then
    call('HSET', batch, 'last_id', last_id, 'last_record', last_record, 'last_fields', last_fields)
  end
  if timeout ~= '' then
    call('HSET', batch, 'until', whole(now + timeout))
    call('ZADD', times, whole(now + timeout), 'b' .. id)
  end
  return { 'batch', call('HGETALL', batch) }
end

function operations.batch(id)
  local flat = call('HGETALL', batch_key(id))
  return flat[1] and { 'batch', flat } or NONE
end

operations['stop-batch'] = function(id)
  if call('HGET', batch_key(id), 'state') == 'running' then
    stop_batch(id, 'stopped')
  end
  return operations.batch(id)
end

local function sweep_batch(id)
  local batch = table_of(call('HGETALL', batch_key(id)))
  if batch.ended and batch.ended + batch.keep <= now then
    call('DEL', batch_key(id), parts_key(id))
    -- Those of earlier hosts were not counted.
    account(-(batch.bytes or 0))
  elseif batch.state == 'running' and batch['until'] and tonumber(batch['until']) <= now then
    stop_batch(id, 'timed_out')
  end
end

-- Removes what was kept long enough, and fails what has waited too long.
local function sweep()
  for _, member in ipairs(call('ZRANGEBYSCORE', times, '-inf', whole(now), 'LIMIT', 0, MOST)) do
    call('ZREM', times, member)
    local id = string.sub(member, 2)
    local job = string.sub(member, 1, 1) == 'j' and load(id)
    if job and job.state == 'queued' and is_late(job) then
      dequeue(job)
      finish(job, 'failed', TOO_LATE)
    elseif job and (job.state == 'completed' or job.state == 'failed' or job.state == 'cancelled') then
      -- A dead letter is kept from its last attempt on; what is pending comes here again after that.
      local changed = math.max(job.changed, job.w_changed or 0)
      if job.w_state ~= 'pending' and changed + job.keep <= now then
        remove(job)
      end
    elseif string.sub(member, 1, 1) == 'b' then
      sweep_batch(id)
    end
  end
end

-- Takes jobs from hosts that have not renewed their leases. After a time in which no host could renew any, because Redis was not
-- there, none is taken for as long as a lease lasts.
local function take_over(lease)
  if call('ZCARD', leases) == 0 then
    return
  end
  local seen = call('HMGET', numbers, 'beat', 'grace')
  call('HSET', numbers, 'beat', whole(now))
  local grace = tonumber(seen[2] or '0')
  if now - tonumber(seen[1] or '0') > lease / 2 then
    grace = now + lease
    call('HSET', numbers, 'grace', whole(grace))
  end
  if now < grace then
    return
  end
  for _, id in ipairs(call('ZRANGEBYSCORE', leases, '-inf', whole(now), 'LIMIT', 0, MOST)) do
    call('ZREM', leases, id)
    local job = load(id)
    if job and tonumber(job.attempt) < tonumber(job.attempts) then
      set(job, { error = CUT_OFF })
      again(job, 0)
    elseif job then
      finish(job, 'failed', CUT_OFF)
    end
  end
end

-- When the oldest of those was submitted that wait for a place; -1 if none does.
local function oldest()
  local found = -1
  for priority = 0, 2 do
    local from, below = whole(priority * STEP), '(' .. whole((priority + 1) * STEP)
    local first = call('ZRANGEBYSCORE', waiting, from, below, 'LIMIT', 0, 1)[1]
    local submitted = first and tonumber(call('HGET', own(first), 'submitted'))
    if submitted and (found < 0 or submitted < found) then
      found = submitted
    end
  end
  return found
end

-- Renews the leases of a host: behind the length of one come ids and claims. Does what is due, and says how many jobs there are,
-- whether there is something to run and to send, and which of the leases are lost.
function operations.beat()
  local lease, lost = tonumber(ARGV[2]), {}
  for at = 3, #ARGV, 2 do
    local job = call('HMGET', own(ARGV[at]), 'state', 'claims')
    if job[1] == 'running' and job[2] == ARGV[at + 1] then
      call('ZADD', leases, whole(now + lease), ARGV[at])
    else
      lost[#lost + 1] = ARGV[at]
    end
  end
  take_over(lease)
  promote()
  sweep()
  local ready = call('ZCARD', waiting)
  return {
    'beat', ready + call('ZCARD', delayed), call('ZCARD', leases), oldest(), ready,
    tonumber(call('HGET', numbers, 'webhooks') or '0'), call('ZCOUNT', origins, '-inf', whole(now)), lost, now,
  }
end

-- Redis without room denies a script its first write if that takes room, and none after another one. What adds no job goes on, since
-- it makes room.
if op == 'beat' or op == 'end' or op == 'deliveries' or op == 'delivered' then
  call('ZREM', leases, '')
end

return { operations[op](unpack(ARGV, 2, math.min(#ARGV, 100))), ended }
