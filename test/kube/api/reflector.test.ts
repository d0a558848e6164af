// Following objects of an API server: what a reader hears when the server breaks off, forgets, is busy or is away.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { tokenFile } from "#kube/api/credentials.ts";
import { Reflector, type ReflectorOptions } from "#kube/api/reflector.ts";
import { fakeClock } from "../../kit/clock.ts";
import { folderOf } from "../../kit/folder.ts";
import { clientOf, type FakeApi, fakeApi, THINGS, thing } from "../../kit/kube/fake-api.ts";
import { realClock } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

/** `change` lists what the reader was told: `+name@version`, `-name`, and `.` for news without any. */
async function setting(
  t: TestContext,
  options: Partial<ReflectorOptions<string>> & {
    readonly api?: FakeApi;
    readonly clock?: Clock;
    readonly credentials?: ReturnType<typeof tokenFile>;
  } = {},
) {
  const { clock = realClock, credentials, api = await fakeApi(t) } = options;
  const told: string[] = [];
  const states: string[] = [];
  const own = credentials === undefined ? {} : { credentials };
  const reflector = new Reflector<string>({
    client: clientOf(t, api, { clock, ...own }),
    resource: THINGS,
    keep: ({ metadata }) => metadata.resourceVersion ?? "",
    changed: ({ puts, deletes }) => {
      const all = [
        ...deletes.map((key) => `-${key.slice(2)}`),
        ...[...puts].map(([key, version]) => `+${key.slice(2)}@${version}`),
      ];
      told.push(all.length === 0 ? "." : all.join(" "));
    },
    followed: (now) => states.push(now.state === "away" ? `away: ${now.fault.message}` : now.state),
    chance: seededChance(1),
    clock,
    ...options,
  });
  t.after(() => reflector.close());
  const watch = async (at: number) => {
    await until(`watch ${at}`, () => api.watches.length > at);
    const found = api.watches[at];
    assert.ok(found);
    return found;
  };
  const tells = async (...wanted: readonly string[]) => {
    await until(`told ${wanted.join()}`, () => told.length >= wanted.length);
    assert.deepEqual(told.splice(0), wanted);
  };
  return { api, reflector, told, states, watch, tells };
}

/** A clock that a test moves, and the pauses that were begun on it, in milliseconds. */
function pausingClock() {
  const clock = fakeClock();
  const pauses: number[] = [];
  const watched: Clock = {
    ...clock,
    alarm(ms, ring) {
      // Longer alarms guard watches.
      if (ms <= 30_000) pauses.push(ms);
      return clock.alarm(ms, ring);
    },
  };
  /** Waits until the n-th pause has begun, counted from 0, and lets it pass up to its last `left` milliseconds. */
  const pass = async (at: number, left = 0) => {
    await until(`pause ${at}`, () => pauses.length > at);
    clock.advance((pauses[at] ?? 0) - left);
  };
  return { clock: watched, advance: clock.advance, pauses, pass };
}

test("the objects are listed in pages, then followed from the version of the list", async (t) => {
  const { api, reflector, watch, tells } = await setting(t);
  api.items = [thing("x", "1"), thing("y", "2"), thing("z", "3")];
  api.resourceVersion = "9";
  api.pageSize = 2;
  await reflector.start();
  await tells("+x@1 +y@2 +z@3");
  const first = await watch(0);
  assert.equal(first.query.get("resourceVersion"), "9");
  assert.equal(first.query.get("allowWatchBookmarks"), "true");
  assert.equal(api.asked[0]?.query.get("limit"), "500");
  assert.equal(api.asked[1]?.query.get("continue"), "2");
  first.send("ADDED", thing("w", "10"));
  first.send("MODIFIED", thing("x", "11"));
  first.send("DELETED", thing("y", "12"));
  await tells("+w@10", "+x@11", "-y");
  assert.deepEqual([...reflector.entries()].toSorted(), [
    ["a/w", "10"],
    ["a/x", "11"],
    ["a/z", "3"],
  ]);
});

