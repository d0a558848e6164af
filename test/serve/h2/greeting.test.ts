// What the server says first, byte for byte: peers act on it before they have sent anything, and bounds that are not
// told are met by honest peers.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { h2Transport } from "#serve/h2/transport.ts";
import { fakeClock } from "../../kit/clock.ts";
import { PacedSocket, turns } from "../../kit/memory-peer.ts";
import { memoryLog, portSettings } from "../../kit/port.ts";

/** What a peer that says nothing is told, in hexadecimal. */
async function greeting(maxHeaderBytes: number): Promise<string> {
  const { http, grpc } = portSettings({ http: { max_header_bytes: maxHeaderBytes } });
  const transport = h2Transport({
    ...{ http, grpc, clock: fakeClock(), log: memoryLog(), meter: undefined },
    answer: () => assert.fail("nobody calls"),
  });
  const heard: Buffer[] = [];
  const socket = new PacedSocket((bytes) => heard.push(Buffer.from(bytes)));
  transport.inject(socket as unknown as Socket);
  await turns();
  transport.cut();
  socket.destroy();
  return Buffer.concat(heard).toString("hex");
}

const hex = (text: string) => text.replaceAll(/\s/g, "");

const settings = (maxHeaderList: string) => `
  000018 04 00 00000000
  0001 00001000
  0003 000003e8
  0004 00040000
  0006 ${maxHeaderList}`;
/** From 65 535 to 1 MiB. */
const WINDOW_UPDATE = "000004 08 00 00000000 000f0001";

test("the greeting: table 4 KiB, 1 000 streams, windows of 256 KiB and 1 MiB, headers of 64 KiB", async () => {
  assert.equal(await greeting(1_048_576), hex(settings("00010000") + WINDOW_UPDATE));
});

test("a smaller bound on headers is told, and none means the usual one", async () => {
  assert.equal(await greeting(8_192), hex(settings("00002000") + WINDOW_UPDATE));
  assert.equal(await greeting(0), hex(settings("00010000") + WINDOW_UPDATE));
});
