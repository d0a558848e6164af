// The script that is the owner of one token bucket in Redis. It decides as `counters/leases/owned-buckets.ts` does, by the
// clock of the server; a test compares the two.

import { createHash } from "node:crypto";
import { LONGEST_LEASE_MS, MAX_LEASES } from "../leases/bucket-owner.ts";
import { FOREIGN, isNumber, NO_ROOM, PRELUDE, type Script } from "./keys.ts";

/**
 * KEYS are buckets; one may be there several times. ARGV has for each of them one text of four parts, separated by
 * semicolons; the fields of a part are separated by blanks:
 *
 * | Part    | Fields                                                                                               |
 * |---------|------------------------------------------------------------------------------------------------------|
 * | bucket  | capacity, tokens per interval, interval (ms), continuous, delayed, longest idle time (ms), whether   |
 * |         | the key may be created, overdraft, tokens that come back                                             |
 * | runs    | for each run: its amount, how many times                                                             |
 * | lease   | none, or: agent, turn, unspent, keep, wish, unit, duration (ms)                                      |
 * | history | for each change of the rate, latest first: how many ms ago it was, tokens per interval before it     |
 *
 * The reply has one text for each key: "foreign" where the key holds something else, "no room" where it does not exist and
 * was not created, otherwise these fields, separated by blanks: grants of each run (each followed by a comma), tokens that
 * are not spent (negative when owed), wait (ms), leased tokens, recall ("1" or "0").
 *
 * The value of a key is packed doubles; times are Unix ms of the server:
 *
 * | Doubles             | Meaning                                                                     |
 * |---------------------|-----------------------------------------------------------------------------|
 * | 2                   | tokens that are not spent, mark (the time up to which the bucket is filled) |
 * | 1, if leases follow | the time until which leases are recalled                                    |
 * | 4 for each lease    | agent, last turn, tokens, when they count as spent                          |
 *
 * A key expires when its bucket is full, as a full bucket equals none.
 */