test("a watch that breaks off goes on from the last event or bookmark, and nothing is told twice", async (t) => {
  const { api, reflector, watch, tells, told } = await setting(t);
  api.items = [thing("x", "1")];
  reflector.follow();
  await tells("+x@1");
  const first = await watch(0);
  first.send("BOOKMARK", { metadata: { resourceVersion: "70" } });
  first.raw('{"type":"ADDED","object":{"metadata":{"na');
  await until("the bookmark", () => reflector.counts.events === 1);
  first.end("cut");
  const second = await watch(1);
  assert.equal(second.query.get("resourceVersion"), "70");
  // A server repeats an event that the client knows.
  second.send("ADDED", thing("x", "1"));
  second.send("ADDED", thing("y", "71"));
  await tells("+y@71");
  second.end();
  assert.equal((await watch(2)).query.get("resourceVersion"), "71");
  assert.deepEqual([told, reflector.counts.lists], [[], 1]);
});

test("an event that is not JSON, or has no object, does not end the watch for ever", async (t) => {
  const { api, reflector, watch, tells, states } = await setting(t);
  reflector.follow();
  await tells(".");
  (await watch(0)).raw("<html>\n");
  (await watch(1)).raw('{"type":"ADDED"}\n');
  (await watch(2)).send("ADDED", thing("x", "5"));
  await tells("+x@5");
  assert.match(states[1] ?? "", /^away: .*is not an event or a list/);
  assert.equal(states.at(-1), "following");
  assert.equal(api.asked.length, 4);
});

for (const [how, gone] of [
  ["as an event", undefined],
  ["as a status", 410],
] as const) {
  test(`a server that forgot the state (${how}) is listed again, and the reader hears the difference`, async (t) => {
    const { api, reflector, watch, tells, told } = await setting(t);
    api.items = [thing("x", "1"), thing("y", "2"), thing("z", "3")];
    await reflector.start();
    await tells("+x@1 +y@2 +z@3");
    const first = await watch(0);
    api.items = [thing("x", "1"), thing("z", "8"), { ...thing("n", "9") }];
    api.resourceVersion = "9";
    const expired = { kind: "Status", code: 410, reason: "Expired", message: "too old" };
    if (gone === undefined) first.send("ERROR", expired);
    else {
      api.before = ({ query, reply }) => {
        if (query.get("watch") !== "true") return false;
        api.before = () => false;
        reply(gone, expired);
        return true;
      };
      first.end();
    }
    await tells("-y +z@8 +n@9");
    const next = await watch(1);
    assert.equal(next.query.get("resourceVersion"), "9");
    assert.deepEqual([told, reflector.counts.lists], [[], 2]);
  });
}

test("an object that was deleted and made again under its name is told, even with the version that is known", async (t) => {
  const { api, reflector, watch, tells } = await setting(t);
  api.items = [thing("x", "1")];
  await reflector.start();
  await tells("+x@1");
  const again = thing("x", "1");
  api.items = [{ ...again, metadata: { ...again.metadata, uid: "other" } }];
  (await watch(0)).send("ERROR", { code: 410 });
  await tells("+x@1");
});

test("a busy server is asked again after the time that it names", async (t) => {
  const { clock, advance, pauses, pass } = pausingClock();
  const { api, reflector, tells } = await setting(t, { clock });
  let busy = 2;
  api.before = ({ reply }) => {
    if (busy-- <= 0) return false;
    reply(429, { kind: "Status", code: 429, message: "busy" }, { "retry-after": "7" });
    return true;
  };
  const started = reflector.start();
  for (const at of [0, 1]) {
    await pass(at, 1);
    assert.equal(api.asked.length, at + 1);
    advance(1);
  }
  await started;
  await tells(".");
  assert.deepEqual(pauses, [7_000, 7_000]);
});

test("a token that was rotated is read again when the server refuses the old one", async (t) => {
  const folder = folderOf(t, { token: "old\n" });
  const file = join(folder, "token");
  const { api, reflector, watch, tells, states } = await setting(t, {
    credentials: tokenFile(file, realClock),
  });
  let valid = "Bearer old";
  api.before = ({ headers, reply }) => {
    if (headers.authorization === valid) return false;
    reply(401, { kind: "Status", code: 401, message: "Unauthorized" });
    return true;
  };
  await reflector.start();
  await tells(".");
  const first = await watch(0);
  writeFileSync(file, "new\n");
  valid = "Bearer new";
  first.end();
  (await watch(1)).send("ADDED", thing("x", "3"));
  await tells("+x@3");
  assert.deepEqual(states, ["following"]);
  assert.equal(reflector.counts.lists, 1);
});

