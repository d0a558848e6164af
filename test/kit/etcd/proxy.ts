// A TCP proxy in front of a server. A test can cut it, slow it down, let it swallow everything, and open it again.

import { connect, createServer, type Socket } from "node:net";
import type { Ending } from "../ending.ts";

export interface Proxy {
  /** `http://host:port`, for clients. */
  readonly endpoint: string;
  /** Resets all connections; new ones are reset too, until `open`. */
  cut(): void;
  /** Accepts and reads, and passes nothing on in either direction, until `open`. */
  swallow(): void;
  /** Passes everything on so many milliseconds late, in each direction, until `open`. */
  delay(ms: number): void;
  open(): void;
  /** Connections that were accepted so far, and those that are open now. */
  readonly accepted: () => number;
  readonly connections: () => number;
  /** Pieces of data that the server has sent so far. */
  readonly pieces: () => number;
}

/** `listen`: an address of this machine instead of a free port of 127.0.0.1, as `host:port`. */
export async function startProxy(
  test: Ending,
  target: string,
  listen = "127.0.0.1:0",
): Promise<Proxy> {
  let state: "open" | "cut" | "swallowing" = "open";
  let late = 0;
  let accepted = 0;
  let pieces = 0;
  const sockets = new Set<Socket>();
  const [host = "", port = ""] = target.replace(/^https?:\/\//, "").split(":");
  const server = createServer((near) => {
    accepted += 1;
    if (state === "cut") {
      near.resetAndDestroy();
      return;
    }
    const far = connect(Number(port), host);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("error", () => undefined);
      from.on("data", (bytes) => {
        if (from === far) pieces += 1;
        const pass = () => void (state === "open" && to.writable && to.write(bytes));
        // Timers of one length fire in the order in which they were set.
        if (late === 0) pass();
        else setTimeout(pass, late);
      });
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  const [ownHost = "", ownPort = ""] = listen.split(":");
  await new Promise<void>((listening) => server.listen(Number(ownPort), ownHost, listening));
  const reset = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  test.after(async () => {
    reset();
    await new Promise((closed) => server.close(closed));
  });
  const address = server.address();
  const own = typeof address === "object" && address !== null ? address.port : 0;
  return {
    endpoint: `http://${ownHost}:${own}`,
    cut: () => {
      state = "cut";
      reset();
    },
    swallow: () => {
      state = "swallowing";
    },
    delay: (ms) => {
      late = ms;
    },
    open: () => {
      // Swallowed bytes are lost, and late ones would be overtaken, so no connection may go on.
      if (state === "swallowing" || late > 0) reset();
      late = 0;
      state = "open";
    },
    accepted: () => accepted,
    connections: () => sockets.size / 2,
    pieces: () => pieces,
  };
}
