// Memory: bytes that a check allocates, memory of a server under full load, and the cost of a key.

import { kilobytes, megabytes, printRow } from "../measure/report.ts";
import { runOnce, warm } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import type { ServerPool } from "../servers/pool.ts";
import { freeTarget } from "../servers/processes.ts";
import { type Sluice, startSluice } from "../servers/sluice.ts";

/** Length of the full load, in seconds. */
const LOADED = 3;
/** Size of the young generation, in MB: no collection takes place until it is full. */
const ROOM = 512;
const COUNTED = 20_000;

export async function loaded({ folders }: ServerPool): Promise<void> {
  const server = await startSluice({ target: await freeTarget(), policies: folders.one });
  const contestant = { name: "loaded", shape: "auth", server } as const;
  const requests = await warm(contestant, LOADED);
  server.peak();
  await runOnce(contestant, requests);
  printRow("most resident memory under full load", "≤ 150 MB", megabytes(server.peak()));
  await server.stop();
}

/** Exact: no collection takes place, so memory grows by exactly the bytes that are allocated. */
export async function allocated({ folders }: ServerPool): Promise<void> {
  const flags = [`--min-semi-space-size=${ROOM}`, `--max-semi-space-size=${ROOM}`];
  const server = await startSluice({ target: await freeTarget(), policies: folders.one, flags });
  await warm({ name: "allocated", shape: "auth", server }, 1);
  let bytes: number | undefined;
  for (let requests = COUNTED; bytes === undefined && requests > 100; requests >>= 1) {
    bytes = await growth(server, requests);
  }
  const found = bytes === undefined ? "collections took place" : kilobytes(bytes);
  printRow("bytes allocated per check, ArrayBuffers included", "≤ 4 kB", found);
  await server.stop();
}

/** Bytes per check; undefined when a collection took place meanwhile. */
async function growth(server: Sluice, requests: number): Promise<number | undefined> {
  await server.held();
  const seen: Usage[] = [];
  const look = async () => {
    seen.push((await server.probe("used")) as Usage);
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

/** Uses a fresh server, which holds nothing but these keys. */
export async function keys({ folders }: ServerPool, size: Size): Promise<void> {
  const server = await startSluice({ target: await freeTarget(), policies: folders.one });
  const contestant = { shape: "auth", server } as const;
  await runOnce(contestant, 20_000, { keys: 1 });
  // Memory of the start is freed only now; otherwise keys would seem to cost less than nothing.
  await server.held();
  await runOnce(contestant, 20_000, { keys: 1 });
  const before = await server.held();
  await runOnce(contestant, size.keys, { keys: size.keys });
  const perKey = ((await server.held()) - before) / size.keys;
  printRow(`(d) bytes per key of ${size.keys}, ArrayBuffers included`, "≤ 64", perKey.toFixed(1));
  await server.stop();
}
