// The script that counts concurrency slots in Redis. It decides as `flow/counters/local/local-slots.ts` does, by the clock
// of the server; one suite runs over both.

import { createHash } from "node:crypto";
import { SLACK } from "#flow/counters/counter-engine.ts";
import type { Script } from "../requests.ts";
import { FOREIGN, READABLE } from "./keys.ts";

/**
 * KEYS: each the slots of one label value; one may be there several times. ARGV: for each of them, with blanks in between,
 * what to do, the id of the slot, ms after which a slot expires; to `take` also the wanted tokens, the most tokens in
 * flight, the most slots. The other thing to do is `end`. Reply: one for each of them.
 * Reply: "foreign" where the key holds something else.
 * Reply of `take`: "1" granted, "0" refused or "2" refused because there are too many slots, and the tokens that were in
 * flight before. Reply of `end`: "1" ended, "0" unknown or expired.
 *
 * The slots are one sorted set. An id has the start of its slot as score, in Unix ms of the server. Scores of all other
 * members are 0 or negative: `sum` has the tokens in flight, and `w` with an id the tokens of a slot that has not one.
 */
const TEXT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000

-- The slots at hand.
local key, slots, sum

local function score(member)
  return tonumber(redis.call('ZSCORE', key, member) or 0)
end
local function text(number)
  return string.format('%.17g', number)
end

local function free(slot)
  sum = sum + (tonumber(redis.call('ZSCORE', key, 'w' .. slot) or -1))
  redis.call('ZREM', key, slot, 'w' .. slot)
  slots = slots - 1
end
local function store()
  if slots == 0 then
    redis.call('DEL', key)
  else
    redis.call('ZADD', key, text(-sum), 'sum')
  end
end

${READABLE}
local function answer(asked)
  local field = string.gmatch(asked, '%S+')
  local function number() return tonumber(field()) end
  local what, id, life = field(), field(), number()
  slots = redis.pcall('ZCOUNT', key, '(0', '+inf')
  if not readable(slots) then return '${FOREIGN}' end
  sum = -score('sum')

  if what == 'end' then
    local start = score(id)
    if start <= 0 then return '0' end
    free(id)
    store()
    return start + life > now and '1' or '0'
  end

  -- The server's clock may have been set back, or another server with another clock may have taken over.
  for _, slot in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. text(now), '+inf')) do
    redis.call('ZADD', key, text(now), slot)
  end
  local before = slots
  if redis.call('ZCARD', key) == slots + 1 then
    -- Each slot is one token.
    local freed = redis.call('ZREMRANGEBYSCORE', key, '(0', text(now - life))
    sum, slots = sum - freed, slots - freed
  else
    for _, slot in ipairs(redis.call('ZRANGEBYSCORE', key, '(0', text(now - life))) do free(slot) end
  end
  -- Sums of fractions are not exact.
  if slots == 0 then sum = 0 end

  local want, max, most = number(), number(), number()
  local current = sum
  local answer = 0
  if max > 0 and (sum <= ${SLACK} or sum + want <= max + ${SLACK}) then
    answer = slots < most and 1 or 2
  end
  if answer == 1 then
    redis.call('ZADD', key, text(now), id)
    if want ~= 1 then redis.call('ZADD', key, text(-want), 'w' .. id) end
    sum, slots = sum + want, slots + 1
  end
  if answer == 1 or slots ~= before then store() end
  if answer == 1 then redis.call('PEXPIRE', key, string.format('%.0f', math.max(1, math.ceil(life)))) end
  return answer .. ' ' .. text(math.max(0, current))
end

local replies = {}
for at = 1, #KEYS do
  key = KEYS[at]
  replies[at] = answer(ARGV[at])
end
return replies
`;

export const SLOTS: Script = {
  text: TEXT,
  sha: createHash("sha1").update(TEXT).digest("hex"),
};
