// The script that counts concurrency slots in Redis. It decides as `flow/counters/local/local-slots.ts` does, by the clock
// of the server; one suite runs over both.

import { createHash } from "node:crypto";
import { SLACK } from "#flow/counters/counter-engine.ts";
import { FOREIGN, isNumber, NO_ROOM, PRELUDE, type Script } from "./keys.ts";

/**
 * KEYS are the slots of one label value each; one may be there several times. ARGV has for each of them one text, its
 * fields separated by blanks. The reply has one text for each key: "foreign" where the key holds something else, "no room" where
 * it does not exist and was not created, otherwise:
 *
 * | Text                                                     | Reply                                                      |
 * |----------------------------------------------------------|------------------------------------------------------------|
 * | `take`, id, life, tokens, max, most slots, create        | result, tokens that were in flight before                  |
 * | `end`, id, life                                          | "1": ended, "0": unknown or expired                        |
 *
 * `life`: ms after which a slot expires. `tokens`: those that the flow wants. `max`: the most tokens in flight. `create`: "1" if
 * the key may be created.
 * Result: "1": granted, "0": refused, "2": refused because there are too many slots.
 *
 * The slots are one sorted set. The score of an id is the start of its slot, in Unix ms of the server. All other scores are
 * 0 or negative: `sum` is minus the tokens in flight; `w<id>` is minus the slot's tokens, stored only when that is not 1.
 */
const TEXT = `
${PRELUDE}
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

local function answer(asked)
  local field = string.gmatch(asked, '%S+')
  local function number() return tonumber(field()) end
  local what, id, life = field(), field(), number()
  slots = redis.pcall('ZCOUNT', key, '(0', '+inf')
  if not readable(slots) then return '${FOREIGN}' end
  sum = -score('sum')
  -- Every set that was stored has a sum.
  if not finite(sum) or sum < 0 or (slots > 0 and not redis.call('ZSCORE', key, 'sum')) then return '${FOREIGN}' end

  if what == 'end' then
    local start = score(id)
    if start <= 0 then return '0' end
    free(id)
    store()
    return start + life > now and '1' or '0'
  end

  local want, max, most, create = number(), number(), number(), field()
  if slots == 0 and (exhausted or create == '0') then return '${NO_ROOM}' end
  -- What exists may grow by this slot.
  if exhausted then redis.call('ZREM', key, '') end
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

const RESULTS: readonly string[] = Object.freeze(["0", "1", "2"]);

export const SLOTS: Script = {
  text: TEXT,
  sha: createHash("sha1").update(TEXT).digest("hex"),
  isReply: (reply) => {
    if (reply === NO_ROOM) return true;
    const [result = "", current = "0", ...more] = reply.split(" ");
    return RESULTS.includes(result) && isNumber(current) && more.length === 0;
  },
};
