// What checks allocate, what a server holds under full load, and what a key costs.

import { kilobytes, megabytes, say } from "./report.ts";
import { runOnce, warm } from "./rounds.ts";
import { freeTarget, type Sluice, startSluice } from "./servers.ts";
import type { Size } from "./size.ts";
import type { Stage } from "./stage.ts";

/** Seconds of full load. */
const LOADED = 3;
/** MB of room for new objects: no collection takes place until it is full. */
const ROOM = 512;
const COUNTED = 20_000;

export async function loaded({ folders }: Stage): Promise<void> {
  const server = await startSluice({ target: await freeTarget(), policies: folders.one });
  const contestant = { name: "loaded", shape: "auth", server } as const;
  const requests = await warm(contestant, LOADED);
  server.peak();
  await runOnce(contestant, requests);
  say("most resident memory under full load", "≤ 150 MB", megabytes(server.peak()));
  await server.stop();
}

/** Exact: with room for all of it nothing is taken away, and what is used grows by what is allocated. */
export async function allocated({ folders }: Stage): Promise<void> {
  const flags = [`--min-semi-space-size=${ROOM}`, `--max-semi-space-size=${ROOM}`];
  const server = await startSluice({ target: await freeTarget(), policies: folders.one, flags });
  await warm({ name: "allocated", shape: "auth", server }, 1);
  let bytes: number | undefined;
  for (let requests = COUNTED; bytes === undefined && requests > 100; requests >>= 1) {
    bytes = await growth(server, requests);
  }
  const found = bytes === undefined ? "collections took place" : kilobytes(bytes);
  say("bytes allocated per check, ArrayBuffers included", "≤ 4 kB", found);
  await server.stop();
}

/** Per check; undefined when something was collected meanwhile. */
async function growth(server: Sluice, requests: number): Promise<number | undefined> {
  await server.held();
  const seen: Usage[] = [];
  const look = async () => {
    seen.push(usage(await server.ask("used")));
  };
  await runOnce({ shape: "auth", server }, requests, { opened: look, answered: look });
  const [before, after] = seen;
  if (before === undefined || after?.collections !== before.collections) return undefined;
  return (after.used - before.used) / requests;
}

interface Usage {
  readonly used: number;
  readonly collections: number;
}

function usage(told: unknown): Usage {
  return told as Usage;
}

/** A fresh server, so that the keys are all it has to remember. */
export async function keys({ folders }: Stage, size: Size): Promise<void> {
  const server = await startSluice({ target: await freeTarget(), policies: folders.one });
  const contestant = { shape: "auth", server } as const;
  await runOnce(contestant, 20_000, { keys: 1 });
  // Code of the start is set free only now; keys would seem to cost less than nothing.
  await server.held();
  await runOnce(contestant, 20_000, { keys: 1 });
  const before = await server.held();
  await runOnce(contestant, size.keys, { keys: size.keys });
  const perKey = ((await server.held()) - before) / size.keys;
  say(`(d) bytes per key of ${size.keys}, ArrayBuffers included`, "≤ 64", perKey.toFixed(1));
  await server.stop();
}