const TEXT = `
${PRELUDE}
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local LONGEST = 315576000000000
local SLACK = 1e-9
local AGENT, TURN, TOKENS, ENDS = 1, 2, 3, 4
local F = '(%S+)'
local ASKED = '^' .. string.rep(F .. ' ', 8) .. '([^; ]+);([^;]*);([^;]*);(.*)$'
local LEASE = '^' .. string.rep(F .. ' ', 6) .. F .. '$'

-- The bucket at hand.
local capacity, amount, interval, continuous, delayed, history
local available, mark, recalled, leases

local function time_for(tokens)
  if amount <= 0 then return 0 end
  local intervals = tokens / amount
  if not continuous then intervals = math.ceil(intervals - SLACK) end
  return math.min(LONGEST, intervals * interval)
end

local function wait_for(tokens)
  if amount <= 0 then return 0 end
  return math.max(0, mark + time_for(tokens) - now)
end

local function gained(from, to)
  local sum, rate = 0, amount
  for ago, before in string.gmatch(history, '(%S+) (%S+)') do
    local change = now - tonumber(ago)
    if change <= from then break end
    if change < to then
      sum = sum + rate * (to - change)
      to = change
    end
    rate = tonumber(before)
  end
  return (sum + rate * math.max(0, to - from)) / interval
end

local function delay_when_full(at)
  if delayed and available >= capacity then
    mark = at + time_for(capacity)
    if not continuous and amount > 0 then mark = mark - interval end
  end
end

local function fill(at)
  if mark < at then
    local to = at
    if not continuous then to = mark + math.floor((at - mark) / interval + SLACK) * interval end
    available = available + gained(mark, to)
    mark = to
  end
  available = math.min(capacity, available)
  delay_when_full(at)
end

-- A leased token was in the bucket all the time, unless the capacity has been lowered.
local function spend(tokens)
  available = available - math.min(tokens, math.max(0, available))
end

-- The numbers of a stored bucket, as they were packed; nil if these are no numbers of a bucket.
local function unpacked(stored)
  if #stored ~= 16 and (#stored < 24 or (#stored - 24) % 32 ~= 0) then return nil end
  local numbers = { struct.unpack('<' .. string.rep('d', #stored / 8), stored) }
  -- The position after the last one.
  table.remove(numbers)
  for at = 1, #numbers do
    if not finite(numbers[at]) then return nil end
  end
  return numbers
end

local function answer(key, asked)
  local idle, create, overdraft, back, runs, lease
  capacity, amount, interval, continuous, delayed, idle, create, overdraft, back, runs, lease, history =
    string.match(asked, ASKED)
  capacity, amount, interval = tonumber(capacity), tonumber(amount), tonumber(interval)
  continuous, delayed = continuous == '1', delayed == '1'
  idle, back = tonumber(idle), tonumber(back)
  local owe = overdraft == 'owe'
  available, mark, recalled, leases = capacity, now, 0, {}

  local stored = redis.pcall('GET', key)
  if not readable(stored) then return '${FOREIGN}' end
  if not stored and (exhausted or create == '0') then return '${NO_ROOM}' end
  local numbers = stored and unpacked(stored)
  if stored and not numbers then return '${FOREIGN}' end
  if stored then
    available, mark = numbers[1], numbers[2]
    -- The server's clock may have been set back, or another server with another clock may have taken over: no bucket
    -- waits for longer than its delay, and no lease is longer than the longest.
    local latest = now
    if delayed then latest = now + time_for(capacity) end
    mark = math.min(mark, latest)
    if #numbers > 2 then
      recalled = math.min(numbers[3], now + ${LONGEST_LEASE_MS})
      for at = 4, #numbers, 4 do
        local lease = { numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3] }
        lease[ENDS] = math.min(lease[ENDS], now + ${LONGEST_LEASE_MS})
        leases[#leases + 1] = lease
      end
      table.sort(leases, function(a, b) return a[ENDS] < b[ENDS] end)
      while leases[1] and leases[1][ENDS] <= now do
        fill(leases[1][ENDS])
        spend(leases[1][TOKENS])
        table.remove(leases, 1)
      end
    end
    fill(now)
  else
    delay_when_full(now)
  end

  local agent, turn, unspent, keep, wish, unit, duration
  local mine
  if lease ~= '' then
    agent, turn, unspent, keep, wish, unit, duration = string.match(lease, LEASE)
    agent, turn, unspent, keep = tonumber(agent), tonumber(turn), tonumber(unspent), tonumber(keep)
    wish, unit, duration = tonumber(wish), tonumber(unit), tonumber(duration)
    for at = 1, #leases do
      if leases[at][AGENT] == agent then mine = leases[at] end
    end
    if mine then
      if turn <= mine[TURN] then
        return (string.gsub(runs, '%S+ %S+ ?', '0,')) .. ' 0 0 0 0'
      end
      local left = math.min(unspent, mine[TOKENS])
      spend(mine[TOKENS] - left)
      mine[TOKENS] = math.min(keep, left)
    end
  end
  if back > 0 and stored then
    available = math.min(capacity, available + back)
    delay_when_full(now)
  end

  local outstanding, longest = 0, 0
  for at = 1, #leases do
    outstanding = outstanding + leases[at][TOKENS]
    longest = math.max(longest, leases[at][ENDS] - now)
  end

  local free, taken, refused = math.max(0, available) - outstanding, 0, nil
  local granted = ''
  for want, times in string.gmatch(runs, '(%S+) (%S+)') do
    want, times = tonumber(want), tonumber(times)
    local count = times
    if not owe and want > 0 then
      count = math.max(0, math.min(times, math.floor((free + SLACK) / want)))
    end
    free = free - count * want
    taken = taken + count * want
    if count < times and not refused then refused = want end
    granted = granted .. string.format('%d,', count)
  end
  available = available - taken

  local wait = 0
  if refused then
    wait = wait_for(refused + outstanding - available)
    if outstanding > 0 then
      local returned = longest
      local filled = wait_for(refused - available)
      if refused <= available + SLACK then
        recalled = now + longest
      elseif filled > 0 then
        returned = math.max(returned, filled)
      else
        returned = wait
      end
      if wait > 0 then wait = math.min(wait, returned) else wait = returned end
    end
  elseif owe and available < -SLACK then
    wait = wait_for(-available)
  end

  local leased = 0
  if agent then
    if not mine and wish > 0 and #leases < ${MAX_LEASES} then
      mine = { agent, turn, 0, 0 }
      leases[#leases + 1] = mine
    end
    if mine then
      mine[TURN] = turn
      mine[ENDS] = now + math.min(duration, ${LONGEST_LEASE_MS})
      if recalled <= now then
        local all = math.max(0, available) - outstanding + mine[TOKENS]
        local most = math.min(wish, all / (#leases + 1) - mine[TOKENS])
        mine[TOKENS] = mine[TOKENS] + math.max(0, math.floor(most / unit + SLACK) * unit)
      end
      leased = mine[TOKENS]
    end
  end

  local packed = struct.pack('<dd', available, mark)
  local held, owed = 0, 0
  local list = {}
  for at = 1, #leases do
    local lease = leases[at]
    if lease[TOKENS] > 0 or lease ~= mine or wish > 0 then
      list[#list + 1] = struct.pack('<dddd', lease[AGENT], lease[TURN], lease[TOKENS], lease[ENDS])
      held = math.max(held, lease[ENDS] - now)
      owed = owed + lease[TOKENS]
    end
  end
  if #list > 0 then packed = packed .. struct.pack('<d', recalled) .. table.concat(list) end

  if stored or taken > 0 or #list > 0 then
    -- The time until it is full. One that never fills stays for as long as it may be unused. Leased tokens count as spent at
    -- the end of their lease, and are filled from then on.
    local life = math.huge
    if amount > 0 then
      life = mark + time_for(capacity - available + owed) - now
    elseif idle > 0 then
      life = idle
    end
    life = math.ceil(math.max(life, 1) + held)
    if exhausted then redis.call('DEL', key) end
    if life == math.huge then
      redis.call('SET', key, packed)
    else
      redis.call('SET', key, packed, 'PX', string.format('%.0f', life))
    end
  end
  local recall = recalled > now and #list > 0
  return string.format('%s %.17g %.17g %.17g %d', granted, available, wait, leased, recall and 1 or 0)
end

local replies = {}
for at = 1, #KEYS do replies[at] = answer(KEYS[at], ARGV[at]) end
return replies
`;

export const BUCKET: Script = {
  text: TEXT,
  sha: createHash("sha1").update(TEXT).digest("hex"),
  isReply: (reply) => {
    if (reply === NO_ROOM) return true;
    const [granted = "", ...numbers] = reply.split(" ");
    // One number and a comma for each run, of which there may be none.
    const counts = granted.split(",");
    const end = counts.pop();
    return end === "" && numbers.length === 4 && [...counts, ...numbers].every(isNumber);
  },
};
