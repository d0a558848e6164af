// Reading field blocks: which ones are cached and how much memory that takes, trailers beyond the limits, and which
// peer the log names for faults.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { RequestHead } from "#h2/exchange.ts";
import { FieldBlockCache } from "#h2/fields/block-cache.ts";
import { FieldBlockReader } from "#h2/fields/block-reader.ts";
import {
  BUFFERED_PER_FIELD_BYTE,
  MAX_BLOCK_CACHE,
  MAX_HEADER_LIST_SIZE,
  RESET_BURST,
} from "#h2/limits.ts";
import {
  CODES,
  data,
  END_HEADERS,
  END_STREAM,
  GOAWAY,
  grpcFields,
  headerFrames,
  headers,
  httpFields,
  message,
  RST_STREAM,
  repeated,
} from "../../kit/clients/h2.ts";
import { block, indexed, literal } from "../../kit/clients/hpack.ts";
import { type MemoryPeer, memoryServer } from "../../kit/clients/memory-peer.ts";

const MAX_FIELDS = 1_000;

const TRAILERS = END_HEADERS | END_STREAM;
const say = block(grpcFields("/test.Heads/Say"));
const services = [
  {
    name: "test.Heads",
    methods: { Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes } },
  },
] as const;

function headReader(): FieldBlockReader {
  const keeper = { reserve: () => true, release() {} };
  return new FieldBlockReader(
    { maxHeaderList: MAX_HEADER_LIST_SIZE, maxFields: MAX_FIELDS },
    () => undefined,
    () => undefined,
    keeper,
  );
}

/** The fields of a head that is not malformed. */
function fieldsOf(reader: FieldBlockReader, bytes: Buffer) {
  const head = reader.request(bytes, 0, bytes.length);
  return head?.flaw === "malformed" ? undefined : head?.fields;
}

test("decodes a block that inserts entries every time, as it changes the table every time", () => {
  const reader = headReader();
  const get = block(httpFields("GET", "/"));
  const older = Buffer.concat([get, literal(["x-older", "1"], true)]);
  const newer = Buffer.concat([get, literal(["x-newer", "2"], true)]);
  fieldsOf(reader, older);
  for (let times = 0; times < 2; times++)
    assert.deepEqual(fieldsOf(reader, newer), ["x-newer", "2"]);
  const all = Buffer.concat([get, indexed(62), indexed(63), indexed(64)]);
  assert.deepEqual(fieldsOf(reader, all), ["x-newer", "2", "x-newer", "2", "x-older", "1"]);
});

test("finds a block without insertions in the cache until the table changes", () => {
  const reader = headReader();
  const get = block(httpFields("GET", "/"));
  const read = (bytes: Buffer) => reader.request(bytes, 0, bytes.length);
  const head = read(get);
  assert.equal(read(get), head);
  read(Buffer.concat([get, literal(["x-new", "1"], true)]));
  assert.notEqual(read(get), head);
});

test("caches the newest heads within a memory budget", () => {
  const small = { size: 100, flaw: undefined } as RequestHead;
  const blocks = Array.from({ length: 100 }, (_, at) => Buffer.from(`block ${at}`));
  const known = (remembered: FieldBlockCache) =>
    blocks.filter((bytes) => remembered.find(bytes, 0, bytes.length, 1) !== undefined);
  for (const size of [100, 500, 1_000, 2_000, 3_500]) {
    const remembered = new FieldBlockCache();
    for (const bytes of blocks) remembered.add(bytes, 0, bytes.length, 1, { ...small, size });
    const kept = known(remembered);
    assert.deepEqual(kept, blocks.slice(-kept.length), `${size}`);
    const bytes = kept.length * size * BUFFERED_PER_FIELD_BYTE;
    assert.ok(bytes <= MAX_BLOCK_CACHE, `${kept.length} heads of ${size}`);
    assert.ok(bytes > MAX_BLOCK_CACHE / 4, `${kept.length} heads of ${size}`);
  }
  const remembered = new FieldBlockCache();
  for (const bytes of blocks) {
    const most = Buffer.concat([Buffer.alloc(1_000), bytes]);
    remembered.add(most, 0, most.length, 1, small);
    assert.notEqual(remembered.find(most, 0, most.length, 1), undefined);
  }
  const longs = blocks.filter((bytes) => {
    const most = Buffer.concat([Buffer.alloc(1_000), bytes]);
    return remembered.find(most, 0, most.length, 1) !== undefined;
  });
  assert.ok(longs.length * 1_000 <= MAX_BLOCK_CACHE, `${longs.length} blocks of 1 kB`);
});

