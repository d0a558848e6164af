// What a controller says about its directory, in status and metric: on failures, and on the way back.

import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Fault } from "#base/fault.ts";
import { startController } from "#controller/controller.ts";
import { memoryStore } from "#store/memory.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { until } from "../kit/port.ts";

const EMPTY = "circuit: { components: [] }\n";

async function controllerOn(t: TestContext, directory: string) {
  const told = { status: "", errors: [] as string[], reloads: { success: 0, failure: 0 } };
  const clock = fakeClock();
  const store = memoryStore();
  t.after(() => store.close());
  const controller = await startController({
    directory,
    store,
    clock,
    voice: {
      info: () => undefined,
      warn: () => undefined,
      error: (line) => told.errors.push(line),
    },
    status: {
      ok() {
        told.status = "ok";
      },
      fail(message) {
        told.status = message;
      },
    },
    metrics: {
      standing: () => undefined,
      reloaded(result) {
        told.reloads[result] += 1;
      },
    },
  });
  t.after(() => controller.stop("drain"));
  const when = (what: string, holds: () => boolean) =>
    until(what, () => {
      clock.advance(500);
      return holds();
    });
  return { told, when };
}

test("a directory that was away and is back unchanged is well again", async (t) => {
  const root = folderOf(t);
  const directory = join(root, "policies");
  mkdirSync(directory);
  writeFileSync(join(directory, "a.yaml"), EMPTY);
  const { told, when } = await controllerOn(t, directory);
  renameSync(directory, join(root, "away"));
  await when("the absence shows", () => told.status !== "ok");
  assert.match(told.status, /\/policies: wanted a directory that can be read, got ENOENT/);
  renameSync(join(root, "away"), directory);
  await when("the return shows", () => told.status === "ok");
  assert.deepEqual(told.reloads, { success: 2, failure: 1 });
});

test("an entry that cannot be read is a failed reload that names it; at the start it ends it", async (t) => {
  const directory = folderOf(t, { "a.yaml": EMPTY });
  const { told, when } = await controllerOn(t, directory);
  mkdirSync(join(directory, "b.yaml"));
  await when("the failure shows", () => told.status !== "ok");
  assert.match(told.status, /b\.yaml: wanted a regular file, got a directory/);
  assert.match(told.errors.join("\n"), /b\.yaml/);
  assert.deepEqual(told.reloads, { success: 1, failure: 1 });
  await assert.rejects(controllerOn(t, directory), (thrown: unknown) => {
    assert.ok(thrown instanceof Fault);
    assert.equal(thrown.code, "INVALID_ARGUMENT");
    assert.match(thrown.message, /b\.yaml: wanted a regular file, got a directory/);
    assert.equal(thrown.cause, undefined, "a cause is printed with its stack");
    return true;
  });
  rmdirSync(join(directory, "b.yaml"));
  await when("it is well again", () => told.status === "ok");
});
