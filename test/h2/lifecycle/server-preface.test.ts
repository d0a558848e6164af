// The server's connection preface, byte for byte: clients act on it before they have sent anything, and honest
// clients would exceed limits that it does not announce.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { Http2Server } from "#h2/http2-server.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { PacedSocket, turns } from "../../kit/clients/memory-peer.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { portSettings } from "../../kit/sluice/port.ts";

/** The bytes that the server sends to a silent peer, in hexadecimal. */
async function serverPreface(maxHeaderBytes: number): Promise<string> {
  const { http, grpc } = portSettings({ http: { max_header_bytes: maxHeaderBytes } });
  const transport = new Http2Server({
    scheduler: new ReadScheduler(fakeClock()),
    settings: { ...http, ...grpc },
    clock: fakeClock(),
    log: memoryLog(),
    meter: undefined,
    handleRequest: () => assert.fail("the silent peer makes no call"),
  });
  const received: Buffer[] = [];
  const socket = new PacedSocket((bytes) => received.push(Buffer.from(bytes)));
  transport.accept(socket as unknown as Socket);
  await turns();
  transport.cut();
  socket.destroy();
  return Buffer.concat(received).toString("hex");
}

const hex = (text: string) => text.replaceAll(/\s/g, "");

const settings = (maxHeaderList: string) => `
  000018 04 00 00000000
  0001 00001000
  0003 000003e8
  0004 00040000
  0006 ${maxHeaderList}`;
/** Raises the connection window from 65 535 bytes to 1 MiB. */
const WINDOW_UPDATE = "000004 08 00 00000000 000f0001";

test("announces a 4 KiB table, 1 000 streams, windows of 256 KiB and 1 MiB, and headers of 64 KiB", async () => {
  assert.equal(await serverPreface(1_048_576), hex(settings("00010000") + WINDOW_UPDATE));
});

test("announces a smaller max_header_bytes, and the default where it is 0", async () => {
  assert.equal(await serverPreface(8_192), hex(settings("00002000") + WINDOW_UPDATE));
  assert.equal(await serverPreface(0), hex(settings("00010000") + WINDOW_UPDATE));
});
