import assert from "node:assert/strict";
import { test } from "node:test";
import { Displacement } from "#serve/listen/displacement.ts";

const ADDRESS = "192.0.2.1";

/** Connections of one address, and the names of those that were closed, in order. */
function connections() {
  const displacement = new Displacement();
  const closed: string[] = [];
  const add = (name: string, { busy = false, hasCalled = true, address = ADDRESS } = {}) => {
    const connection = {
      read: 0,
      readAtInspection: 0,
      quietInspections: 0,
      hasCalled,
      busy,
      closeIdle() {
        if (connection.busy) return false;
        closed.push(name);
        displacement.remove(address, connection);
        return true;
      },
    };
    displacement.add(address, connection);
    return connection;
  };
  return { displacement, closed, add };
}

test("closes the oldest connection first", () => {
  const { displacement, closed, add } = connections();
  add("first");
  add("second");
  assert.equal(displacement.makeRoom(ADDRESS), true);
  assert.equal(displacement.makeRoom(ADDRESS), true);
  assert.equal(displacement.makeRoom(ADDRESS), false, "none is left");
  assert.deepEqual(closed, ["first", "second"]);
});

test("closes a connection that has sent something since the last look after those that have not", () => {
  const { displacement, closed, add } = connections();
  add("used").read = 100;
  add("unused");
  for (let times = 0; times < 2; times++) displacement.makeRoom(ADDRESS);
  assert.deepEqual(closed, ["unused", "used"]);
});

test("closes a connection without any call first, however much it has sent", () => {
  const { displacement, closed, add } = connections();
  add("used");
  add("never used", { hasCalled: false }).read = 100;
  for (let times = 0; times < 2; times++) displacement.makeRoom(ADDRESS);
  assert.deepEqual(closed, ["never used", "used"]);
});

test("closes the connection that has been quiet for longest, and none that was served while others await their turn", () => {
  const { displacement, closed, add } = connections();
  const regular = add("regular");
  const busy = add("busy", { busy: true });
  const lazy = add("lazy");
  for (let look = 1; look < 4; look++) {
    if (look !== 2) regular.read += 10;
    lazy.read = look === 1 ? 10 : lazy.read;
    regular.busy = lazy.busy = true;
    displacement.makeRoom(ADDRESS);
  }
  regular.busy = lazy.busy = false;
  assert.equal(displacement.makeRoom(ADDRESS), true);
  assert.deepEqual(closed, ["lazy"]);
  busy.busy = false;
  const waiting = add("waiting", { hasCalled: false, busy: true });
  assert.equal(displacement.makeRoom(ADDRESS), false);
  waiting.busy = false;
  assert.equal(displacement.makeRoom(ADDRESS), true);
  assert.deepEqual(closed, ["lazy", "waiting"]);
});

test("closes an idle connection even if all have sent something", () => {
  const { displacement, closed, add } = connections();
  add("busy", { busy: true }).read = 100;
  add("idle").read = 100;
  assert.equal(displacement.makeRoom(ADDRESS), true);
  assert.deepEqual(closed, ["idle"]);
});

test("closes no connection with a call in progress, and none of another address", () => {
  const { displacement, closed, add } = connections();
  add("busy", { busy: true });
  add("elsewhere", { address: "192.0.2.2" });
  assert.equal(displacement.makeRoom(ADDRESS), false);
  assert.deepEqual(closed, []);
});

test("looks at a bounded number of connections each time, and at others the next time", () => {
  const { displacement, closed, add } = connections();
  for (let each = 0; each < 40; each++) add(`busy ${each}`, { busy: true });
  add("idle");
  assert.equal(displacement.makeRoom(ADDRESS), false);
  assert.equal(displacement.makeRoom(ADDRESS), true);
  assert.deepEqual(closed, ["idle"]);
});
