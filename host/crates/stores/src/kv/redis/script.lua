-- One operation on the buckets of one owner: done as a whole, or not at all.
--
-- Place in the flow: `redis.rs` sends it, Redis runs it. Everything of an owner has one hash tag, so that it is in one slot.
-- In: KEYS, the owner's values (hash), their order (sorted set of equal scores), their ends (sorted set of milliseconds since
-- 1970 by the clock of Redis), their bytes (number), and a key that is there within a script only: without it a cluster would
-- run the script on half of the keys while it moves them. A member is `BUCKET NUL KEY`.
-- ARGV: the operation, most bytes and most keys of the owner, and what the operation takes.
-- Out: a list whose first entry says what it is.
-- Invariants: the first command that can be refused for want of memory is the first one that writes what is new; `bytes` is the
-- sum of keys and values that are stored, those among them whose time is over and that are not removed yet.

local values, order, ends, bytes, scratch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local op, most_bytes, most_keys = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Most members removed by the way, and to make room.
local FEW, MANY = 50, 2000

local function whole(number)
  return string.format('%.0f', number)
end

-- Bytes of a key and its value.
local function size(member, length)
  return #member - string.find(member, '\0', 1, true) + length
end

local function account(by)
  -- No key is empty, so that without bytes there is no value.
  if by ~= 0 and redis.call('INCRBY', bytes, whole(by)) == 0 then
    redis.call('DEL', bytes)
  end
end

local function remove(member)
  local length = redis.call('HSTRLEN', values, member)
  if redis.call('HDEL', values, member) == 1 then
    redis.call('ZREM', order, member)
    redis.call('ZREM', ends, member)
    account(-size(member, length))
  end
end

local function sweep(most)
  local over = redis.call('ZRANGEBYSCORE', ends, '-inf', whole(now), 'LIMIT', 0, most)
  for _, member in ipairs(over) do
    remove(member)
  end
  return #over
end

local function is_over(member)
  local stop = redis.call('ZSCORE', ends, member)
  return stop and tonumber(stop) <= now
end

-- A value whose time is not over, or false.
local function live(member)
  local value = redis.call('HGET', values, member)
  return value and not is_over(member) and value
end

-- Bytes that storing these pairs adds, and keys.
local function growth(entries)
  local more, keys = 0, 0
  for at = 1, #entries, 2 do
    local member = entries[at]
    more = more + size(member, #entries[at + 1])
    if redis.call('HEXISTS', values, member) == 1 then
      more = more - size(member, redis.call('HSTRLEN', values, member))
    else
      keys = keys + 1
    end
  end
  return more, keys
end

-- Stores these pairs, of which no member is there twice; gives the limit that forbids it. `stop`: a time, `nil` for none, `true`
-- for the one that there is.
local function put(entries, stop)
  local more, keys, limit
  for attempt = 1, 2 do
    more, keys = growth(entries)
    limit = nil
    if tonumber(redis.call('GET', bytes) or '0') + more > most_bytes then
      limit = 'bytes'
    elseif redis.call('HLEN', values) + keys > most_keys then
      limit = 'keys'
    end
    -- What is over makes room first.
    if not limit or attempt == 2 or sweep(MANY) == 0 then
      break
    end
  end
  if limit then
    return { 'limit', limit }
  end
  for at = 1, #entries, 2 do
    redis.call('HSET', values, entries[at], entries[at + 1])
    redis.call('ZADD', order, 0, entries[at])
    if not stop then
      redis.call('ZREM', ends, entries[at])
    elseif stop ~= true then
      redis.call('ZADD', ends, whole(stop), entries[at])
    end
  end
  account(more)
end

-- When a value is over that lives for so many milliseconds; an empty text is for ever.
local function stop_of(ttl)
  return ttl ~= '' and now + tonumber(ttl) or nil
end

-- The sum of a number and another one, both as text; or nil, and why.
local function sum(value, by)
  local sign, digits = string.match(value, '^([+-]?)0*(%d+)$')
  if not digits then
    return nil, 'number'
  end
  if sign == '-' and digits ~= '0' then
    digits = '-' .. digits
  end
  -- Numbers of Lua hold 53 bits.
  if #digits <= 15 and #by <= 15 then
    return whole(tonumber(digits) + tonumber(by))
  end
  redis.call('SET', scratch, digits)
  local done = redis.pcall('INCRBY', scratch, by)
  local text = redis.call('GET', scratch)
  redis.call('DEL', scratch)
  if type(done) == 'table' and done.err then
    return nil, string.find(done.err, 'overflow', 1, true) and 'sum' or 'number'
  end
  return text
end

local operations = {}

function operations.get(member)
  local value = live(member)
  if value then
    return { 'value', value }
  end
  return { 'none' }
end

function operations.set(member, value, ttl)
  return put({ member, value }, stop_of(ttl)) or { 'done' }
end

function operations.add(member, value, ttl)
  if live(member) then
    return { 'was', 0 }
  end
  return put({ member, value }, stop_of(ttl)) or { 'was', 1 }
end

function operations.increment(member, by, ttl)
  local value = live(member)
  local after, why = sum(value or '0', by)
  if not after then
    return { 'invalid', why }
  end
  return put({ member, after }, value and true or stop_of(ttl)) or { 'number', after }
end

-- `is`: whether a value is expected at all.
function operations.swap(member, is, current, value)
  local found = live(member)
  if (found and true or false) ~= (is == '1') or (found and found ~= current) then
    return { 'was', 0 }
  end
  return put({ member, value }, found and true or nil) or { 'was', 1 }
end

function operations.delete(...)
  for _, member in ipairs({ ... }) do
    remove(member)
  end
  return { 'done' }
end

operations['delete-many'] = operations.delete

operations['set-many'] = function(...)
  return put({ ... }, nil) or { 'done' }
end

-- Members in order between two borders, after the first `skip` of them; one more than `limit` if there is more.
function operations.keys(min, max, skip, limit)
  skip, limit = tonumber(skip), tonumber(limit) + 1
  if redis.call('ZCOUNT', ends, '-inf', whole(now)) == 0 then
    return { 'keys', unpack(redis.call('ZRANGEBYLEX', order, min, max, 'LIMIT', whole(skip), limit)) }
  end
  local found = { 'keys' }
  while true do
    local page = redis.call('ZRANGEBYLEX', order, min, max, 'LIMIT', 0, 1000)
    for _, member in ipairs(page) do
      if is_over(member) then
        -- It is not there.
      elseif skip > 0 then
        skip = skip - 1
      else
        found[#found + 1] = member
        if #found > limit then
          return found
        end
      end
    end
    if #page < 1000 then
      return found
    end
    min = '(' .. page[#page]
  end
end

-- Removes what is over; says whether there may be more now, and whether there will be.
function operations.sweep()
  local removed = sweep(MANY)
  return { 'swept', removed, redis.call('ZCARD', ends) }
end

if op ~= 'get' and op ~= 'keys' and op ~= 'sweep' then
  sweep(FEW)
end
return operations[op](unpack(ARGV, 4))
