// The script that counts one token bucket in Redis. It decides as `flow/limit/counters/local-buckets.ts` does, by the
// clock of the server; a test compares the two.

import { createHash } from "node:crypto";
import type { Script } from "../requests.ts";

/**
 * How long a full bucket is kept, ms. A full bucket equals none; but a bucket that is full by today's rate would not be
 * by a lower one that a controller decides in the meantime.
 */
export const FULL_MS = 600_000;

/** What becomes of a request for more than there is. */
export type Overdraft = "refuse" | "owe";

/**
 * KEYS: the bucket. ARGV: wanted tokens, tokens that come back, capacity, tokens per interval, interval in ms,
 * continuous, delayed, longest idle time in ms, overdraft; then, for each change of the rate, latest first, how many ms
 * ago it was and the tokens per interval before it.
 * Reply: "1" or "0" for granted, the tokens that are left (negative when owed), ms until the wanted ones could be there.
 * The bucket is two doubles: available tokens, and the time up to which it has been filled, in Unix ms of the server.
 */
const TEXT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local want, back = tonumber(ARGV[1]), tonumber(ARGV[2])
local capacity, amount, interval = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local continuous, delayed = ARGV[6] == '1', ARGV[7] == '1'
local idle, owe = tonumber(ARGV[8]), ARGV[9] == 'owe'
local HISTORY = 10
local LONGEST = 315576000000000

local function time_for(tokens)
  if amount <= 0 then return 0 end
  local intervals = tokens / amount
  if not continuous then intervals = math.ceil(intervals - 1e-9) end
  return math.min(LONGEST, intervals * interval)
end

local function gained(from, to)
  local sum, rate = 0, amount
  for at = HISTORY, #ARGV, 2 do
    local change = now - tonumber(ARGV[at])
    if change <= from then break end
    if change < to then
      sum = sum + rate * (to - change)
      to = change
    end
    rate = tonumber(ARGV[at + 1])
  end
  return (sum + rate * math.max(0, to - from)) / interval
end

local available, mark = capacity, now
local stored = redis.call('GET', KEYS[1])
if stored then
  available, mark = struct.unpack('<dd', stored)
  -- The server's clock may have been set back, or another server with another clock may have taken over: no bucket
  -- waits for longer than its delay.
  local latest = now
  if delayed then latest = now + time_for(capacity) end
  mark = math.min(mark, latest)
  if mark < now then
    local to = now
    if not continuous then to = mark + math.floor((now - mark) / interval + 1e-9) * interval end
    available = available + gained(mark, to)
    mark = to
  end
  available = math.min(capacity, available)
end
if delayed and available >= capacity then
  mark = now + time_for(capacity)
  if not continuous and amount > 0 then mark = mark - interval end
end
local missing = want - available
local granted = want <= 0 or owe or missing <= 1e-9
if granted then available = available - want end
if back > 0 and stored then available = math.min(capacity, available + back) end
if stored or (granted and want > 0) then
  local packed = struct.pack('<dd', available, mark)
  local keep = 0
  if amount > 0 then keep = mark + time_for(capacity - available) - now + ${FULL_MS} end
  if idle > 0 and (keep <= 0 or idle < keep) then keep = idle end
  if keep > 0 then
    redis.call('SET', KEYS[1], packed, 'PX', string.format('%.0f', math.max(1, keep)))
  else
    redis.call('SET', KEYS[1], packed)
  end
end
local wait = 0
if missing > 1e-9 and want > 0 and amount > 0 then
  wait = math.max(0, mark + time_for(missing) - now)
end
return string.format('%d %.17g %.17g', granted and 1 or 0, available, wait)
`;

export const BUCKET: Script = {
  text: TEXT,
  sha: createHash("sha1").update(TEXT).digest("hex"),
};