test("evicts blocks of older table generations", () => {
  const head = { size: 3_000, flaw: undefined } as RequestHead;
  const bytes = Buffer.from("block");
  const remembered = new FieldBlockCache();
  for (let generation = 0; generation < 20; generation++) {
    remembered.add(bytes, 0, bytes.length, generation, head);
    assert.equal(remembered.find(bytes, 0, bytes.length, generation), head);
    assert.equal(remembered.find(bytes, 0, bytes.length, generation - 1), undefined);
  }
});

test("validates repeated long strings once, names and values separately", () => {
  const get = block(httpFields("GET", "/"));
  const read = (...fields: readonly (readonly [string, string])[]) =>
    fieldsOf(headReader(), Buffer.concat([get, block(fields)]));
  const fine = "x".repeat(300);
  const upper = "X".repeat(300);
  const split = `${fine}\r\n${fine}`;
  assert.equal(read([fine, upper], ["y", fine], [fine, upper])?.length, 6);
  assert.equal(
    read(["y", upper], [upper, "1"]),
    undefined,
    "a valid value is not always a valid name",
  );
  assert.equal(read([fine, fine], ["y", split]), undefined);
  assert.equal(read([fine, fine], [fine, ` ${fine}`]), undefined);
  assert.equal(read([upper, fine]), undefined);
});

/** Starts a server that ends with the test. */
async function startServer(t: TestContext) {
  const server = memoryServer(services);
  t.after(() => server.transport.cut());
  const connect = async () => {
    const peer = await server.connect();
    t.after(() => peer.socket.destroy());
    return peer;
  };
  return { ...server, connect, peer: await connect() };
}

const resetOf = (peer: MemoryPeer, stream: number) => {
  const code = peer.of(RST_STREAM, stream)[0]?.payload.readUInt32BE(0);
  return code === undefined ? undefined : CODES[code];
};

test("trailers beyond the limits are a stream error, whatever their fields", async (t) => {
  const { peer, faults } = await startServer(t);
  const long = block([["x-long", "l".repeat(MAX_HEADER_LIST_SIZE)]]);
  const many = repeated(indexed(15), MAX_FIELDS + 1);
  const forbidden = block([["connection", "close"]]);
  const wrong = [long, many, Buffer.concat([long, forbidden]), Buffer.concat([many, forbidden])];
  let stream = -1;
  for (const [at, trailers] of wrong.entries()) {
    stream += 2;
    await peer.send(headers(stream, say), data(stream, message()), headerFrames(stream, trailers));
    assert.equal(resetOf(peer, stream), "ENHANCE_YOUR_CALM");
    assert.deepEqual(faults, Array(at + 1).fill("header_list"));
  }
  stream += 2;
  const most = repeated(indexed(15), MAX_FIELDS);
  await peer.send(headers(stream, say), data(stream, message()), headers(stream, most, TRAILERS));
  assert.equal(resetOf(peer, stream), undefined, "trailers at the limit were refused");
  assert.equal(faults.length, wrong.length);
});

test("trailers beyond the limits draw on the budget of broken streams", async (t) => {
  const { peer, faults } = await startServer(t);
  const many = repeated(indexed(15), MAX_FIELDS + 1);
  for (let sent = 0; sent <= RESET_BURST; sent++) {
    const id = 2 * sent + 1;
    peer.socket.push(Buffer.concat([headers(id, say), headers(id, many, TRAILERS)]));
  }
  await peer.send();
  assert.equal(CODES[peer.of(GOAWAY)[0]?.payload.readUInt32BE(4) ?? 0], "ENHANCE_YOUR_CALM");
  assert.equal(faults.at(-1), "made_reset");
});

test("logs at most one line a minute for faults, naming the fault and the peer", async (t) => {
  const { peer, connect, log, clock, faults } = await startServer(t);
  const lines = () =>
    log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields ?? {});
  const malformed = block([["X-UPPER", "case"]]);
  assert.deepEqual(lines(), []);
  for (let sent = 0; sent < 100; sent++) await peer.send(headers(2 * sent + 1, malformed));
  assert.equal(faults.length, 100);
  const first = { fault: "malformed_request", peer: "127.0.0.1", faults_since_last_line: 1 };
  assert.deepEqual(lines(), [first]);

  clock.advance(59_000);
  await peer.send(headers(201, malformed));
  assert.equal(lines().length, 1);
  clock.advance(1_001);
  assert.equal(lines().length, 1, "a line was logged without a fault");
  await (await connect()).send(data(1, message()));
  const second = { fault: "protocol", peer: "127.0.0.1", faults_since_last_line: 101 };
  assert.deepEqual(lines(), [first, second]);
});