test("while the server is away the last state stays; afterwards the watch goes on, or is told what changed", async (t) => {
  const { clock, pauses, pass } = pausingClock();
  const { api, reflector, watch, tells, told, states } = await setting(t, { clock });
  api.items = [thing("x", "1")];
  await reflector.start();
  await tells("+x@1");
  await watch(0);
  api.away = true;
  await until("it is noticed", () => states.at(-1)?.startsWith("away") === true);
  let away = 0;
  let attempts = 0;
  for (; away < 60_000; attempts++) {
    await pass(attempts);
    away += pauses[attempts] ?? 0;
  }
  // Pauses grow to half a minute; up to half of each is left to chance.
  for (const [at, ms] of pauses.entries()) {
    const longest = Math.min(500 * 2 ** at, 30_000);
    assert.ok(ms >= longest / 2 && ms <= longest, `pause ${at}: ${ms}`);
  }
  assert.equal(reflector.get("a/x"), "1");
  await until("the attempt failed", () => pauses.length > attempts);
  api.away = false;
  api.before = ({ query, reply }) => {
    if (query.get("watch") !== "true") return false;
    api.before = () => false;
    reply(410, { code: 410 });
    return true;
  };
  api.items = [thing("x", "2")];
  for (let at = attempts; told.length === 0; at++) {
    await until("news, or another pause", () => told.length > 0 || pauses.length > at);
    if (told.length === 0) await pass(at);
  }
  await tells("+x@2");
  assert.deepEqual(told, []);
  await until("it is followed again", () => states.at(-1) === "following");
});

test("more objects than are allowed are a fault, and those that are known stay", async (t) => {
  const { api, reflector, watch, tells, states } = await setting(t, { maxObjects: 2 });
  api.items = [thing("x", "1"), thing("y", "2")];
  await reflector.start();
  await tells("+x@1 +y@2");
  (await watch(0)).send("ADDED", thing("z", "3"));
  await until("it is said", () => /more than 2 objects/.test(states.at(-1) ?? ""));
  assert.equal(reflector.size, 2);
});

test("a reader that leaves objects out hears when one becomes or ceases to be one of its own", async (t) => {
  const { api, reflector, watch, tells } = await setting(t, {
    keep: (object) => ("wanted" in object ? (object.metadata.resourceVersion ?? "") : undefined),
  });
  api.items = [thing("x", "1"), thing("y", "2", { wanted: true })];
  await reflector.start();
  await tells("+y@2");
  const first = await watch(0);
  first.send("MODIFIED", thing("x", "3", { wanted: true }));
  first.send("MODIFIED", thing("y", "4"));
  await tells("+x@3", "-y");
  first.send("DELETED", thing("y", "5"));
  first.send("DELETED", thing("x", "6"));
  await tells("-x");
});

test("what is refused at the start is thrown with the server's reason", async (t) => {
  const { api, reflector } = await setting(t);
  api.before = ({ reply }) => {
    reply(403, { kind: "Status", code: 403, message: "things is forbidden: no list" });
    return true;
  };
  await assert.rejects(reflector.start(), (thrown: Error & { code?: string }) => {
    assert.equal(thrown.code, "PERMISSION_DENIED");
    assert.match(
      thrown.message,
      /^GET \/apis\/example\.com\/v1\/things: status 403: things is forbidden/,
    );
    return true;
  });
});

test("a list of another state than its first page begins again", async (t) => {
  const { api, reflector, tells } = await setting(t);
  api.items = [thing("x", "1"), thing("y", "2")];
  api.pageSize = 1;
  let refused = 0;
  api.before = ({ query, reply }) => {
    if (query.get("continue") === null || refused > 0) return false;
    refused += 1;
    reply(410, { code: 410, reason: "Expired" });
    return true;
  };
  reflector.follow();
  await tells("+x@1 +y@2");
  assert.equal(reflector.counts.lists, 2);
});
